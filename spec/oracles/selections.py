"""Oracles of the orders that settle which of several elements is taken."""

from __future__ import annotations

import numpy as np

from spec.oracles._numerics import Array


def lowest_index(values: Array, k: int) -> Array:
    """Returns the index of the k-th smallest along the first axis; of equal ones the lowest.

    Args:
        values: Shape [n, ...].
        k: From 1 to n.

    Returns:
        int64, shape of ``values`` without its first axis.
    """
    kth = np.sort(values, axis=0)[k - 1]
    equal = (values == kth) | (np.isnan(values) & np.isnan(kth))
    return np.asarray(np.argmax(equal, axis=0))


def stable_sort(values: Array, *, descending: bool = False) -> Array:
    """Returns the indices of the elements in sorted order along the first axis.

    Args:
        values: Shape [n, ...].
        descending: Whether the greatest comes first.

    Returns:
        int64, shape of ``values``.
    """
    if not descending:
        return np.argsort(values, axis=0, kind="stable")
    return len(values) - 1 - np.argsort(values[::-1], axis=0, kind="stable")[::-1]


def most_frequent(values: Array) -> Array:
    """Returns the index, along the first axis, of the value that occurs most often.

    Args:
        values: Shape [n, ...], with n at least 1.

    Returns:
        int64, shape of ``values`` without its first axis.
    """
    out = np.zeros(values.shape[1:], np.int64)
    for column in np.ndindex(out.shape):
        line = values[(slice(None), *column)]
        _, first, count = np.unique(line, True, False, True, equal_nan=False)
        out[column] = first[np.argmax(count)]
    return out
