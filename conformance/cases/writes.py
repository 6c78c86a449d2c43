"""Samples of ops that add or write to elements by an index, or count them: index_add and others."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from conformance.cases._data import (
    DTYPES,
    UNIQUE,
    Array,
    Write,
    rounded_once,
    rows,
    source_of,
    updates,
    writing,
)
from conformance.cases._forms import (
    BOOLS,
    COLUMNS,
    COMPLEX,
    EVERY_DTYPE,
    INDEX,
    INF,
    NAN,
    NO_INDEX,
    ONE,
    POINT,
    SCALAR,
    SQUARE,
    THREE,
    TWENTY,
    WRAPPED,
    M,
    V,
    at,
    by_slices,
    drawn,
    normal,
    ones,
    small,
    spread,
    unlike_torch,
    without_gradient,
)
from conformance.cases.reads import NUMBERED, OF_TWO, PAIR, subscripts
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused
from spec import oracles


def _columns(d: Draw) -> tuple[Array, Array, Array]:
    x, index, source = updates(d, np.float32, (d.lanes,), ())
    return x.T, index, source.T


def _columns_of(x: Array, i: Array) -> Array:
    return np.asarray(x[:, i])


def _index_add(d: Draw) -> Iterator[Sample]:
    """Yields rows added along the first dimension for each dtype, and along the last dimension."""

    def call(ns: Any, x: Any, i: Any, s: Any) -> Any:
        return ns.index_add(x, 0, i, s)

    for name, dtype in DTYPES.items():
        yield writing(
            name, call, updates(d, dtype, (d.lanes,), ()), rows, facts=UNIQUE, wrt=source_of(dtype)
        )
    numbers = updates(d, np.float32, (), ())
    yield writing("one_column", call, numbers, rows, facts=UNIQUE)
    yield writing(
        "last_dim",
        lambda ns, x, i, s: ns.index_add(x, -1, i, s, alpha=2),
        _columns(d),
        _columns_of,
        lambda x, i, s: oracles.source(x, i, 2 * s),
        facts=UNIQUE,
    )


def _index_copy(d: Draw) -> Iterator[Sample]:
    """Yields rows written along the first dimension for each dtype, and along the last one."""
    by_rows = [(name, 0, updates(d, dtype, (d.lanes,), ()), rows) for name, dtype in DTYPES.items()]
    for name, dim, arrays, reach in (*by_rows, ("last_dim", -1, _columns(d), _columns_of)):
        yield writing(
            name,
            lambda ns, x, i, s, dim=dim: ns.index_copy(x, dim, i, s),
            arrays,
            reach,
            oracles.last_write,
            facts=UNIQUE,
        )


def _index_fill(d: Draw) -> Iterator[Sample]:
    """Yields rows filled along the first dimension for each dtype, and columns along the last."""
    for name, dtype in DTYPES.items():
        yield Sample(
            name=name,
            call=lambda ns, x, i: ns.index_fill(x, 0, i, 7),
            arrays=(d.values((3 * d.few, d.lanes), dtype), d.indices((d.few,), 3 * d.few) - d.few),
            ordered=lambda x, i: _filled(x, i, 7),
        )
    yield Sample(
        name="last_dim",
        call=lambda ns, x, i: ns.index_fill(x, -1, i, float(np.float32(0.99))),
        arrays=(d.values((d.lanes, 3 * d.few), np.float32), d.indices((d.few,), 3 * d.few)),
        ordered=lambda x, i: _filled(x.T, i, np.float32(0.99)).T,
        wrt=0,
        ordered_gradient=lambda ct, x, i: _filled(ct.T, i, 0).T,
    )


def _filled(x: Array, i: Array, value: Any) -> Array:
    out = x.copy()
    out[i] = value
    return out


def _adding(dtypes: Any = DTYPES) -> Iterator[tuple[str, Any, bool, Write]]:
    """Yields a name, a dtype, whether the call adds, and its oracle; the last call writes."""
    for name, dtype in dtypes.items():
        yield f"{name}_added", dtype, True, oracles.source
    yield "written", np.float32, False, oracles.last_write


def _index_put(d: Draw) -> Iterator[Sample]:
    """Yields rows written and added; two index arrays around a slice; and a quantized array."""
    for name, dtype, adds, write in _adding():
        yield writing(
            name,
            lambda ns, x, i, v, adds=adds: ns.index_put(x, (i,), v, adds),
            updates(d, dtype, (d.lanes,), ()),
            rows,
            write,
            facts={"accumulate": adds},
            wrt=source_of(dtype) if adds else None,
            choices=rounded_once(name, "forward"),
        )
    for name, _, adds, write in _adding({"two_arrays": np.float32}):
        yield writing(
            name if adds else "two_arrays",
            lambda ns, x, i, j, v, adds=adds: ns.index_put(x, (i, None, j), v, adds),
            (
                d.values((2, d.lanes, d.few), np.float32),
                d.indices((d.many,), 2) - 1,  # Negative indices count from the end.
                d.indices((d.many,)),
                d.values((d.many, d.lanes), np.float32),
            ),
            lambda x, i, j: x[i, :, j],
            write,
            facts={"accumulate": adds},
        )
    codes = d.values((d.many + d.few, d.lanes), np.int32).astype(np.float32)
    sample = writing(
        "quantized",
        _put_quantized,
        (codes[: d.few], d.indices((d.many,)), codes[d.few :]),
        rows,
        oracles.last_write,
        facts={"dtype": "integer", "accumulate": False},
    )
    of_floats: Any = sample.ordered
    yield dataclasses.replace(sample, ordered=lambda *codes: of_floats(*codes).astype(np.int8))


def _put_quantized(ns: Any, x: Any, i: Any, v: Any) -> Any:
    """Writes floats into a quantized array. The arrays hold the codes."""
    quantized = ns.quantize_per_tensor(x * np.float32(0.5), 0.5, 0, ns.qint8)
    return ns.index_put(quantized, (i,), v * np.float32(0.5)).int_repr


def _put(d: Draw) -> Iterator[Sample]:
    """Yields elements of two dimensions, added for each dtype and written for floats."""
    for name, dtype, adds, write in _adding():
        yield writing(
            name,
            lambda ns, x, i, s, adds=adds: ns.put(x, i, s, adds),
            (
                d.values((d.few, d.columns + 1), dtype),
                d.indices((2, d.many), 2 * d.few) - d.few,  # Negative indices count from the end.
                d.values((d.many, 2), dtype, 1),
            ),
            # The source has another shape than the index.
            lambda x, i: x.reshape(-1)[i].reshape(d.many, 2),
            write,
            facts={"accumulate": adds, **UNIQUE},
            wrt=source_of(dtype) if adds else None,
            choices=rounded_once(name, "forward"),
        )


def _errors_of_index_add() -> Iterator[ErrorInput]:
    yield refused(IndexError, "to be a vector, but got dim: 2", V, 0, SQUARE, ones(1))
    yield refused(RuntimeError, "3 is out of bounds", M, 0, at(0, 3), ones(2, 2))
    yield refused(RuntimeError, "-1 is out of bounds", M, 0, at(-1), ones(1, 2))
    yield refused(RuntimeError, "dimension 1 with size 2", M, 1, at(2), ones(3, 1))
    yield refused(RuntimeError, "source.shape = [1, 3]", M, 0, ONE, ones(1, 3))
    yield refused(RuntimeError, "source.shape = [1]", M, 0, ONE, ones(1))
    yield refused(RuntimeError, "Number of indices (2)", M, 0, at(0, 1), ones(1, 2))
    yield refused(TypeError, "'alpha' must be Number", V, 0, ONE, ones(1), alpha="2")
    yield refused(RuntimeError, "alpha", V, 0, ONE, ones(1), alpha=2j)
    # An IndexError in PyTorch, which has a RuntimeError for arrays of more dimensions.
    yield from unlike_torch(refused(RuntimeError, "3 is out of bounds", V, 0, at(0, 3), ones(2)))


def _errors_of_index_copy() -> Iterator[ErrorInput]:
    yield refused(IndexError, "index 3 is out of bounds", V, 0, at(0, 3), ones(2))
    yield refused(IndexError, "index -1 is out of bounds", M, 0, at(-1), ones(1, 2))
    yield refused(IndexError, "to be a vector", V, 0, SQUARE, ones(1))
    yield refused(IndexError, "Number of indices (2)", V, 0, at(0, 1), ones(1))
    yield refused(IndexError, "one element (got 2)", V, 0, at(0, 1), SCALAR)
    yield refused(IndexError, "dimensionality must match", M, 0, ONE, ones(1))
    yield refused(RuntimeError, "same slice shapes", M, 0, ONE, SCALAR)
    yield refused(RuntimeError, "source.shape = [1, 1]", M, 1, ONE, ones(1, 1))


def _errors_of_index_fill() -> Iterator[ErrorInput]:
    yield refused(IndexError, "index 3 is out of bounds", V, 0, at(0, 3), 1)
    yield refused(IndexError, "index -4 is out of bounds", V, 0, at(-4), 1)
    yield refused(TypeError, "'value' must be Number", V, 0, ONE, "1")
    yield refused(RuntimeError, "cannot be converted to float32", V, 0, ONE, 2j)
    yield refused(RuntimeError, "without overflow, got 1e+39", V, 0, ONE, 1e39)
    yield from unlike_torch(
        # PyTorch has a RuntimeError for these.
        refused(IndexError, "to be a vector, but got dim: 2", V, 0, SQUARE, 1),
        refused(TypeError, "'value' must be Number", V, 0, ONE, ones(1)),
        # An error about memory.
        refused(IndexError, "none is allowed", V[:0], 0, ONE, 1),
    )


def _errors_of_index_put() -> Iterator[ErrorInput]:
    one = ones(1)
    yield refused(TypeError, "must be tuple of arrays, not ndarray", V, at(0), one)
    yield refused(TypeError, "'indices[0]'", V, (0,), one)
    yield refused(TypeError, "not list", V, ([0],), one)
    yield refused(TypeError, "not slice", V, (slice(1),), one)
    yield refused(RuntimeError, "at least one array", V, (), one)
    yield refused(IndexError, "dimension 1 (got 2)", V, (at(0), at(0)), one)
    yield refused(RuntimeError, "values of shape [3] cannot", V, (at(0, 1),), ones(3))
    yield refused(RuntimeError, "to the indexed shape [2]", V, (at(0, 1),), ones(1, 2))
    yield refused(RuntimeError, "to the indexed shape [2]", M, (POINT,), ones(1, 2))
    yield refused(RuntimeError, "to the indexed shape [3]", V, (V > -1,), ones(2))
    yield refused(IndexError, "index 3 is out of bounds", V, (at(3),), one)
    yield refused(IndexError, "position [1]", V, (at(0, -4),), ones(2), accumulate=True)
    yield refused(IndexError, "of int16", V, (ONE.astype(np.int16),), one)
    yield refused(IndexError, "of float64", V, (at(0.0),), one)
    yield refused(IndexError, "mask [4]", V, (ones(4, dtype=bool),), one)
    yield refused(IndexError, "shapes [2], [3]", M, (at(0, 1), at(0, 1, 1)), one)
    yield refused(IndexError, "size 0", V[:0], (at(0),), one)
    yield refused(IndexError, "dimension 0", SCALAR, (POINT,), one)
    yield from unlike_torch(
        refused(RuntimeError, "at least one array", V, (None,), one),
        # PyTorch fills the whole array, and raises an error for more than one value.
        refused(RuntimeError, "without dimensions", V, (np.array(True),), one),
    )


def _errors_of_put() -> Iterator[ErrorInput]:
    yield refused(IndexError, "for an input of 3 elements", V, at(3), ones(1))
    yield refused(IndexError, "allowed are -3 to 2", V, at(-4), ones(1))
    yield refused(IndexError, "none is allowed", V[:0], at(0), ones(1))
    yield refused(IndexError, "got 1 and 2", V, at(0, 1), ones(1))


def _by_dtypes(indices: Callable[[Array], Any]) -> Iterator[Form]:
    """Yields writes to a vector, and sums of two elements, for each dtype."""
    for dtype in EVERY_DTYPE:
        x, two = small((6,), dtype), small((2,), dtype, 1)
        yield form(x, indices(at(2, -1)), two)
        yield form(x, indices(at(5, -1)), two, accumulate=True)


def _forms_of_index_put() -> Iterator[Form]:
    yield from _by_dtypes(lambda index: (index,))
    parts = (PAIR, OF_TWO, np.array(1), at(-1, 0), None)
    several = [each for each in subscripts(parts, 16, 4) if set(map(type, each)) != {type(None)}]
    masks = ((None, NUMBERED[0, :, :, 0] % 3 > 1), (NUMBERED > 50,), (NO_INDEX,))
    for number, each in enumerate((*several, *masks)):
        shape = NUMBERED[tuple(slice(None) if part is None else part for part in each)].shape
        # Numbers that are whole, so that sums are the same in every order.
        source = np.rint(9 * normal(*shape[number % 3 :]))
        yield form(NUMBERED, each, source, bool(number % 2)).having(torch_gradient=False)
    yield form(THREE, (WRAPPED,), TWENTY).named(torch_gradient=False)
    yield form(THREE, (None, WRAPPED), spread(3, 20), accumulate=True).named("add")
    # The gradient by a number is a sum of XLA's, which may contract a product of the program.
    yield form(THREE, (COLUMNS[:3] > 0,), spread()).named("masked", same_bits=False)


def _forms_of_put() -> Iterator[Form]:
    indices = (np.array(0), NO_INDEX, np.array([[0, -1], [-1, 0]]))
    for accumulate, shape, index in itertools.product((False, True), [(2, 3), (), (5,)], indices):
        source = normal(index.size).reshape(index.shape)
        yield form(normal(*shape), index, source, accumulate).having(torch_gradient=False)
    yield from _by_dtypes(lambda index: index)
    yield form(THREE, 3 * WRAPPED, TWENTY[:, 0]).named(torch_gradient=False)
    yield form(THREE, 3 * WRAPPED, TWENTY[:, 0], accumulate=True).named("add")


def _bincount(d: Draw) -> Iterator[Sample]:
    """Yields a call with weights and a call without."""
    numbers = d.indices((d.many,))
    yield Sample(
        name="weights",
        facts={"dtype": "floating", "weights": True},
        call=lambda ns, n, w: ns.bincount(n, w, length=d.few),
        arrays=(numbers, d.values((d.many,), np.float32)),
        ordered=lambda n, w: oracles.source(np.zeros(d.few, w.dtype), n, w),
        wrt=1,
        ordered_gradient=lambda ct, n, w: ct[n],
    )
    yield Sample(
        name="counts",
        facts={"weights": False},
        call=lambda ns, n: ns.bincount(n, length=d.few),
        arrays=(numbers,),
        ordered=lambda n: np.bincount(n, minlength=d.few).astype(np.int32),
    )


_BINS = 7


def _histc(d: Draw) -> Iterator[Sample]:
    """Yields a range that excludes some elements, for each dtype, and the range of the data."""
    choice = "Bins are found in float32; PyTorch's of bfloat16 have other edges."
    for name, dtype in DTYPES.items():
        low, high = (-5, 9) if dtype is np.int32 else (-0.75, 1.1)
        data = d.values((d.many,), dtype)
        # A value at the edge of a bin shows a quotient that is off by one bit.
        edges = (low + np.arange(_BINS + 1) * (high - low) / _BINS).astype(dtype)
        data[: _BINS + 1] = edges[: d.many]
        yield Sample(
            name=name,
            call=lambda ns, x, low=low, high=high: ns.histc(x, _BINS, low, high),
            arrays=(data,),
            ordered=lambda x, low=low, high=high: _counts(x, low, high),
            choices={"forward": choice} if name == "narrow" else {},
        )
    yield Sample(
        name="range_of_data",
        call=lambda ns, x: ns.histc(x, _BINS),
        arrays=(np.nan_to_num(d.values((2, d.many // 2 + 1), np.float32)).clip(-9, 9),),
        ordered=lambda x: _counts(x.reshape(-1), x.min(), x.max()),
    )


def _counts(x: Array, low: float, high: float) -> Array:
    """Returns ones added, in the bins that the op's documentation states."""
    wide: Array = x.astype(np.float32) if x.dtype.kind != "i" else x.astype(np.int64)
    ends: Array = np.array([low, high]).astype(x.dtype).astype(wide.dtype)
    least, most = ends if ends[0] < ends[1] else ends + np.array([-1, 1], wide.dtype)
    scaled = (wide - least) * wide.dtype.type(_BINS)
    quotient = scaled // (most - least) if wide.dtype.kind == "i" else scaled / (most - least)
    bin = np.minimum(np.trunc(quotient), _BINS - 1).astype(np.int64)
    bin = np.where((wide >= least) & (wide <= most), bin, -1)
    return oracles.source(np.zeros(_BINS, x.dtype), bin, np.ones_like(x))


