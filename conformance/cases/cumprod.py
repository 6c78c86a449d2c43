"""Samples of cumprod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import MANY, SOME_BLOCKS, Array, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"cumprod": tuple(_cumprod())}


def _cumprod() -> Iterator[Sample]:
    """Yields columns of floats, integers and complex numbers. One column contains a zero."""
    floats = np.exp(values((MANY, 2), np.float32) / 100)
    few = floats[:SOME_BLOCKS]
    data = {
        "floating": floats,
        "integer": values((MANY, 2), np.int32) | 1,
        "complex": few * np.exp(1j * few[::-1]).astype(np.complex64),
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
            ordered=running_product,
            wrt=None if name == "integer" else 0,
            expected_gradient=_expected_gradient,
            ordered_gradient=gradient_of_running_product,
            choices={
                "forward": "The dtype stays, and int32 wraps around; PyTorch's result is int64."
            }
            if name == "integer"
            else {},
        )


def running_product(x: Array) -> Array:
    """Returns the bits of the products down columns."""
    return oracles.blocked_scan(x, oracles.complex_product if x.dtype.kind == "c" else np.multiply)


def gradient_of_running_product(ct: Array, x: Array) -> Array:
    """Returns the bits of the gradient. float16 and bfloat16 are rounded once, at the end."""
    wide = np.dtype(np.float32) if x.dtype.itemsize < 4 else x.dtype
    x, ct, dtype = x.astype(wide), ct.astype(wide), x.dtype
    ones = np.ones_like(x[:1])
    after = _recurrence(np.concatenate([ones, x[:0:-1]]), ct[::-1])[::-1]
    before = np.concatenate([ones, running_product(x)[:-1]])
    return _product(before, after).astype(dtype)


def _recurrence(factors: Array, terms: Array) -> Array:
    """Returns ``h[i] = factors[i] * h[i - 1] + terms[i]`` down columns, by the oracle."""
    maps = np.stack([factors, terms], axis=-1)
    return oracles.blocked_scan(maps, oracles.affine)[..., 1]


def _product(a: Array, b: Array) -> Array:
    return oracles.complex_product(a, b) if a.dtype.kind == "c" else a * b


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
