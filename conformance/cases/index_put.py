"""Samples of index_put."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import (
    DTYPES,
    FEW,
    MANY,
    Array,
    folded,
    indices,
    kind,
    one_of_the_writes,
    rounded_once,
    values,
)
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"index_put": tuple(_index_put())}


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
