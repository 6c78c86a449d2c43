"""Chains: the contributions of one destination within one panel, found by a stable sort of keys.

A cell is a pair of destination and panel. Panels are at least as long as there are destinations,
so there are at most about as many cells as contributions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from impl.manual_axes import vary_like
from impl.monoids import Monoid


def chain_table(cell: jax.Array, cells: int) -> tuple[jax.Array, jax.Array]:
    """Sorts contributions into cells.

    Only keys and positions move, never the contributions.

    Args:
        cell: Cell of each contribution, shape [n], int32; those outside [0, cells) are dropped.
        cells: Number of cells.

    Returns:
        Where each cell starts in the second array, and the end of the last, shape [cells + 1];
        positions of the contributions, cell by cell and ascending in each, shape [n].
    """
    dropped = (cell < 0) | (cell >= cells)
    keys = jnp.where(dropped, cells, cell)
    position = jnp.arange(keys.shape[0], dtype=jnp.int32)
    keys, positions = jax.lax.sort((keys, position), num_keys=1, is_stable=True)
    starts = jnp.searchsorted(keys, jnp.arange(cells + 1, dtype=keys.dtype)).astype(jnp.int32)
    return starts, positions


def fold_chains(
    starts: jax.Array, positions: jax.Array, updates: jax.Array, *, monoid: Monoid
) -> jax.Array:
    """Folds every chain left to right, from the identity: [n, width] to [cells, width]."""
    start, end = starts[:-1], starts[1:]

    def step(t: jax.Array, total: jax.Array) -> jax.Array:
        alive = start + t < end
        value = updates[positions[jnp.where(alive, start + t, 0)]]
        return jnp.where(alive[:, None], monoid.combine(total, value), total)

    first = monoid.full((start.shape[0], updates.shape[1]), updates.dtype)
    first = vary_like(first, updates)
    longest = jnp.max(end - start, initial=0)
    return jax.lax.fori_loop(0, longest, step, first)  # type: ignore[no-any-return]


def fold_panels(parts: jax.Array, operand: jax.Array, *, monoid: Monoid) -> jax.Array:
    """Folds [destinations, panels, width] over panels, left to right, onto the initial value."""

    def step(panel: jax.Array, total: jax.Array) -> jax.Array:
        part: jax.Array = jax.lax.dynamic_index_in_dim(parts, panel, axis=1, keepdims=False)
        return monoid.combine(total, part)

    first = vary_like(monoid.full(operand.shape, operand.dtype), parts)
    total: jax.Array = jax.lax.fori_loop(0, parts.shape[1], step, first)
    return monoid.combine(operand, total)
