"""Samples of ops that read, write or count elements: gather, getitem, put, bincount and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.cases._data import (
    DTYPES,
    FEW,
    MANY,
    Array,
    by_column,
    folded,
    indices,
    kind,
    one_of_the_writes,
    rounded_once,
    values,
)
from conformance.suite.sample import OpInfo, Sample
from spec import oracles


def _index_put() -> Iterator[Sample]:
    """Yields rows written and added; two index arrays around a slice; and a quantized array."""
    for name, dtype in DTYPES.items():
        yield _rows(f"{name}_added", kind(name), dtype, accumulate=True)
    yield _rows("written", "floating", np.float32, accumulate=False)
    yield _quantized()
    for accumulate in (False, True):
        yield Sample(
            name="two_arrays" + "_added" * accumulate,
            facts={"dtype": "floating", "input_ndim": 3, "accumulate": accumulate},
            call=lambda ns, x, i, j, v, a=accumulate: ns.index_put(x, (i, None, j), v, a),
            arrays=(
                values((2, 3, FEW), np.float32),
                indices((MANY,), 2) - 1,  # Negative indices count from the end.
                indices((MANY,)),
                values((MANY, 3), np.float32),
            ),
            expected=lambda x, i, j, v, a=accumulate: _two_arrays(x, i, j, v, _reference(a)),
            ordered=lambda x, i, j, v, a=accumulate: _two_arrays(x, i, j, v, _oracle(a)),
            accept=None if accumulate else _accept_two_arrays,
        )


def _rows(name: str, dtype_fact: str, dtype: Any, *, accumulate: bool) -> Sample:
    differentiable = accumulate and dtype is not np.int32
    return Sample(
        name=name,
        facts={"dtype": dtype_fact, "input_ndim": 2, "accumulate": accumulate},
        call=lambda ns, x, i, v: ns.index_put(x, (i,), v, accumulate),
        arrays=(values((FEW, 3), dtype), indices((MANY,)), values((MANY, 3), dtype, 1)),
        expected=_reference(accumulate),
        ordered=_oracle(accumulate),
        wrt=2 if differentiable else None,
        expected_gradient=lambda ct, x, i, v: ct[i].astype(np.float64),
        ordered_gradient=lambda ct, x, i, v: ct[i],
        choices=rounded_once("narrow" if dtype is DTYPES["narrow"] else name, "forward"),
        accept=None if accumulate else one_of_the_writes,
    )


def _quantized() -> Sample:
    """Returns a sample that writes floats into a quantized array. Its arrays hold the codes."""

    def call(ns: Any, x: Array, i: Array, v: Array) -> Any:
        quantized = ns.quantize_per_tensor(x * np.float32(0.5), 0.5, 0, ns.qint8)
        return ns.index_put(quantized, (i,), v * np.float32(0.5)).int_repr

    def ordered(x: Array, i: Array, v: Array) -> Array:
        return np.asarray(oracles.last_write(x, i, v)).astype(np.int8)

    codes = values((MANY + FEW, 3), np.int32).astype(np.float32)
    return Sample(
        name="quantized",
        facts={"dtype": "integer", "input_ndim": 2, "accumulate": False},
        call=call,
        arrays=(codes[:FEW], indices((MANY,)), codes[FEW:]),
        expected=ordered,
        ordered=ordered,
        accept=one_of_the_writes,
    )


def _flattened(x: Array) -> Array:
    """Flattens the two indexed dimensions together, in front of the other dimension."""
    return x.transpose(0, 2, 1).reshape(-1, x.shape[1])


def _two_arrays(x: Array, i: Array, j: Array, v: Array, write: Any) -> Array:
    rows = np.asarray(write(_flattened(x), i % 2 * FEW + j, v))
    return rows.reshape(x.shape[0], x.shape[2], -1).transpose(0, 2, 1)


def _accept_two_arrays(result: Array, x: Array, i: Array, j: Array, v: Array) -> None:
    one_of_the_writes(_flattened(result), _flattened(x), i % 2 * FEW + j, v)


def _oracle(accumulate: bool) -> Any:
    return oracles.source if accumulate else oracles.last_write


def _reference(accumulate: bool) -> Any:
    return folded if accumulate else oracles.last_write


def _put() -> Iterator[Sample]:
    """Yields elements of two dimensions, added for each dtype and written for floats."""
    for name, dtype in DTYPES.items():
        yield _sample(f"{name}_added", kind(name), dtype, accumulate=True)
    yield _sample("written", "floating", np.float32, accumulate=False)


def _sample(name: str, dtype_fact: str, dtype: Any, *, accumulate: bool) -> Sample:
    differentiable = accumulate and dtype is not np.int32
    write = oracles.source if accumulate else oracles.last_write
    return Sample(
        name=name,
        facts={
            "dtype": dtype_fact,
            "input_ndim": 2,
            "accumulate": accumulate,
            "unique_indices": False,
        },
        call=lambda ns, x, i, s: ns.put(x, i, s, accumulate),
        arrays=(
            values((FEW, 3), dtype),
            indices((2, MANY), 2 * FEW) - FEW,  # Negative indices count from the end.
            values((MANY, 2), dtype, 1),
        ),
        expected=lambda x, i, s: _flat(folded if accumulate else write, x, i, s),
        ordered=lambda x, i, s: _flat(write, x, i, s),
        wrt=2 if differentiable else None,
        expected_gradient=lambda ct, x, i, s: _read(ct, i).astype(np.float64),
        ordered_gradient=lambda ct, x, i, s: _read(ct, i),
        choices=rounded_once("narrow" if dtype is DTYPES["narrow"] else name, "forward"),
        accept=None if accumulate else _accept,
    )


def _flat(write: Any, x: Array, i: Array, s: Array) -> Array:
    index = i.reshape(-1) % x.size
    return np.asarray(write(x.reshape(-1), index, s.reshape(-1))).reshape(x.shape)


def _read(ct: Array, i: Array) -> Array:
    return np.asarray(ct.reshape(-1)[i.reshape(-1)].reshape(-1, 2))


def _accept(result: Array, x: Array, i: Array, s: Array) -> None:
    one_of_the_writes(result.reshape(-1), x.reshape(-1), i.reshape(-1) % x.size, s.reshape(-1))


def _bincount() -> Iterator[Sample]:
    """Yields a call with weights and a call without."""
    numbers = indices((MANY,))
    yield Sample(
        name="weights",
        facts={"dtype": "floating", "input_ndim": 1, "weights": True},
        call=lambda ns, n, w: ns.bincount(n, w, length=FEW),
        arrays=(numbers, values((MANY,), np.float32)),
        expected=lambda n, w: np.bincount(n, w, FEW),
        ordered=lambda n, w: oracles.source(np.zeros(FEW, w.dtype), n, w),
        wrt=1,
        expected_gradient=lambda ct, n, w: ct[n],
        ordered_gradient=lambda ct, n, w: ct[n],
    )
    yield Sample(
        name="counts",
        facts={"dtype": "integer", "input_ndim": 1, "weights": False},
        call=lambda ns, n: ns.bincount(n, length=FEW),
        arrays=(numbers,),
        expected=lambda n: np.bincount(n, minlength=FEW),
        ordered=lambda n: np.bincount(n, minlength=FEW).astype(np.int32),
    )


_BINS = 7


def _histc() -> Iterator[Sample]:
    """Yields a range that excludes some elements, for each dtype, and the range of the data."""
    for name, dtype in DTYPES.items():
        low, high = (-5, 9) if dtype is np.int32 else (-0.75, 1.1)
        data = values((MANY,), dtype)
        # A value at the edge of a bin shows a quotient that is off by one bit.
        data[: _BINS + 1] = (low + np.arange(_BINS + 1) * (high - low) / _BINS).astype(dtype)
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 1},
            call=lambda ns, x, low=low, high=high: ns.histc(x, _BINS, low, high),
            arrays=(data,),
            expected=lambda x, low=low, high=high: _counts(x, low, high),
            ordered=lambda x, low=low, high=high: _counts(x, low, high),
            choices={
                "forward": "Bins are found in float32; PyTorch's of bfloat16 have other edges."
            }
            if name == "narrow"
            else {},
        )
    numbers = values((2, 1200), np.float32)
    yield Sample(
        name="range_of_data",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x: ns.histc(x, _BINS),
        arrays=(numbers,),
        expected=lambda x: _counts(x.reshape(-1), x.min(), x.max()),
        ordered=lambda x: _counts(x.reshape(-1), x.min(), x.max()),
    )


def _counts(x: Array, low: float, high: float) -> Array:
    """Returns ones added, in the bins that the op's documentation states."""
    wide: Array = x.astype(np.float32) if x.dtype.kind != "i" else x.astype(np.int64)
    ends: Array = np.array([low, high]).astype(x.dtype).astype(wide.dtype)
    least, most = ends
    scaled = (wide - least) * wide.dtype.type(_BINS)
    quotient = scaled // (most - least) if wide.dtype.kind == "i" else scaled / (most - least)
    bin = np.minimum(np.trunc(quotient), _BINS - 1).astype(np.int64)
    bin = np.where((wide >= least) & (wide <= most), bin, -1)
    return oracles.source(np.zeros(_BINS, x.dtype), bin, np.ones_like(x))