def _forms_of_bincount() -> Iterator[Form]:
    numbers = np.array([3, 1, 3, 0])
    for dtype in (np.int64, np.uint8, np.int16):
        yield form(numbers.astype(dtype))
        for of_weights in (np.float32, np.int32, bool):
            weights = np.array([1, 0, 1, 1], of_weights)
            yield form(numbers.astype(dtype), weights).having(torch_gradient=False)
    yield from (form(numbers, None, length) for length in (2, 7))
    yield form(NO_INDEX)
    yield form(INDEX, TWENTY[:, 0], length=3).named(torch_gradient=False)


def _forms_of_histc() -> Iterator[Form]:
    """Yields ranges of few and many bins; quarters are on the edges of bins."""
    x = normal(600)
    yield from (form(x, *rest) for rest in ((9, -0.7, 0.9), (), (1, 0, 1)))
    ranges = ((0, 0), (-1, 1), (-0.3, 0.7), (0.1, 0.9), (2, 2))
    data = (x, np.round(x * 4) / 4, x * np.float32(1e-3), x * np.float32(1e6))
    for number, (array, ends) in enumerate(itertools.product(data, ranges)):
        yield form(array, (7, 100)[number % 2], *ends)
    for numbers, *rest in (
        ([1, 1, 1, 1], 4, 0, 0),
        (3, 4, 1, 5),
        ([], 4, 0, 0),
        ([NAN, 1, INF, -INF], 4, 0, 2),
        ([-1, 0, 2, 3], 4, False, 2),
    ):
        yield form(np.array(numbers, np.float32), *rest)
    yield form(x.reshape(20, 30), 4, -1, 2)
    yield form(np.array([1, 2, 0, 5], np.float32), max=2, bins=4)


