"""Functions of ``jax.numpy`` with the same results, of few equations.

A call of many a function of ``jax.numpy`` is a function in the program, which takes as long to
lower as several equations.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def where(condition: Any, a: Any, b: Any) -> jax.Array:
    """Returns ``a`` where a condition holds and ``b`` elsewhere, as ``jax.numpy.where`` does.

    Args:
        condition: An array of booleans.
        a: An array or a number.
        b: The same.
    """
    if not jax.sharding.get_abstract_mesh().empty:
        return jnp.where(condition, a, b)  # Its results are sharded as its operands are.
    if all(isinstance(each, jax.Array) for each in (condition, a, b)) and _are_alike(
        condition, a, b
    ):
        return lax.select(condition, a, b)
    shape = jnp.broadcast_shapes(*map(np.shape, (condition, a, b)))
    dtype = jnp.result_type(a, b)
    if np.ndim(condition):
        condition = _broadcast(condition, shape, np.dtype(bool))
    return lax.select(condition, *(_broadcast(each, shape, dtype) for each in (a, b)))


def filled(like: jax.Array, value: Any) -> jax.Array:
    """Returns an array of one number, of the shape and dtype of ``like``.

    It is one equation, as that of ``lax.full_like`` is, but takes a fifth of its time to trace.
    That function gives the array the sharding of ``like``, and takes a size that is open.
    """
    if not (np.isscalar(value) and jax.sharding.get_abstract_mesh().empty):
        return lax.full_like(like, value)
    return lax.broadcast(like.dtype.type(value), like.shape)


def _are_alike(condition: jax.Array, a: jax.Array, b: jax.Array) -> bool:
    return condition.shape == a.shape == b.shape and a.dtype == b.dtype


def _broadcast(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if np.ndim(value) == 0 and not isinstance(value, jax.Array):
        return lax.full(shape, value, dtype)
    value = lax.convert_element_type(value, dtype)
    if value.shape == shape:
        return value
    axes = range(len(shape) - value.ndim, len(shape))
    return lax.broadcast_in_dim(value, shape, [*axes])


def number(like: jax.Array, value: Any) -> Any:
    """Returns a number for an operation with ``like``; an array, if it is a size that is open.

    JAX broadcasts a number within the operation, and an array by an equation of its own.
    """
    return like.dtype.type(value) if isinstance(value, int) else lax.full_like(like, value)
