"""Oracles of the orders in which a scatter combines or writes."""

from __future__ import annotations

import numpy as np

from spec.oracles._numerics import Array, accumulator
from spec.oracles.nearest import nearest_scatter


def source(initial: Array, index: Array, source: Array, combine: np.ufunc = np.add) -> Array:
    """Combines row ``index[i]`` of ``initial`` with ``source[i]``, as under ``portable``.

    Args:
        initial: Shape [destinations, ...].
        index: Shape [n]. Indices outside [0, destinations) are dropped.
        source: Shape [n, ...].
        combine: ``np.add`` or ``np.multiply``.

    Returns:
        Shape and dtype of ``initial``.
    """
    if combine is np.add:
        return nearest_scatter(initial, index, source)
    out = initial.astype(accumulator(initial.dtype))
    for row in range(len(out)):
        factors = source[index == row].astype(out.dtype)
        while len(factors) > 1:
            pairs = [np.multiply(*factors[i : i + 2]) for i in range(0, len(factors) - 1, 2)]
            factors = np.array([*pairs, *factors[len(factors) // 2 * 2 :]])
        if len(factors):
            out[row] = out[row] * factors[0]
    return np.asarray(out.astype(initial.dtype))


def last_write(initial: Array, index: Array, source: Array) -> Array:
    """Writes ``source[i]`` to row ``index[i]`` of ``initial``; the last write to a row stays.

    Args:
        initial: Shape [destinations, ...].
        index: Shape [n]. Indices outside [0, destinations) are dropped.
        source: Shape [n, ...].

    Returns:
        Shape and dtype of ``initial``.
    """
    out = initial.copy()
    for row, value in zip(index, source, strict=True):
        if 0 <= row < len(out):
            out[row] = value
    return out
