"""Stand-ins for functions of ``jax.numpy``: the same results, in fewer equations.

Many functions of ``jax.numpy`` are jitted. A call of one is a function of its own in the program,
and takes as long to lower as several equations.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def where(condition: Any, a: Any, b: Any) -> jax.Array:
    """Returns ``a`` where a condition holds and ``b`` elsewhere, as ``jax.numpy.where`` does.

    The condition is an array of booleans; ``a`` and ``b`` are arrays or numbers.
    """
    if not jax.sharding.get_abstract_mesh().empty:
        return jnp.where(condition, a, b)  # jnp.where keeps the sharding of its operands.
    are_arrays = all(isinstance(each, jax.Array) for each in (condition, a, b))
    if are_arrays and condition.shape == a.shape == b.shape and a.dtype == b.dtype:
        return lax.select(condition, a, b)
    shape = jnp.broadcast_shapes(*map(np.shape, (condition, a, b)))
    dtype = jnp.result_type(a, b)
    if np.ndim(condition):
        condition = _broadcast(condition, shape, np.dtype(bool))
    return lax.select(condition, *(_broadcast(each, shape, dtype) for each in (a, b)))


def filled(like: jax.Array, value: Any) -> jax.Array:
    """Returns an array of one number, of the shape and dtype of ``like``.

    Like ``lax.full_like`` it is one equation, but it takes a fifth of the time to trace. Under a
    mesh, and for a symbolic size as the number, it calls ``lax.full_like``.
    """
    if not (np.isscalar(value) and jax.sharding.get_abstract_mesh().empty):
        return lax.full_like(like, value)
    array: jax.Array = lax.broadcast_in_dim_p.bind(
        like.dtype.type(value), shape=like.shape, broadcast_dimensions=(), sharding=None
    )
    return array


def clipped(index: jax.Array, *last: Any) -> jax.Array:
    """Returns a number, or vectors of as many as ``last``, moved to lie between 0 and ``last``."""
    most = np.iinfo(index.dtype).max
    vectors = [index] if index.ndim == 0 else jnp.split(index, len(last), axis=-1)
    limits = (min(each, most) if isinstance(each, int) else each for each in last)
    parts = [
        lax.clamp(lax.full_like(part, 0), part, lax.full_like(part, limit))
        for part, limit in zip(vectors, limits, strict=True)
    ]
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, index.ndim - 1)


def _broadcast(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if np.ndim(value) == 0 and not isinstance(value, jax.Array):
        return lax.full(shape, value, dtype)
    value = lax.convert_element_type(value, dtype)
    if value.shape == shape:
        return value
    axes = range(len(shape) - value.ndim, len(shape))
    return lax.broadcast_in_dim(value, shape, [*axes])


def number(like: jax.Array, value: Any) -> Any:
    """Returns a number for an operation with ``like``; for a symbolic size, an array.

    JAX broadcasts a number within the operation, and an array in an equation of its own.
    """
    return like.dtype.type(value) if isinstance(value, int) else lax.full_like(like, value)
