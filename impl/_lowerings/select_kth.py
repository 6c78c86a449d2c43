"""Position of the k-th smallest along the middle axis of [outer, n, inner], on both paths.

The k-th value is found by integers alone, one bit at a time, so it is the same on every device;
the paths differ in which of several equal elements they point at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.shard_axes import vary_like
from impl._kernels import select_kth as kernels
from impl._kernels.triton import Launch

#: From keys [rows, n] and a wanted key for each row to a position in each row.
Pick = Callable[[jax.Array, jax.Array], jax.Array]

#: How many elements a CPU goes through at a time: they stay in its cache over all steps.
_AT_A_TIME = 1 << 15


def cpu_first(values: jax.Array, ranks: jax.Array) -> jax.Array:
    """The lowest position of what has the given rank; a few rows after the other."""
    outer, _, inner = values.shape
    if values.size == 0:
        return jnp.zeros((outer, 1, inner), jnp.int32)

    def first(lines: jax.Array, ranks: jax.Array) -> jax.Array:
        keys = sort_keys(lines)
        return _argmax(keys, _kth_key(keys, ranks[:, 0]))[:, None]

    found = some_rows_at_a_time(first, 1, as_rows(values), as_rows(ranks))
    return found.reshape(outer, 1, inner)


def some_rows_at_a_time(
    function: Callable[..., jax.Array], width: int, lines: jax.Array, *others: jax.Array
) -> jax.Array:
    """``function`` of all rows, given those that fit a CPU's cache.

    Args:
        function: Takes some rows of each array; returns as many of int32, ``width`` wide.
        width: How many numbers it returns for a row.
        lines: Shape [rows, n].
        *others: Each of shape [rows, ...].

    Returns:
        int32, shape [rows, width].
    """
    rows, n = lines.shape
    count = max(1, _AT_A_TIME // n)
    if rows <= count:
        return function(lines, *others)

    def some(step: jax.Array, out: jax.Array) -> jax.Array:
        # The last ones start earlier, so that every step has as many.
        start = jnp.minimum(step * count, rows - count)
        parts = (jax.lax.dynamic_slice_in_dim(a, start, count) for a in (lines, *others))
        return jax.lax.dynamic_update_slice_in_dim(out, function(*parts), start, 0)

    none = vary_like(jnp.zeros((rows, width), jnp.int32), lines)
    out: jax.Array = jax.lax.fori_loop(0, -(-rows // count), some, none)
    return out


def xla_first(values: jax.Array, ranks: jax.Array) -> jax.Array:
    """The lowest position of what has the given rank."""
    return _kth(values, ranks, _argmax)


def kernel_first(values: jax.Array, ranks: jax.Array, *, launch: Launch) -> jax.Array:
    """The lowest position of what has the given rank."""
    return _kth(values, ranks, functools.partial(kernels.first_position, launch=launch))


def kernel_any(values: jax.Array, ranks: jax.Array, *, launch: Launch) -> jax.Array:
    """Any position of what has the given rank."""
    return _kth(values, ranks, functools.partial(kernels.any_position, launch=launch))


def sort_keys(values: jax.Array) -> jax.Array:
    """Unsigned integers that sort as ``values`` do: -0 equals 0, all NaNs are equal and last."""
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


def as_rows(values: jax.Array) -> jax.Array:
    """[outer * inner, n] of [outer, n, inner]."""
    outer, n, inner = values.shape
    return jnp.moveaxis(values, 1, 2).reshape(outer * inner, n)


def _kth(values: jax.Array, ranks: jax.Array, pick: Pick) -> jax.Array:
    outer, _, inner = values.shape
    if values.size == 0:
        return jnp.zeros((outer, 1, inner), jnp.int32)
    keys = sort_keys(as_rows(values))
    position = pick(keys, _kth_key(keys, as_rows(ranks)[:, 0]))
    return position.reshape(outer, 1, inner)


def _kth_key(keys: jax.Array, ranks: jax.Array) -> jax.Array:
    """The key that has the rank, in each row: its bits are settled from the highest."""
    bits = keys.dtype.itemsize * 8
    one = keys.dtype.type(1)

    def settle(step: jax.Array, known: jax.Array) -> jax.Array:
        bit = one << (bits - 1 - step).astype(keys.dtype)
        below = jnp.sum(keys <= (known | (bit - one))[:, None], axis=1, dtype=jnp.int32)
        return jnp.where(below < ranks, known | bit, known)

    none = vary_like(jnp.zeros((keys.shape[0],), keys.dtype), keys)
    return jax.lax.fori_loop(0, bits, settle, none)  # type: ignore[no-any-return]


def _argmax(keys: jax.Array, wanted: jax.Array) -> jax.Array:
    return jnp.argmax(keys == wanted[:, None], axis=1).astype(jnp.int32)
