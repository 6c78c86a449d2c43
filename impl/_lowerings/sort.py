"""Lowerings of sorts, and of ``most_frequent``, along the middle axis of [outer, n, inner].

A stable sort moves elements and rounds none, so all devices have one result. They differ in the
algorithm:

===================  =================================  =======================================
Function             CPU                                GPU
===================  =================================  =======================================
all in order         one sort of 64-bit integers: the   XLA's sort of keys and positions
                     key above the position
few of many          top-k of groups, then of their     ``sort_top``, which sorts nothing, until
(``topk``)           members                            few elements remain; then XLA's sort
most frequent        the longest run of the sorted row  ``sort_frequent``, or XLA's sort
===================  =================================  =======================================

A key is an unsigned integer that sorts as the element does (``impl._families.sort_keys``). For the
first 2 of the row 4 9 1 7 3 8 in descending order, by groups of 2 neighbours:

    greatest of the groups   9 7 8     the first 2 of these: the groups 0 and 2
    their members            4 9 3 8   the first 2 of these: 9 at position 1, and 8 at position 5
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from impl import _kernels
from impl._core.axes import elements_at
from impl._core.lax_functions import where
from impl._families.sort_keys import sort_keys
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl._lowerings._common import axis_to_rows, map_row_blocks, rows_to_axis

#: Maps keys [rows, n] to the positions of each row in ascending and stable order, int32.
Argsort = Callable[[jax.Array], jax.Array]

#: A CPU selects the first positions with a heap, if they are at most this fraction of a row.
_TOP_FRACTION = 16
#: The number of bits of the narrowest integers that XLA sorts without keys. Floats need more bits.
_WHOLE = 8
#: The parts into which a CPU cuts the rows, if they have at least this number of elements together.
_PARTS, _PARALLEL = 8, 1 << 16


def argsort_cpu(values: jax.Array, *, count: int, descending: bool) -> jax.Array:
    """Returns the first ``count`` positions in sorted order."""
    outer, n, inner = values.shape
    if values.size == 0 or count == 0:
        return jnp.zeros((outer, count, inner), jnp.int32)
    rows = axis_to_rows(values)
    if count * _TOP_FRACTION <= n and jnp.dtype(values.dtype).itemsize <= 4:
        # XLA computes independent parts at the same time.
        parts = min(_PARTS, rows.shape[0]) if values.size >= _PARALLEL else 1
        bounds = [part * rows.shape[0] // parts for part in range(parts + 1)]
        top = [
            _top_by_group(rows[start:stop], count, descending=descending)
            for start, stop in itertools.pairwise(bounds)
        ]
        return rows_to_axis(jnp.concatenate(top), values)

    def block(rows: jax.Array) -> jax.Array:
        keys = sort_keys(rows)
        order = packed_argsort(jax.lax.bitwise_not(keys) if descending else keys)
        return order if count == keys.shape[1] else jax.lax.slice_in_dim(order, 0, count, axis=1)

    return rows_to_axis(map_row_blocks(block, count, rows), values)


def argsort_xla(values: jax.Array, *, count: int, descending: bool) -> jax.Array:
    """Returns the first ``count`` positions in sorted order."""
    outer, _, inner = values.shape
    if values.size == 0 or count == 0:
        return jnp.zeros((outer, count, inner), jnp.int32)
    keys = sort_keys(axis_to_rows(values))
    return rows_to_axis(stable_argsort(~keys if descending else keys)[:, :count], values)


def sort_cpu(values: jax.Array, *, descending: bool) -> tuple[jax.Array, jax.Array]:
    """Returns the elements in sorted order, and their positions."""
    positions = argsort_cpu(values, count=values.shape[1], descending=descending)
    return elements_at(values, positions), positions


def sort_xla(values: jax.Array, *, descending: bool) -> tuple[jax.Array, jax.Array]:
    """Returns the elements in sorted order, and their positions."""
    positions = argsort_xla(values, count=values.shape[1], descending=descending)
    return elements_at(values, positions), positions


def sort_kernel(
    values: jax.Array, *, descending: bool, launch: Launch
) -> tuple[jax.Array, jax.Array]:
    """Calls ``sort_xla``, since XLA's own sort is a kernel already."""
    del launch
    return sort_xla(values, descending=descending)


