"""Operations that lowerings of several primitives share: the rows of an axis."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl._core.shard_axes import vary_like

#: The number of elements of a block of rows. Such a block stays in the cache of a CPU.
_ROW_BLOCK = 1 << 15


def axis_to_rows(values: jax.Array) -> jax.Array:
    """Moves the middle axis of [outer, n, inner] to the end: [outer * inner, n]."""
    outer, n, inner = values.shape
    if inner == 1:
        return jax.lax.reshape(values, (outer, n))
    return jax.lax.reshape(jax.lax.transpose(values, (0, 2, 1)), (outer * inner, n))


def rows_to_axis(rows: jax.Array, like: jax.Array) -> jax.Array:
    """Moves [outer * inner, m] to [outer, m, inner], with the outer and inner axes of ``like``."""
    outer, _, inner = like.shape
    if inner == 1:
        return jax.lax.expand_dims(rows, (2,))
    cut = jax.lax.reshape(rows, (outer, inner, rows.shape[1]))
    return jax.lax.transpose(cut, (0, 2, 1))


def map_row_blocks(
    function: Callable[..., jax.Array], width: int, rows: jax.Array, *others: jax.Array
) -> jax.Array:
    """Applies ``function`` to blocks of rows that fit the cache of a CPU.

    Args:
        function: Takes a block of each array; returns int32, shape [rows of the block, width].
        width: How many numbers it returns for a row.
        rows: Shape [rows, n].
        *others: Each of shape [rows, ...].

    Returns:
        int32, shape [rows, width].
    """
    number, n = rows.shape
    count = max(1, _ROW_BLOCK // n)
    if number <= count:
        return function(rows, *others)

    def block(step: jax.Array, out: jax.Array) -> jax.Array:
        # The last block starts earlier, so that all blocks have the same length.
        start = jnp.minimum(step * count, number - count)
        parts = (jax.lax.dynamic_slice_in_dim(a, start, count) for a in (rows, *others))
        return jax.lax.dynamic_update_slice_in_dim(out, function(*parts), start, 0)

    initial = vary_like(jnp.zeros((number, width), jnp.int32), rows)
    out: jax.Array = jax.lax.fori_loop(0, -(-number // count), block, initial)
    return out