def _errors_of_bincount() -> Iterator[ErrorInput]:
    yield refused(RuntimeError, "got -1 at position 0", at(-1, 2))
    yield refused(NotImplementedError, "float32", V)
    yield refused(NotImplementedError, "bool", BOOLS)
    yield refused(RuntimeError, "got shape [1, 1]", SQUARE)
    yield refused(RuntimeError, "got shape []", POINT)
    yield refused(RuntimeError, "minlength should be >= 0", at(1), minlength=-1)
    yield refused(RuntimeError, "shapes [3] and [2]", at(1, 2), ones(3))
    yield from unlike_torch(
        # PyTorch converts with a warning.
        refused(TypeError, "'weights' must be real, not complex64", at(1, 2), COMPLEX),
        refused(RuntimeError, "not be below minlength", at(1), length=1, minlength=2),
    )


def _errors_of_histc() -> Iterator[ErrorInput]:
    one = ones(1)
    yield refused(RuntimeError, "bins must be > 0, but got 0", one, 0)
    yield refused(RuntimeError, "max must be larger than min", one, 4, 2, 1)
    yield refused(RuntimeError, "range of [0.0, inf] is not finite", one, 4, 0, INF)
    yield refused(RuntimeError, "is not finite", one, 4, NAN, 1)
    yield refused(RuntimeError, "[nan, nan] is not finite", at(NAN, 1).astype(np.float32), 4)
    yield refused(RuntimeError, "[1.0, inf] is not finite", at(INF, 1).astype(np.float32), 4)
    yield refused(TypeError, "'min' must be Number, not str", one, 4, "0", 1)
    yield refused(RuntimeError, "'min' cannot be converted to float32", one, 4, 1j, 1)
    yield refused(NotImplementedError, "bool in argument 'input'", BOOLS, 4)
    yield refused(NotImplementedError, "complex64", COMPLEX, 4, 0, 1)