def sort_without_keys(
    values: jax.Array, *, descending: bool, launch: Launch
) -> tuple[jax.Array, jax.Array]:
    """Calls XLA's sort as plain JAX does, with the mode off: in one launch, which writes no keys.

    Its comparison orders NaNs and zeros as keys do, but may flush subnormals, if XLA is told to.
    """
    if descending or launch.interpret or values.size == 0 or not _is_compared(values):
        return sort_xla(values, descending=descending)
    rows = axis_to_rows(values)
    positions = jax.lax.broadcasted_iota(jnp.int32, rows.shape, 1)
    ordered = jax.lax.sort((rows, positions), dimension=1, num_keys=1, is_stable=True)
    return rows_to_axis(ordered[0], values), rows_to_axis(ordered[1], values)


def _is_compared(values: jax.Array) -> bool:
    """Returns whether XLA sorts a dtype on every GPU as it is."""
    if jnp.issubdtype(values.dtype, jnp.integer):
        return bool(jnp.iinfo(values.dtype).bits >= _WHOLE)
    floating = jnp.issubdtype(values.dtype, jnp.floating)
    return bool(floating) and jnp.finfo(values.dtype).bits > _WHOLE


def argsort_kernel(values: jax.Array, *, count: int, descending: bool, launch: Launch) -> jax.Array:
    """Returns the first ``count`` positions in sorted order, and sorts only these elements.

    Where ``count`` is large it calls ``argsort_xla``, since XLA's own sort is a kernel already.
    """
    size, n = values.size, values.shape[1]
    if not launch.has_kernels:
        return argsort_xla(values, count=count, descending=descending)
    many = 2 * count > n or _kernels.sort_top.parts_of(axis_to_rows(values), count) is None
    if count == 0 or size == 0 or size > MAX_ELEMENTS or many:
        return argsort_xla(values, count=count, descending=descending)
    rows = axis_to_rows(values)
    find = functools.partial(_kernels.sort_top.top_positions, descending=descending, launch=launch)
    parts = _kernels.sort_top.parts_of(rows, count) or 1
    positions = find(rows, count, parts=parts)
    while parts > 1:
        candidates = _at(rows, positions)
        parts = _kernels.sort_top.parts_of(candidates, count) or 1
        positions = _at(positions, find(candidates, count, parts=parts))
    keys = sort_keys(_at(rows, positions))
    order = stable_argsort(~keys if descending else keys)
    return rows_to_axis(_at(positions, order), values)


def _at(rows: jax.Array, positions: jax.Array) -> jax.Array:
    return jnp.take_along_axis(rows, positions, axis=1, mode="promise_in_bounds")


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
    rows = axis_to_rows(values)
    keys = sort_keys(rows)
    # Keys alone are half as much to sort as keys with positions.
    in_order = jax.lax.sort(keys, dimension=1, is_stable=False)
    first = _longest_run(in_order, is_float=jnp.issubdtype(rows.dtype, jnp.floating))
    equal = keys == jnp.take_along_axis(in_order, first, axis=1)
    return rows_to_axis(jnp.argmax(equal, axis=1)[:, None].astype(jnp.int32), values)


def most_frequent_kernel(values: jax.Array, *, launch: Launch) -> jax.Array:
    """Returns the lowest position of the most frequent element.

    A kernel sorts rows that fit the registers of an instance; longer rows take XLA's own sort.
    """
    if not launch.has_kernels:
        return most_frequent_xla(values)
    rows = axis_to_rows(values)
    if not 0 < values.size <= MAX_ELEMENTS or not _kernels.sort_frequent.takes(rows):
        return most_frequent_xla(values)
    return rows_to_axis(_kernels.sort_frequent.first_position(rows, launch=launch)[:, None], values)


def stable_argsort(keys: jax.Array) -> jax.Array:
    """Returns the positions of each row of keys in ascending and stable order, int32."""
    positions = jax.lax.broadcasted_iota(jnp.int32, keys.shape, 1)
    _, sorted_positions = jax.lax.sort((keys, positions), dimension=1, num_keys=1, is_stable=True)
    return sorted_positions


