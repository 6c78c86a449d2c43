"""Reads along the middle axis of [outer, size, inner], and their gradients.

The gradient of nearly every op with indices is the transpose of a read: ``lax.scatter_add``, whose
sums the mode's rules for JAX's primitives order, or make exact.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import jax_internals
from impl._core.axes import at_least_32_bits, elements_at, within
from impl._core.numerics import accumulator, convert
from impl._core.shard_axes import aligned
from impl._lowerings._partitioning import as_bits
from impl._mode import modes
from impl._mode.decide import Decision
from impl._primitives.alert import alert_pullback


def gather(operand: jax.Array, indices: jax.Array, *, pullback: Decision) -> jax.Array:
    """Reads elements of ``operand`` along its middle axis.

    Args:
        operand: Shape [outer, size, inner].
        indices: Integers, shape [outer or 1, n, inner or 1]. An index outside [0, size) reads
            NaN, or the value of ``jax.numpy``'s fill mode for other types.
        pullback: The decision of the gradient, whose alert it has.

    Returns:
        Shape [outer, n, inner].
    """
    operand, index = aligned(operand, at_least_32_bits(indices))
    outer, size, inner = operand.shape
    if size == 0:
        # No index is valid. Read beyond the end of an axis that has one element instead.
        operand, index = jnp.zeros((outer, 1, inner), operand.dtype), jax.lax.full_like(index, 1)
    elif index.dtype.itemsize > 4 and size < jnp.iinfo(jnp.int32).max:
        index = within(index, size)
    read = _read if jnp.issubdtype(operand.dtype, jnp.inexact) else _filled
    return alert_pullback(_on_mesh(read, operand, index), pullback)


def _on_mesh(read: Callable[..., jax.Array], operand: jax.Array, index: jax.Array) -> jax.Array:
    """Calls a read, whose result on a mesh with explicit axes is sharded as its operands are."""
    types = jax.typeof(operand), jax.typeof(index)
    if types[0].sharding.mesh.explicit_axes:
        result = jax_internals.type_of(types[0], (types[0], 0), (types[1], 1), (types[0], 2))
        read = jax.sharding.auto_axes(read, out_sharding=result.sharding)
    return read(operand, index)


_filled = functools.partial(elements_at, mode="fill")


@jax.custom_jvp
def _read(operand: jax.Array, index: jax.Array) -> jax.Array:
    # XLA adds zeros to elements that it reads from another device, and would lose the sign of -0.
    # The fill value of the bits is the greatest integer, the bits of a NaN.
    return as_bits(_filled)(operand, index)  # type: ignore[no-any-return]


@_read.defjvp
def _jvp(primals: Any, tangents: Any) -> Any:
    return _read(*primals), tangents_at(tangents[0], primals[1])


def tangents_at(tangents: jax.Array, index: jax.Array) -> jax.Array:
    """Reads tangents as ``gather`` reads elements, and 0 out of range; this is linear.

    The transpose adds narrow floats in float32, and rounds once. An exact sum does so by itself.
    """
    dtype = tangents.dtype if modes.current().portable else accumulator(tangents.dtype)
    read = functools.partial(elements_at, mode="fill", fill_value=0)
    return convert(_on_mesh(read, convert(tangents, dtype), index), tangents.dtype)
