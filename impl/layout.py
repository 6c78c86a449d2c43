"""Between PyTorch's shapes and the three axes, [outer, n, inner], of the core primitives."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp


def within(index: jax.Array, size: int) -> jax.Array:
    """``index`` in 32 bits where it fits, and ``size`` in place of what is not in [0, size).

    Clamped before it is narrowed, so that no wide index is taken for another.
    """
    inside = (index >= 0) & (index < size)
    kept = jnp.where(inside, index, size)
    return kept.astype(jnp.int32) if size < jnp.iinfo(jnp.int32).max else kept


def one_or_more(value: jax.Array) -> jax.Array:
    """``value``, a number as an array of one element."""
    return value.reshape(1) if value.ndim == 0 else value


def three_axes(value: jax.Array, dim: int) -> jax.Array:
    """Folds the dimensions before and after ``dim``; a 0-d array has one of length 1."""
    shape = value.shape or (1,)
    return value.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))