def packed_argsort(keys: jax.Array) -> jax.Array:
    """Computes ``stable_argsort`` several times as fast on a CPU.

    Key and position of an element are one integer of 64 bits.
    """
    if keys.dtype.itemsize > 4:
        return stable_argsort(keys)
    with jax.enable_x64(True):
        positions = jax.lax.broadcasted_iota(jnp.uint64, keys.shape, 1)
        wide = jax.lax.convert_element_type(keys, jnp.uint64)
        packed = jax.lax.bitwise_or(jax.lax.shift_left(wide, np.uint64(32)), positions)
        # No two integers are equal, but XLA's stable algorithm is the faster one.
        ordered = jax.lax.sort(packed, dimension=1, is_stable=True)
        low = jax.lax.convert_element_type(ordered, jnp.uint32)
        return jax.lax.convert_element_type(low, jnp.int32)


def _top_by_group(rows: jax.Array, count: int, *, descending: bool) -> jax.Array:
    """Returns the first positions of each row in sorted order, on a CPU.

    A group of neighbours is represented by its member that comes first. The result lies in the
    ``count`` groups whose representatives come first: these representatives alone come before every
    member of another group.
    """
    n = rows.shape[1]
    length = 1 << (math.isqrt(n // count).bit_length() - 1)
    groups = -(-n // length)

    def keys_of(values: jax.Array) -> jax.Array:
        return sort_keys(values) if descending else ~sort_keys(values)

    keys = jnp.pad(keys_of(rows), ((0, 0), (0, groups * length - n)))
    greatest = keys.reshape(rows.shape[0], groups, length).max(2)
    chosen = jnp.sort(_top_positions(greatest, count), axis=1)
    positions = chosen[:, :, None] * length + jnp.arange(length, dtype=jnp.int32)
    positions = positions.reshape(rows.shape[0], count * length)
    # A position after the end belongs to the padding, which never comes first.
    candidates = keys_of(_at(rows, jnp.minimum(positions, n - 1)))
    candidates = where(positions < n, candidates, jnp.zeros_like(candidates))
    return _at(positions, _top_positions(candidates, count))


def _top_positions(keys: jax.Array, count: int) -> jax.Array:
    """Returns the positions of the greatest keys, in descending and stable order.

    XLA for a CPU has a top-k of float32 alone, so keys are mapped to floats in their order. This
    top-k compares the bits of floats, also of NaNs and zeros, so it is stable for all keys.
    """
    if keys.dtype.itemsize < 4:
        numbers = keys.astype(jnp.float32)
    else:
        sign = jnp.uint32(1 << 31)
        numbers = jax.lax.bitcast_convert_type(where(keys >= sign, keys ^ sign, ~keys), jnp.float32)
    return jax.lax.top_k(numbers, count)[1].astype(jnp.int32)


def _most_frequent(rows: jax.Array, argsort: Argsort) -> jax.Array:
    """Returns the position of the most frequent element of each row, [rows, 1] of [rows, n]."""
    keys = sort_keys(rows)
    positions = argsort(keys)
    keys = jnp.take_along_axis(keys, positions, axis=1)
    first = _longest_run(keys, is_float=jnp.issubdtype(rows.dtype, jnp.floating))
    return jnp.take_along_axis(positions, first, axis=1)


def _longest_run(keys: jax.Array, *, is_float: bool) -> jax.Array:
    """Returns the index where the first of the longest runs of sorted keys starts.

    Keys are [rows, n], and indices [rows, 1].
    """
    starts_run = jnp.pad(keys[:, 1:] != keys[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    if is_float:
        starts_run |= keys == ~keys.dtype.type(0)  # A NaN equals nothing.
    index = jax.lax.broadcasted_iota(jnp.int32, keys.shape, 1)
    start = jax.lax.cummax(where(starts_run, index, 0), axis=1)
    end = jnp.argmax(index - start, axis=1)[:, None]
    return jnp.take_along_axis(start, end, axis=1)
