"""Samples of cumprod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import SOME, Array, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"cumprod": tuple(_cumprod())}


def _cumprod() -> Iterator[Sample]:
    """Yields columns of floats, integers and complex numbers. One column contains a zero."""
    floats = np.exp(values((SOME, 2), np.float32) / 100)
    data = {
        "floating": floats,
        "integer": values((SOME, 2), np.int32) | 1,
        "complex": floats * np.exp(1j * floats[::-1]).astype(np.complex64),
    }
    for array in data.values():
        array[len(array) // 2, 1] = 0
    for name, array in data.items():
        yield Sample(
            name=name,
            facts={"dtype": name, "input_ndim": 2},
            call=lambda ns, x: ns.cumprod(x, 0),
            arrays=(array,),
            expected=_expected_integers if name == "integer" else _expected,
            ordered=oracles.doubling if name == "floating" else None,
            wrt=None if name == "integer" else 0,
            expected_gradient=_expected_gradient,
            choices={
                "forward": "The dtype stays, and int32 wraps around; PyTorch's result is int64."
            }
            if name == "integer"
            else {},
        )


def _expected_integers(x: Array) -> Array:
    return np.cumprod(x, 0, dtype=x.dtype)  # NumPy and the op both wrap around


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _expected(x: Array) -> Array:
    return np.cumprod(_wide(x), 0)


def _expected_gradient(ct: Array, x: Array) -> Array:
    ct, x = _wide(ct), _wide(x)
    before = np.ones_like(x)
    before[1:] = np.cumprod(x, 0)[:-1]
    after = ct.copy()
    for i in range(len(x) - 2, -1, -1):
        after[i] += x[i + 1] * after[i + 1]
    return before * after
