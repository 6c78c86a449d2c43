"""Chains of the panel order: found by a stable sort of keys, folded by XLA operations.

A chain is the contributions of one destination within one panel. This is a segmented reduction over
sorted keys. A panel has at least as many contributions as there are destinations, so there are at
most about as many chains as contributions. For 2 destinations and 2 panels of 3 contributions:

    destinations            1 0 1 | 0 1 1
    positions, sorted       1 | 3 | 0 2 | 4 5     chains (0, panel 0), (0, 1), (1, 0), (1, 1)
    starts and ends         [0, 1, 2, 4] and [1, 2, 4, 6]
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl._core.lax_functions import where
from impl._core.native_scatter import natively
from impl._core.shard_axes import vary_like
from impl._families.reductions import Reduction
from impl._families.scatter_keys import sorted_keys


def chain_table(
    destination: jax.Array, panel_of: Callable[[jax.Array], jax.Array], shape: tuple[int, int]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sorts contributions into chains.

    Only keys and positions are sorted, never the contributions. The first and the last contribution
    of each chain then write the chain's start and end. A binary search for these would be a loop of
    some twenty rounds over all chains.

    Args:
        destination: The destination of each contribution, int32, shape [n]. Contributions whose
            destination is not below the number of destinations are dropped.
        panel_of: Maps positions to panels, both int32. The panels of a destination ascend.
        shape: The numbers of destinations and of panels.

    Returns:
        The start and the end of each chain in the third array, shape [destinations * panels]; the
        positions of the contributions, chain by chain and ascending within each, shape [n].
    """
    destinations, panels = shape
    chains, n = destinations * panels, destination.shape[0]
    position = jnp.arange(n, dtype=jnp.int32)
    ascending, positions = sorted_keys(destination, destinations)
    keys = ascending.astype(jnp.uint32) * panels + panel_of(positions).astype(jnp.uint32)
    keys = where(ascending < destinations, keys, chains)
    change = keys[1:] != keys[:-1]
    edge = jnp.ones(1, bool)
    heads = written(keys, jnp.concatenate([edge, change]), chains, position)
    tails = written(keys, jnp.concatenate([change, edge]), chains, position + 1)
    return heads, tails, positions


def written(keys: jax.Array, is_written: jax.Array, size: int, values: jax.Array) -> jax.Array:
    """Returns an array that has, at each key, the value that is written for it; otherwise 0.

    Args:
        keys: Integers that are not negative, shape [n].
        is_written: Whether each value is written; at most one for each key.
        size: The length of the result. Values of greater keys are dropped.
        values: Shape [n].
    """
    # The rows of dropped values are distinct too, as ``unique_indices`` promises.
    number = jnp.arange(keys.shape[0], dtype=jnp.uint32)
    rows = where(is_written & (keys < size), keys.astype(jnp.uint32), size + number)
    zeros = vary_like(jnp.zeros(size, values.dtype), keys)
    out: jax.Array = natively(_store, zeros, rows.astype(jnp.uint32), values)
    return out


def _store(zeros: jax.Array, rows: jax.Array, values: jax.Array) -> jax.Array:
    return zeros.at[rows].set(values, mode="drop", unique_indices=True)


def fold_chains(
    start: jax.Array,
    end: jax.Array,
    positions: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
) -> jax.Array:
    """Folds every chain left to right from the identity: [n, width] to [chains, width]."""

    def step(t: jax.Array, total: jax.Array) -> jax.Array:
        alive = start + t < end
        position = positions[where(alive, start + t, 0)]
        return where(alive[:, None], reduction.combine(total, updates[position]), total)

    initial = reduction.full((start.shape[0], updates.shape[1]), updates.dtype)
    longest = jnp.max(end - start, initial=0)
    return jax.lax.fori_loop(0, longest, step, vary_like(initial, start, updates))  # type: ignore[no-any-return]


def fold_panels(parts: jax.Array, total: jax.Array, *, reduction: Reduction) -> jax.Array:
    """Folds [destinations, panels, width] over panels, left to right, starting with ``total``."""

    def step(panel: jax.Array, total: jax.Array) -> jax.Array:
        part: jax.Array = jax.lax.dynamic_index_in_dim(parts, panel, axis=1, keepdims=False)
        return reduction.combine(total, part)

    return jax.lax.fori_loop(0, parts.shape[1], step, vary_like(total, parts))  # type: ignore[no-any-return]
