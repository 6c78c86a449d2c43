"""Lowerings of ``writers``: for each element, the last of its writers, whose write stays.

Each takes ``indices`` [outer, n, inner] and returns, for each of ``size`` elements, the position of
the last writer along the middle axis, or -1 where there is none. Only positions are scattered,
never the updates: their maximum is the same in every order of atomic instructions. For the writes
of a, b and c to the elements 2, 0 and 2 of an array of 4 elements:

    writers    [1, -1, 2, -1]
    result     [b, as before, c, as before]
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from impl._core.axes import elements_at, rows_at, within
from impl._core.shard_axes import vary_like
from impl._families.reductions import MAX
from impl._kernels.launch import MAX_ELEMENTS
from impl._lowerings.scatter_accumulate import (
    flat_offsets,
    into_elements,
    into_rows,
    xla_scatter,
)


def take(values: jax.Array, positions: jax.Array) -> jax.Array:
    """Takes elements along the middle axis.

    Args:
        values: Shape [outer or 1, size, inner or 1].
        positions: Shape [outer or 1, n, inner or 1], all in [0, size).

    Returns:
        Shape [outer, n, inner].
    """
    outer = max(values.shape[0], positions.shape[0])
    inner = max(values.shape[2], positions.shape[2])
    if (positions.shape[0], positions.shape[2]) == (1, 1):
        return rows_at(jnp.asarray(values), positions[0, :, 0])
    values = jnp.broadcast_to(values, (outer, values.shape[1], inner))
    positions = jnp.broadcast_to(positions, (outer, positions.shape[1], inner))
    return elements_at(values, positions)


def writers_cpu(indices: jax.Array, *, size: int) -> jax.Array:
    """Calls XLA's own scatter, which writes in source order on a CPU."""
    outer, n, inner = indices.shape
    if indices.size == 0 or size == 0:
        return _no_writers(indices, size)
    if outer * inner == 1:
        index = within(lax.squeeze(indices, (0, 2)), size)
        initial = lax.squeeze(_no_writers(indices, size), (0, 2))
        out = into_rows(lax.scatter, initial, index, lax.iota(jnp.int32, n), 0)
        return lax.expand_dims(out, (0, 2))
    initial = _no_writers(indices, size)
    if initial.size > MAX_ELEMENTS:
        return into_elements("set", initial, within(indices, size), _positions(indices))
    flat = flat_offsets(initial, indices)
    out = into_rows(lax.scatter, initial.reshape(-1), flat, _positions(indices).reshape(-1), 0)
    return out.reshape(initial.shape)


def writers_xla(indices: jax.Array, *, size: int) -> jax.Array:
    """Returns the greatest position; an integer maximum is the same in every order.

    XLA's scatter computes it on a GPU by one atomic instruction for each contribution.
    """
    if indices.size == 0 or size == 0:
        return _no_writers(indices, size)
    return xla_scatter(MAX, _no_writers(indices, size), indices, _positions(indices))


def _positions(indices: jax.Array) -> jax.Array:
    return lax.broadcasted_iota(jnp.int32, indices.shape, 1)


def _no_writers(indices: jax.Array, size: int) -> jax.Array:
    """Returns -1 for every element: no contribution writes to it."""
    outer, _, inner = indices.shape
    return vary_like(lax.full((outer, size, inner), -1, jnp.int32), indices)
