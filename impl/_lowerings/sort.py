"""Positions in sorted order along the middle axis of [outer, n, inner], and the most frequent.

Everything here is exact and stable, so both paths and every device share it: what differs is only
how a CPU sorts.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl._kernels.triton import Launch
from impl._lowerings.select_kth import as_rows, some_rows_at_a_time, sort_keys

#: From keys [rows, n] to the positions of each row in ascending and stable order, int32.
Argsort = Callable[[jax.Array], jax.Array]

#: A CPU finds the first few by a heap if they are no more than this part of all.
_FEW = 16


def cpu_rank(values: jax.Array, *, count: int, descending: bool) -> jax.Array:
    """Positions of the first ``count``, on a CPU."""
    outer, n, inner = values.shape
    if values.size == 0 or count == 0:
        return jnp.zeros((outer, count, inner), jnp.int32)
    few = count * _FEW <= n and jnp.dtype(values.dtype).itemsize <= 4

    def first(lines: jax.Array) -> jax.Array:
        keys = sort_keys(lines)
        if few:
            return _top(keys if descending else ~keys, count)
        return _packed_argsort(~keys if descending else keys)[:, :count]

    return _back(some_rows_at_a_time(first, count, as_rows(values)), values)


def xla_rank(values: jax.Array, *, count: int, descending: bool) -> jax.Array:
    """Positions of the first ``count``."""
    outer, _, inner = values.shape
    if values.size == 0 or count == 0:
        return jnp.zeros((outer, count, inner), jnp.int32)
    keys = sort_keys(as_rows(values))
    return _back(_argsort(~keys if descending else keys)[:, :count], values)


def kernel_rank(values: jax.Array, *, count: int, descending: bool, launch: Launch) -> jax.Array:
    """As ``xla_rank``: XLA's sort needs no kernel beside it."""
    del launch
    return xla_rank(values, count=count, descending=descending)


def cpu_most_frequent(values: jax.Array) -> jax.Array:
    """The lowest position of the most frequent, on a CPU."""
    outer, _, inner = values.shape
    if values.size == 0:
        return jnp.zeros((outer, 1, inner), jnp.int32)

    def most(lines: jax.Array) -> jax.Array:
        return _most_frequent(lines, _packed_argsort)

    return _back(some_rows_at_a_time(most, 1, as_rows(values)), values)


def xla_most_frequent(values: jax.Array) -> jax.Array:
    """The lowest position of the most frequent."""
    outer, _, inner = values.shape
    if values.size == 0:
        return jnp.zeros((outer, 1, inner), jnp.int32)
    return _back(_most_frequent(as_rows(values), _argsort), values)


def kernel_most_frequent(values: jax.Array, *, launch: Launch) -> jax.Array:
    """As ``xla_most_frequent``."""
    del launch
    return xla_most_frequent(values)


def _back(rows: jax.Array, values: jax.Array) -> jax.Array:
    """[outer, m, inner] of [outer * inner, m]."""
    outer, _, inner = values.shape
    return jnp.moveaxis(rows.reshape(outer, inner, rows.shape[1]), 2, 1)


def _argsort(keys: jax.Array) -> jax.Array:
    places = jax.lax.broadcasted_iota(jnp.int32, keys.shape, 1)
    _, sorted_places = jax.lax.sort((keys, places), dimension=1, num_keys=1, is_stable=True)
    return sorted_places


def _packed_argsort(keys: jax.Array) -> jax.Array:
    """As ``_argsort``, several times as fast on a CPU: key and place are one integer of 64 bits."""
    if keys.dtype.itemsize > 4:
        return _argsort(keys)
    with jax.enable_x64(True):
        places = jax.lax.broadcasted_iota(jnp.uint64, keys.shape, 1)
        packed = (keys.astype(jnp.uint64) << jnp.uint64(32)) | places
        # Stable, though no two are equal: the faster algorithm.
        low = jax.lax.sort(packed, dimension=1, is_stable=True).astype(jnp.uint32)
        return jax.lax.convert_element_type(low, jnp.int32)


def _top(keys: jax.Array, count: int) -> jax.Array:
    """Positions of the greatest keys: XLA's top-k on a CPU is for float32 alone.

    It compares floats by their bits, of NaNs and zeros too, and so is stable for all of them.
    """
    if keys.dtype.itemsize < 4:
        numbers = keys.astype(jnp.float32)
    else:
        sign = jnp.uint32(1 << 31)
        numbers = jax.lax.bitcast_convert_type(
            jnp.where(keys >= sign, keys ^ sign, ~keys), jnp.float32
        )
    return jax.lax.top_k(numbers, count)[1].astype(jnp.int32)


def _most_frequent(lines: jax.Array, argsort: Argsort) -> jax.Array:
    """Positions [rows, 1] of [rows, n]."""
    keys = sort_keys(lines)
    places = argsort(keys)
    keys = jnp.take_along_axis(keys, places, axis=1)
    first = jnp.pad(keys[:, 1:] != keys[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    if jnp.issubdtype(lines.dtype, jnp.floating):
        first |= keys == ~keys.dtype.type(0)  # A NaN equals nothing.
    here = jax.lax.broadcasted_iota(jnp.int32, keys.shape, 1)
    start = jax.lax.cummax(jnp.where(first, here, 0), axis=1)
    # Of the longest runs the first, and of that its first: the sort is stable.
    end = jnp.argmax(here - start, axis=1)[:, None]
    return jnp.take_along_axis(places, jnp.take_along_axis(start, end, axis=1), axis=1)
