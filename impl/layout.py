"""Between PyTorch's shapes and the three axes, [outer, n, inner], of the core primitives."""

from __future__ import annotations

import math

import jax


def three_axes(value: jax.Array, dim: int) -> jax.Array:
    """Folds the dimensions before and after ``dim``; a 0-d array has one of length 1."""
    shape = value.shape or (1,)
    return value.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))
