"""Chains: the contributions of one destination within one panel, found by a stable sort of keys.

A cell is a pair of destination and panel. Panels are at least as long as there are destinations,
so there are at most about as many cells as contributions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from impl._core.numerics import product
from impl._core.reductions import Reduction
from impl._core.shard_axes import vary_like

_WORD = 32


def chain_table(
    destination: jax.Array, panel: jax.Array, first: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sorts contributions into cells.

    Only keys and positions move, never the contributions. Both are sorted as one word where they
    fit into one; else a key with its position, which XLA also sorts by radix on a GPU.

    Args:
        destination: Of each contribution, int32, shape [n]; those not below the number of
            destinations are dropped.
        panel: Of each contribution, int32, shape [n].
        first: A position that no contribution of a cell is before, nor any of an earlier panel of
            its destination after; int32, shape [destinations, panels].

    Returns:
        Where each cell starts in the second array, and the end of the last, shape
        [destinations * panels + 1]; positions of the contributions, cell by cell and ascending in
        each, shape [n].
    """
    destinations, panels = first.shape
    cells, n = first.size, destination.shape[0]
    position = jnp.arange(n, dtype=jnp.int32)
    kept = jnp.where(destination < destinations, destination, destinations)
    bits = max(n - 1, 1).bit_length()
    if destinations.bit_length() + bits <= _WORD:
        word = jnp.uint16 if destinations.bit_length() + bits <= _WORD // 2 else jnp.uint32
        words = jax.lax.sort((kept.astype(word) << bits) | position.astype(word))
        rows = jnp.arange(destinations, dtype=word)[:, None] << bits
        bounds = (rows | first.astype(word)).reshape(-1)
        end = jnp.array([destinations << bits], word)
        starts = jnp.searchsorted(words, jnp.concatenate([bounds, end]))
        return starts.astype(jnp.int32), (words & word((1 << bits) - 1)).astype(jnp.int32)
    key = jnp.uint16 if cells < 1 << (_WORD // 2) else jnp.uint32
    cell = jnp.where(kept < destinations, kept * panels + panel, cells).astype(key)
    keys, positions = jax.lax.sort((cell, position), num_keys=1, is_stable=True)
    starts = jnp.searchsorted(keys, jnp.arange(cells + 1, dtype=key))
    return starts.astype(jnp.int32), positions


def fold_chains(
    start: jax.Array,
    end: jax.Array,
    positions: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    weights: jax.Array | None = None,
    sources: jax.Array | None = None,
) -> jax.Array:
    """Folds every chain left to right, from the identity: [n, width] to [chains, width].

    With ``weights``, of several in a row for each update, positions are theirs. With ``sources``
    each weight is of the update that its source names.
    """
    share = 1 if weights is None else weights.size // updates.shape[0]

    def step(t: jax.Array, total: jax.Array) -> jax.Array:
        alive = start + t < end
        position = positions[jnp.where(alive, start + t, 0)]
        value = updates[position // share if sources is None else sources[position]]
        if weights is not None:
            value = product(value, weights.reshape(-1)[position][:, None])
        return jnp.where(alive[:, None], reduction.combine(total, value), total)

    none = reduction.full((start.shape[0], updates.shape[1]), updates.dtype)
    longest = jnp.max(end - start, initial=0)
    return jax.lax.fori_loop(0, longest, step, vary_like(none, start, updates))  # type: ignore[no-any-return]


def fold_panels(parts: jax.Array, total: jax.Array, *, reduction: Reduction) -> jax.Array:
    """Folds [destinations, panels, width] over panels, left to right, onto the total so far."""

    def step(panel: jax.Array, total: jax.Array) -> jax.Array:
        part: jax.Array = jax.lax.dynamic_index_in_dim(parts, panel, axis=1, keepdims=False)
        return reduction.combine(total, part)

    return jax.lax.fori_loop(0, parts.shape[1], step, vary_like(total, parts))  # type: ignore[no-any-return]
