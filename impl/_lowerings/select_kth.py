"""Lowerings of ``select_kth``: the position of the k-th smallest along the middle axis.

The technique is radix selection: elements become unsigned keys of the same order, and the key of
the rank is determined one bit after another, from the highest down. ``impl._kernels.select_kth``
has an example. Integer operations find the key, so every device finds the same one. Of several
elements that equal it, the lowest position is returned, in every mode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl import _kernels
from impl._core.lax_functions import filled, where
from impl._core.shard_axes import vary_like
from impl._families.sort_keys import sort_keys
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl._lowerings._common import axis_to_rows, map_row_blocks

#: The greatest number of elements that a CPU sorts. The program has half the size of a loop over
#: bits.
_FEW = 4096

#: Maps values [rows, n] and a rank for each row to a position of the element of that rank.
FindPosition = Callable[..., jax.Array]


def ordered_cpu(values: jax.Array, ranks: jax.Array, *, nan_first: bool = False) -> jax.Array:
    """Returns the lowest position of the element of the given rank, one block of rows at a time."""
    outer, _, inner = values.shape
    if values.size == 0:
        return jnp.zeros((outer, 1, inner), jnp.int32)
    if values.size <= _FEW:
        ranks = _ranks(values, ranks, nan_first=nan_first)
        return _position_of_kth(values, ranks, _by_sorting)

    def block(rows: jax.Array, ranks: jax.Array) -> jax.Array:
        return _by_bits(rows, _ranks(rows, ranks, nan_first=nan_first)[:, 0])[:, None]

    positions = map_row_blocks(block, 1, axis_to_rows(values), axis_to_rows(ranks))
    return positions.reshape(outer, 1, inner)


def ordered_xla(values: jax.Array, ranks: jax.Array, *, nan_first: bool = False) -> jax.Array:
    """Returns the lowest position of the element of the given rank."""
    return _position_of_kth(values, _ranks(values, ranks, nan_first=nan_first), _by_bits)


def ordered_kernel(
    values: jax.Array, ranks: jax.Array, *, launch: Launch, nan_first: bool = False
) -> jax.Array:
    """Returns the lowest position of the element of the given rank."""
    if values.size > MAX_ELEMENTS or not launch.has_kernels:
        return ordered_xla(values, ranks, nan_first=nan_first)
    find = functools.partial(_kernels.select_kth.first_position, launch=launch, nan_first=nan_first)
    return _position_of_kth(values, ranks, find)


def _ranks(values: jax.Array, ranks: jax.Array, *, nan_first: bool) -> jax.Array:
    """Returns the ranks; with ``nan_first``, in a row with NaNs the last rank, which is a NaN's."""
    if not nan_first or not jnp.issubdtype(values.dtype, jnp.floating):
        return ranks
    return where(jnp.isnan(values).any(1, keepdims=True), values.shape[1], ranks)


def _position_of_kth(values: jax.Array, ranks: jax.Array, find: FindPosition) -> jax.Array:
    outer, _, inner = values.shape
    if values.size == 0:
        return jnp.zeros((outer, 1, inner), jnp.int32)
    position = find(axis_to_rows(values), jax.lax.squeeze(axis_to_rows(ranks), (1,)))
    return jax.lax.reshape(position, (outer, 1, inner))


def _by_bits(rows: jax.Array, ranks: jax.Array) -> jax.Array:
    keys = sort_keys(rows)
    return _first_position(keys, _kth_key(keys, ranks))


def _by_sorting(rows: jax.Array, ranks: jax.Array) -> jax.Array:
    keys = sort_keys(rows)
    column = jax.lax.broadcasted_iota(jnp.int32, keys.shape, 1)
    # The k-th key is the greatest of the first k.
    is_before = jax.lax.lt(column, jax.lax.broadcast_in_dim(ranks, keys.shape, (0,)))
    ordered = jax.lax.sort(keys, dimension=1)
    first = jax.lax.select(is_before, ordered, filled(ordered, 0))
    target = jax.lax.broadcast_in_dim(jax.lax.reduce_max(first, (1,)), keys.shape, (0,))
    beyond = filled(column, keys.shape[1])
    return jax.lax.reduce_min(jax.lax.select(jax.lax.eq(keys, target), column, beyond), (1,))


def _kth_key(keys: jax.Array, ranks: jax.Array) -> jax.Array:
    """Returns the key of the given rank in each row; determines its bits from the highest down."""
    bits = keys.dtype.itemsize * 8
    one = keys.dtype.type(1)

    def determine_bit(step: jax.Array, known: jax.Array) -> jax.Array:
        bit = one << (bits - 1 - step).astype(keys.dtype)
        count = jnp.sum(keys <= (known | (bit - one))[:, None], axis=1, dtype=jnp.int32)
        return where(count < ranks, known | bit, known)

    initial = vary_like(jnp.zeros((keys.shape[0],), keys.dtype), keys)
    return jax.lax.fori_loop(0, bits, determine_bit, initial)  # type: ignore[no-any-return]


def _first_position(keys: jax.Array, targets: jax.Array) -> jax.Array:
    return jnp.argmax(keys == targets[:, None], axis=1).astype(jnp.int32)
