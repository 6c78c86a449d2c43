"""Chains of the panel order: found by a stable sort of keys, folded by XLA operations.

A chain is the contributions of one destination within one panel. Panels are at least as long as
there are destinations, so there are at most about as many chains as contributions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from impl._core.reductions import Reduction
from impl._core.shard_axes import vary_like

#: Bits of the widest integer that holds a key together with its position.
_WORD = 32


def chain_table(
    destination: jax.Array, panel: jax.Array, first: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sorts contributions into chains.

    Only keys and positions are sorted, never the contributions. If a key and its position fit into
    one integer, these integers are sorted. Otherwise pairs of key and position are sorted, which
    XLA on a GPU also does by radix.

    Args:
        destination: The destination of each contribution, int32, shape [n]. Contributions whose
            destination is not below the number of destinations are dropped.
        panel: The panel of each contribution, int32, shape [n].
        first: A lower bound of the positions of each chain. The positions of earlier panels of
            that destination are below the bound. int32, shape [destinations, panels].

    Returns:
        The start of each chain in the second array, and the end of the last chain, shape
        [destinations * panels + 1]; the positions of the contributions, chain by chain and
        ascending within each, shape [n].
    """
    destinations, panels = first.shape
    chains, n = first.size, destination.shape[0]
    position = jnp.arange(n, dtype=jnp.int32)
    valid = jnp.where(destination < destinations, destination, destinations)
    bits = max(n - 1, 1).bit_length()
    if destinations.bit_length() + bits <= _WORD:
        word = jnp.uint16 if destinations.bit_length() + bits <= _WORD // 2 else jnp.uint32
        words = jax.lax.sort((valid.astype(word) << bits) | position.astype(word))
        rows = jnp.arange(destinations, dtype=word)[:, None] << bits
        bounds = (rows | first.astype(word)).reshape(-1)
        end = jnp.array([destinations << bits], word)
        starts = jnp.searchsorted(words, jnp.concatenate([bounds, end]))
        return starts.astype(jnp.int32), (words & word((1 << bits) - 1)).astype(jnp.int32)
    dtype = jnp.uint16 if chains < 1 << (_WORD // 2) else jnp.uint32
    chain = jnp.where(valid < destinations, valid * panels + panel, chains).astype(dtype)
    keys, positions = jax.lax.sort((chain, position), num_keys=1, is_stable=True)
    starts = jnp.searchsorted(keys, jnp.arange(chains + 1, dtype=dtype))
    return starts.astype(jnp.int32), positions


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
        position = positions[jnp.where(alive, start + t, 0)]
        return jnp.where(alive[:, None], reduction.combine(total, updates[position]), total)

    initial = reduction.full((start.shape[0], updates.shape[1]), updates.dtype)
    longest = jnp.max(end - start, initial=0)
    return jax.lax.fori_loop(0, longest, step, vary_like(initial, start, updates))  # type: ignore[no-any-return]


def fold_panels(parts: jax.Array, total: jax.Array, *, reduction: Reduction) -> jax.Array:
    """Folds [destinations, panels, width] over panels, left to right, starting with ``total``."""

    def step(panel: jax.Array, total: jax.Array) -> jax.Array:
        part: jax.Array = jax.lax.dynamic_index_in_dim(parts, panel, axis=1, keepdims=False)
        return reduction.combine(total, part)

    return jax.lax.fori_loop(0, parts.shape[1], step, vary_like(total, parts))  # type: ignore[no-any-return]
