"""The contributions of a scatter, sorted stably by destination."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from impl._core.lax_functions import where

#: The number of bits of the widest integer that holds a key together with its position.
_WORD = 32


def sorted_keys(destination: jax.Array, destinations: int) -> tuple[jax.Array, jax.Array]:
    """Sorts contributions by destination, then by position.

    If a key and its position fit into one integer, these integers are sorted. Otherwise pairs of
    key and position are sorted, which XLA on a GPU also does by radix.

    Args:
        destination: The destination of each contribution, int32, shape [n].
        destinations: The number of destinations. An invalid destination is sorted as this number.

    Returns:
        The destinations and the positions, int32.
    """
    n = destination.shape[0]
    position = jnp.arange(n, dtype=jnp.int32)
    valid = where(destination < destinations, destination, destinations)
    bits = max(n - 1, 1).bit_length()
    if destinations.bit_length() + bits <= _WORD:
        word = jnp.uint16 if destinations.bit_length() + bits <= _WORD // 2 else jnp.uint32
        words = jax.lax.sort((valid.astype(word) << bits) | position.astype(word))
        positions = (words & word((1 << bits) - 1)).astype(jnp.int32)
        return (words >> bits).astype(jnp.int32), positions
    dtype = jnp.uint16 if destinations < 1 << (_WORD // 2) else jnp.uint32
    keys, positions = jax.lax.sort((valid.astype(dtype), position), num_keys=1, is_stable=True)
    return keys.astype(jnp.int32), positions
