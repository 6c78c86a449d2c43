"""Calls of cumprod."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases._data import MANY, Array, values
from conformance.cases._scans import pullback_of_product, running_product


def samples() -> Iterator[Sample]:
    """Down columns, for floats, integers and complex numbers; a zero stands in one."""
    floats = np.exp(values((MANY, 2), np.float32) / 100)
    data = {
        "floating": floats,
        "integer": values((MANY, 2), np.int32) | 1,
        "complex": floats * np.exp(1j * floats[::-1]).astype(np.complex64),
    }
    for array in data.values():
        array[MANY // 2, 1] = 0
    for name, array in data.items():
        yield Sample(
            name=name,
            facts={"dtype": name, "input_ndim": 2},
            call=lambda ns, x: ns.cumprod(x, 0),
            arrays=(array,),
            expected=_integers if name == "integer" else _expected,
            ordered=running_product,
            wrt=None if name == "integer" else 0,
            expected_pullback=_expected_pullback,
            ordered_pullback=pullback_of_product,
            own={"forward": "The dtype stays, and int32 wraps around; PyTorch's result is int64."}
            if name == "integer"
            else {},
        )


def _integers(x: Array) -> Array:
    return np.cumprod(x, 0, dtype=x.dtype)  # both wrap around


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _expected(x: Array) -> Array:
    return np.cumprod(_wide(x), 0)


def _expected_pullback(ct: Array, x: Array) -> Array:
    ct, x = _wide(ct), _wide(x)
    before = np.ones_like(x)
    before[1:] = np.cumprod(x, 0)[:-1]
    back = ct.copy()
    for i in range(len(x) - 2, -1, -1):
        back[i] += x[i + 1] * back[i + 1]
    return before * back
