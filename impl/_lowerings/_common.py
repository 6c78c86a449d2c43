"""Operations that lowerings of several primitives share: rows of an axis, and keys that sort."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.shard_axes import vary_like

#: Elements of a block of rows. Such a block stays in the cache of a CPU.
_ROW_BLOCK = 1 << 15


def axis_to_rows(values: jax.Array) -> jax.Array:
    """Moves the middle axis of [outer, n, inner] to the end: [outer * inner, n]."""
    outer, n, inner = values.shape
    return jnp.moveaxis(values, 1, 2).reshape(outer * inner, n)


def rows_to_axis(rows: jax.Array, like: jax.Array) -> jax.Array:
    """Moves [outer * inner, m] to [outer, m, inner], with the outer and inner axes of ``like``."""
    outer, _, inner = like.shape
    return jnp.moveaxis(rows.reshape(outer, inner, rows.shape[1]), 2, 1)


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


def _whole_bytes(integers: jax.Array) -> jax.Array:
    """Returns integers of at least 8 bits: JAX cannot take the bits of a narrower dtype."""
    info = jnp.iinfo(integers.dtype)
    if info.bits >= 8:
        return integers
    return integers.astype(jnp.int8 if info.min < 0 else jnp.uint8)


def sort_keys(values: jax.Array) -> jax.Array:
    """Returns unsigned integers that sort as ``values`` do.

    -0 and 0 have the same key. All NaNs have the same key, which is the greatest.
    """
    if jnp.issubdtype(values.dtype, jnp.floating) and np.dtype(values.dtype).itemsize == 1:
        # Some of these have no infinity, no sign, or one NaN whose bits are those of -0.
        values = values.astype(jnp.float32)
    elif values.dtype != jnp.bool_ and jnp.issubdtype(values.dtype, jnp.integer):
        values = _whole_bytes(values)
    bits = np.dtype(values.dtype).itemsize * 8
    unsigned = jnp.dtype(f"uint{bits}")
    sign = jnp.array(1 << (bits - 1), unsigned)
    if values.dtype == jnp.bool_ or jnp.issubdtype(values.dtype, jnp.unsignedinteger):
        return values.astype(unsigned)
    raw = jax.lax.bitcast_convert_type(values, unsigned)
    if jnp.issubdtype(values.dtype, jnp.integer):
        return raw ^ sign
    magnitude = raw & ~sign
    infinity = jax.lax.bitcast_convert_type(jnp.array(jnp.inf, values.dtype), unsigned)
    keys = jnp.where(raw == magnitude, raw | sign, ~raw)
    keys = jnp.where(magnitude == 0, sign, keys)
    return jnp.where(magnitude > infinity, ~unsigned.type(0), keys)