def _gather() -> Iterator[Sample]:
    """Yields a number, one dimension, and two dimensions."""
    yield Sample(
        name="number",
        facts={"dtype": "floating", "input_ndim": 0},
        call=lambda ns, x, i: ns.gather(x, 0, i),
        arrays=(np.ones((), np.float32), np.zeros((), np.int32)),
        expected=lambda x, i: x,
        wrt=0,
        expected_gradient=lambda ct, x, i: ct,
        ordered_gradient=lambda ct, x, i: ct,
    )
    for lanes in ((), (3,)):
        yield Sample(
            name=f"{len(lanes) + 1}d",
            facts={"dtype": "floating", "input_ndim": 1 + len(lanes)},
            call=lambda ns, x, i: ns.gather(x, 0, i),
            arrays=(values((FEW, *lanes), np.float32), indices((MANY, *lanes))),
            expected=lambda x, i: np.take_along_axis(x, i, 0),
            ordered=lambda x, i: np.take_along_axis(x, i, 0),
            wrt=0,
            expected_gradient=lambda ct, x, i: by_column(folded, np.zeros_like(x), i, ct),
            ordered_gradient=lambda ct, x, i: by_column(oracles.source, np.zeros_like(x), i, ct),
        )


def _getitem() -> Iterator[Sample]:
    """Yields an array of indices, a list with two arrays around a slice, and slices alone."""
    yield Sample(
        name="array",
        facts={"dtype": "floating", "input_ndim": 2, "index_is_list": True},
        call=lambda ns, x, i: ns.getitem(x, i),
        arrays=(values((FEW, 3), np.float32), indices((MANY,))),
        expected=lambda x, i: x[i],
        ordered=lambda x, i: x[i],
        wrt=0,
        expected_gradient=lambda ct, x, i: folded(np.zeros_like(x), i, ct),
        ordered_gradient=lambda ct, x, i: oracles.source(np.zeros_like(x), i, ct),
    )
    yield Sample(
        name="list_of_arrays",
        facts={"dtype": "floating", "input_ndim": 3, "index_is_list": True},
        call=lambda ns, x, i, j: ns.getitem(x, [i, slice(1, None), j]),
        arrays=(
            values((2, 4, FEW), np.float32),
            indices((MANY // 50, 1), 2) - 1,  # Negative indices count from the end.
            indices((50,)),
        ),
        expected=lambda x, i, j: x[i, 1:, j],
        ordered=lambda x, i, j: x[i, 1:, j],
        wrt=0,
        expected_gradient=lambda ct, x, i, j: _of_list(ct, x, i, j, folded),
        ordered_gradient=lambda ct, x, i, j: _of_list(ct, x, i, j, oracles.source),
    )
    yield Sample(
        name="slices",
        facts={"dtype": "floating", "input_ndim": 3, "index_is_list": False},
        call=lambda ns, x: ns.getitem(x, (slice(None, None, 2), None, -1, ...)),
        arrays=(values((FEW, 4, 3), np.float32),),
        expected=lambda x: x[::2, None, -1],
        ordered=lambda x: x[::2, None, -1],
        wrt=0,
        expected_gradient=_of_slices,
        ordered_gradient=_of_slices,
    )


def _of_list(ct: Array, x: Array, i: Array, j: Array, add: Any) -> Array:
    """Flattens the two indexed dimensions together. The other dimension is a lane."""
    flat = (np.where(i < 0, i + 2, i) * FEW + j).reshape(-1)
    rows = add(np.zeros((2 * FEW, 3), np.float32), flat, ct.reshape(-1, 3))
    out = np.zeros(x.shape, rows.dtype)
    out[:, 1:] = rows.reshape(2, FEW, 3).transpose(0, 2, 1)
    return out


def _of_slices(ct: Array, x: Array) -> Array:
    out = np.zeros_like(x)
    out[::2, None, -1] = ct
    return out


def _index_select() -> Iterator[Sample]:
    """Yields rows along the first dimension, for each dtype that has a gradient."""
    for name, dtype in DTYPES.items():
        if dtype is np.int32:
            continue
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 2},
            call=lambda ns, x, i: ns.index_select(x, 0, i),
            arrays=(values((FEW, 3), dtype), indices((MANY,))),
            expected=lambda x, i: x[i],
            ordered=lambda x, i: x[i],
            wrt=0,
            expected_gradient=lambda ct, x, i: np.stack(
                [ct[i == row].astype(np.float64).sum(0) for row in range(FEW)]
            ),
            ordered_gradient=lambda ct, x, i: oracles.source(np.zeros_like(x), i, ct),
        )