OPS = (
    OpInfo(
        "bincount",
        _bincount,
        _forms_of_bincount,
        _errors_of_bincount,
        lambda jax, x, weights: jax.numpy.bincount(x, weights, length=3),
    ),
    OpInfo(
        "histc",
        _histc,
        lambda: without_gradient(*_forms_of_histc(), form(TWENTY, 5).named(smooth=False)),
        _errors_of_histc,
        lambda jax, x: jax.numpy.histogram(x, 5),
    ),
    OpInfo(
        "index_add",
        _index_add,
        lambda: [
            *by_slices({}, {"alpha": 2}, dtypes=EVERY_DTYPE),
            form(THREE, 1, INDEX, spread(3, 20), alpha=0.5).named(),
        ],
        _errors_of_index_add,
        lambda _, x, i, s: x.at[:, i].add(s * 0.5),
    ),
    OpInfo(
        "index_copy",
        _index_copy,
        lambda: without_gradient(
            *by_slices({}, dtypes=EVERY_DTYPE), form(THREE, 0, INDEX, TWENTY).named()
        ),
        _errors_of_index_copy,
        lambda _, x, i, s: x.at[i].set(s),
    ),
    OpInfo(
        "index_fill",
        _index_fill,
        lambda: [
            *(form(x, dim, index, 7) for x, dim, index, _, _ in drawn()),
            *(form(small((3, 2), dtype), 0, at(-1, 0, -1), 1) for dtype in EVERY_DTYPE),
            *(form(normal(3, 2), 1, index, np.float32(2)) for index in (NO_INDEX, POINT)),
            form(small((3, 2), np.int32), 0, at(1), 2.5),
            form(THREE, 1, INDEX, np.float32(0.5)),
            # PyTorch has no gradient for a negative index.
            form(THREE, 1, WRAPPED, np.float32(0.5)).named(torch_gradient=False),
        ],
        _errors_of_index_fill,
        lambda _, x, i, value: x.at[:, i].set(value),
    ),
    OpInfo(
        "index_put",
        _index_put,
        _forms_of_index_put,
        _errors_of_index_put,
        lambda _, x, i, s: x.at[i].set(s),
    ),
    OpInfo(
        "put",
        _put,
        _forms_of_put,
        _errors_of_put,
        lambda jax, x, i, s: jax.numpy.put(x, i, s, inplace=False),
    ),
)
