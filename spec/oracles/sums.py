"""Oracle of the order in which windows add."""

from __future__ import annotations

import functools

import numpy as np

from spec.oracles._numerics import Array


def window(values: Array, index: Array, weight: Array | None = None) -> Array:
    """Sums windows along the first axis, in window order; compose it over dimensions.

    Args:
        values: Shape [n, ...].
        index: The index of each term of each window, shape [m, terms]; -1 for a missing term.
        weight: The factor of each term, of the same shape.

    Returns:
        Shape [m, ...], of the dtype of ``values``. Widen float16 and bfloat16 before the first
        dimension, and round them after the last.
    """
    out = np.zeros((len(index), *values.shape[1:]), values.dtype)
    for m, indices in enumerate(index):
        terms = [
            values[i] if weight is None else values[i] * weight[m, t].astype(values.dtype)
            for t, i in enumerate(indices)
            if i >= 0
        ]
        if terms:
            out[m] = functools.reduce(np.add, terms)
    return out
