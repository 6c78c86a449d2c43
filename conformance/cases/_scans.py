"""What cases of running folds share."""

from __future__ import annotations

import numpy as np

from conformance.cases._data import Array
from spec import oracles


def recurrence(factors: Array, terms: Array) -> Array:
    """``h[i] = factors[i] * h[i - 1] + terms[i]`` down columns, by the oracle."""
    maps = np.stack([factors, terms], axis=-1)
    return oracles.blocked_scan(maps, oracles.affine)[..., 1]


def times(a: Array, b: Array) -> Array:
    """``a * b``, complex numbers by their parts."""
    return oracles.complex_product(a, b) if a.dtype.kind == "c" else a * b


def running_product(x: Array) -> Array:
    """The bits of cumprod down columns."""
    return oracles.blocked_scan(x, oracles.complex_product if x.dtype.kind == "c" else np.multiply)


def pullback_of_product(ct: Array, x: Array) -> Array:
    """The bits of its gradient; narrow floats are wide all the way."""
    wide = np.dtype(np.float32) if x.dtype.itemsize < 4 else x.dtype
    x, ct, dtype = x.astype(wide), ct.astype(wide), x.dtype
    ones = np.ones_like(x[:1])
    back = recurrence(np.concatenate([ones, x[:0:-1]]), ct[::-1])[::-1]
    before = np.concatenate([ones, running_product(x)[:-1]])
    return times(before, back).astype(dtype)
