"""Lowerings of ``argsort`` and ``most_frequent`` along the middle axis of [outer, n, inner].

Sorting is exact and stable here, so both paths and all devices share one result. Only the sorting
algorithm of a CPU differs.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl._core.sort_keys import sort_keys
from impl._kernels.launch import Launch
from impl._lowerings._common import axis_to_rows, map_row_blocks, rows_to_axis

#: From keys [rows, n] to the positions of each row in ascending and stable order, int32.
Argsort = Callable[[jax.Array], jax.Array]

#: A CPU selects the first positions with a heap, if they are at most this fraction of a row.
_TOP_FRACTION = 16


def argsort_cpu(values: jax.Array, *, count: int, descending: bool) -> jax.Array:
    """Returns the first ``count`` positions in sorted order."""
    outer, n, inner = values.shape
    if values.size == 0 or count == 0:
        return jnp.zeros((outer, count, inner), jnp.int32)
    top = count * _TOP_FRACTION <= n and jnp.dtype(values.dtype).itemsize <= 4

    def block(rows: jax.Array) -> jax.Array:
        keys = sort_keys(rows)
        if top:
            return _top_positions(keys if descending else ~keys, count)
        return packed_argsort(~keys if descending else keys)[:, :count]

    return rows_to_axis(map_row_blocks(block, count, axis_to_rows(values)), values)


def argsort_xla(values: jax.Array, *, count: int, descending: bool) -> jax.Array:
    """Returns the first ``count`` positions in sorted order."""
    outer, _, inner = values.shape
    if values.size == 0 or count == 0:
        return jnp.zeros((outer, count, inner), jnp.int32)
    keys = sort_keys(axis_to_rows(values))
    return rows_to_axis(stable_argsort(~keys if descending else keys)[:, :count], values)


def argsort_kernel(values: jax.Array, *, count: int, descending: bool, launch: Launch) -> jax.Array:
    """Calls ``argsort_xla``: XLA's own sort is a kernel already."""
    del launch
    return argsort_xla(values, count=count, descending=descending)


def most_frequent_cpu(values: jax.Array) -> jax.Array:
    """Returns the lowest position of the most frequent element."""
    outer, _, inner = values.shape
    if values.size == 0:
        return jnp.zeros((outer, 1, inner), jnp.int32)

    def block(rows: jax.Array) -> jax.Array:
        return _most_frequent(rows, packed_argsort)

    return rows_to_axis(map_row_blocks(block, 1, axis_to_rows(values)), values)


def most_frequent_xla(values: jax.Array) -> jax.Array:
    """Returns the lowest position of the most frequent element."""
    outer, _, inner = values.shape
    if values.size == 0:
        return jnp.zeros((outer, 1, inner), jnp.int32)
    return rows_to_axis(_most_frequent(axis_to_rows(values), stable_argsort), values)


def most_frequent_kernel(values: jax.Array, *, launch: Launch) -> jax.Array:
    """Calls ``most_frequent_xla``: XLA's own sort is a kernel already."""
    del launch
    return most_frequent_xla(values)


def stable_argsort(keys: jax.Array) -> jax.Array:
    """Returns the positions of each row of keys in ascending and stable order, int32."""
    positions = jax.lax.broadcasted_iota(jnp.int32, keys.shape, 1)
    _, sorted_positions = jax.lax.sort((keys, positions), dimension=1, num_keys=1, is_stable=True)
    return sorted_positions


def packed_argsort(keys: jax.Array) -> jax.Array:
    """Returns the same as ``stable_argsort``, several times as fast on a CPU.

    Key and position of an element are one integer of 64 bits.
    """
    if keys.dtype.itemsize > 4:
        return stable_argsort(keys)
    with jax.enable_x64(True):
        positions = jax.lax.broadcasted_iota(jnp.uint64, keys.shape, 1)
        packed = (keys.astype(jnp.uint64) << jnp.uint64(32)) | positions
        # No two integers are equal, but XLA's stable algorithm is the faster one.
        low = jax.lax.sort(packed, dimension=1, is_stable=True).astype(jnp.uint32)
        return jax.lax.convert_element_type(low, jnp.int32)


def _top_positions(keys: jax.Array, count: int) -> jax.Array:
    """Returns the positions of the greatest keys, in descending and stable order.

    XLA for a CPU has a top-k of float32 alone, so keys are mapped to floats in their order. That
    top-k compares the bits of floats, those of NaNs and zeros too, so it is stable for all keys.
    """
    if keys.dtype.itemsize < 4:
        numbers = keys.astype(jnp.float32)
    else:
        sign = jnp.uint32(1 << 31)
        numbers = jax.lax.bitcast_convert_type(
            jnp.where(keys >= sign, keys ^ sign, ~keys), jnp.float32
        )
    return jax.lax.top_k(numbers, count)[1].astype(jnp.int32)


def _most_frequent(rows: jax.Array, argsort: Argsort) -> jax.Array:
    """Returns the position of the most frequent element of each row, [rows, 1] of [rows, n]."""
    keys = sort_keys(rows)
    positions = argsort(keys)
    keys = jnp.take_along_axis(keys, positions, axis=1)
    starts_run = jnp.pad(keys[:, 1:] != keys[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    if jnp.issubdtype(rows.dtype, jnp.floating):
        starts_run |= keys == ~keys.dtype.type(0)  # A NaN equals nothing.
    index = jax.lax.broadcasted_iota(jnp.int32, keys.shape, 1)
    start = jax.lax.cummax(jnp.where(starts_run, index, 0), axis=1)
    # The first of the longest runs, at its first element: the sort is stable.
    end = jnp.argmax(index - start, axis=1)[:, None]
    return jnp.take_along_axis(positions, jnp.take_along_axis(start, end, axis=1), axis=1)