def _take() -> Iterator[Sample]:
    """Yields elements of two dimensions, with indices from both ends."""
    yield Sample(
        name="2d",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x, i: ns.take(x, i),
        arrays=(values((2, FEW), np.float32), indices((2, MANY), 2 * FEW) - FEW),
        expected=lambda x, i: x.reshape(-1)[i],
        ordered=lambda x, i: x.reshape(-1)[i],
        wrt=0,
        expected_gradient=lambda ct, x, i: _gradient_of_take(ct, x, i, folded),
        ordered_gradient=lambda ct, x, i: _gradient_of_take(ct, x, i, oracles.source),
    )


def _gradient_of_take(ct: Array, x: Array, i: Array, add: Any) -> Array:
    zero = np.zeros(x.size, x.dtype)
    return np.asarray(add(zero, i.reshape(-1) % x.size, ct.reshape(-1))).reshape(x.shape)


def _take_along_dim() -> Iterator[Sample]:
    """Yields a read along a dimension while another is broadcast, and a read of all elements."""
    yield Sample(
        name="repeated",
        facts={"dtype": "floating", "input_ndim": 3},
        call=lambda ns, x, i: ns.take_along_dim(x, i, 1),
        arrays=(values((1, FEW, 3), np.float32), indices((5, MANY // 5, 3)) - 1),
        expected=_broadcast_read,
        ordered=_broadcast_read,
        wrt=0,
        expected_gradient=lambda ct, x, i: _gradient_of_broadcast(ct, x, i, folded),
        ordered_gradient=lambda ct, x, i: _gradient_of_broadcast(ct, x, i, oracles.source),
    )
    yield Sample(
        name="flat",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x, i: ns.take_along_dim(x, i),
        arrays=(values((2, FEW), np.float32), indices((2, MANY), 2 * FEW)),
        expected=lambda x, i: x.reshape(-1)[i.reshape(-1)],
        ordered=lambda x, i: x.reshape(-1)[i.reshape(-1)],
        wrt=0,
        expected_gradient=lambda ct, x, i: _gradient_of_flat(ct, x, i, folded),
        ordered_gradient=lambda ct, x, i: _gradient_of_flat(ct, x, i, oracles.source),
    )


def _broadcast_read(x: Array, i: Array) -> Array:
    return np.take_along_axis(np.broadcast_to(x, (5, FEW, 3)), i % FEW, 1)


def _gradient_of_broadcast(ct: Array, x: Array, i: Array, add: Any) -> Array:
    """Adds each column as a lane. The repetitions contribute one after another."""
    columns = [
        add(np.zeros(FEW, x.dtype), i[..., c].reshape(-1) % FEW, ct[..., c].reshape(-1))
        for c in range(3)
    ]
    return np.stack(columns, axis=1)[None]


def _gradient_of_flat(ct: Array, x: Array, i: Array, add: Any) -> Array:
    return np.asarray(add(np.zeros(x.size, x.dtype), i.reshape(-1), ct)).reshape(x.shape)


def _repeat_interleave() -> Iterator[Sample]:
    """Yields a number of repetitions for each row, and one number for all elements."""
    yield Sample(
        name="array",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x, r: ns.repeat_interleave(x, r, 0, output_size=MANY),
        arrays=(values((FEW, 3), np.float32), _repeats()),
        expected=lambda x, r: np.repeat(x, r, 0),
        ordered=lambda x, r: np.repeat(x, r, 0),
        wrt=0,
        expected_gradient=lambda ct, x, r: _gradient(ct, x, r, folded),
        ordered_gradient=lambda ct, x, r: _gradient(ct, x, r, oracles.source),
    )
    yield Sample(
        name="number",
        facts={"dtype": "floating", "input_ndim": 1},
        call=lambda ns, x: ns.repeat_interleave(x, MANY),
        arrays=(values((FEW,), np.float32),),
        expected=lambda x: np.repeat(x, MANY),
        ordered=lambda x: np.repeat(x, MANY),
        wrt=0,
        expected_gradient=lambda ct, x: _gradient(ct, x, MANY, folded),
        ordered_gradient=lambda ct, x: _gradient(ct, x, MANY, oracles.source),
    )


def _repeats() -> Array:
    """Returns counts of which some are zero and one is large."""
    return np.bincount(np.minimum(indices((MANY,)), 3), minlength=FEW).astype(np.int32)


def _gradient(ct: Array, x: Array, repeats: Any, add: Any) -> Array:
    return np.asarray(add(np.zeros_like(x), np.repeat(np.arange(FEW), repeats), ct))


OPS = (
    OpInfo("bincount", _bincount),
    OpInfo("gather", _gather),
    OpInfo("getitem", _getitem),
    OpInfo("histc", _histc),
    OpInfo("index_put", _index_put),
    OpInfo("index_select", _index_select),
    OpInfo("put", _put),
    OpInfo("repeat_interleave", _repeat_interleave),
    OpInfo("take", _take),
    OpInfo("take_along_dim", _take_along_dim),
)
