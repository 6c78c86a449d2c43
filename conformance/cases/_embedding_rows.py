"""References that embedding and embedding_bag share."""

from __future__ import annotations

import numpy as np

from conformance.cases._data import Array
from spec import oracles


def wide(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """Returns the dtype that the ordered path computes in."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def bounded(rows: Array, max_norm: float, order: int) -> Array:
    """Returns rows scaled down to a norm of at most ``max_norm``, in float64."""
    exact = rows.astype(np.float64)
    norm = np.linalg.norm(exact, order, axis=1, keepdims=True)
    return np.where(norm > max_norm, exact * (max_norm / (norm + 1e-7)), exact)


def bounded_in_order(rows: Array, max_norm: float) -> Array:
    """Returns the bits of rows scaled down to a Euclidean norm of at most ``max_norm``.

    The squares are added exactly.
    """
    number = rows.dtype.type
    destination = np.zeros(rows.shape[1], np.int64)
    zero = np.zeros((1, len(rows)), rows.dtype)
    norm = np.sqrt(oracles.nearest_scatter(zero, destination, (rows * rows).T)[0])[:, None]
    return np.where(
        norm > number(max_norm), rows * (number(max_norm) / (norm + number(1e-7))), rows
    )
