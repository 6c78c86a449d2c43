"""The elements in doubt, computed again: some at a time, until none is left.

A trip of the loop takes some elements in doubt, computes them exactly, and stores them over their
marks. To find them, each group of 16 neighbours gets a rank: 16 if the first one is in doubt, 15 if
the second is the first in doubt, and so on; 0 if none is. ``top_k`` picks groups that are not 0::

    in doubt        elements 3, 5 and 40                of 48
    ranks           13, 0, 8
    trip 1          elements 3 and 40
    trip 2          element 5
    trip 3          nothing, so the loop ends

A library computes the ranks, and picks the groups, on a CPU: a loop of XLA for either would take
longer to compile than the product whose elements are repaired. Compiling takes as long as there are
kernels that differ, so most of a trip is about arrays of ``_ELEMENTS``, which are equal for all
products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from impl._core.numerics import in_any_order
from impl._core.shard_axes import vary_like
from impl._exact.nearest.exact_sum import exact_sum
from impl._exact.nearest.interval import is_doubt, word_of, word_type
from impl._exact.products.shards import Cuts

#: The greatest numbers of elements, and of their terms, that a trip computes.
_ELEMENTS, _TERMS = 64, 1 << 17
#: The number of elements in a group.
_GROUP = 16
#: A position after the end of each array.
_NOWHERE = np.iinfo(np.int32).max


def repaired(
    coded: jax.Array,
    dtype: jax.typing.DTypeLike,
    terms: int,
    exact: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """Returns the result with the elements in doubt computed by ``exact``.

    Args:
        coded: Words of ``interval.rounded``, any shape.
        dtype: The dtype of the values.
        terms: The number of terms of an element, on a device.
        exact: Takes positions in the flat result, int32, shape [n], and returns the elements. If
            fewer are in doubt, the first element fills up, and may be undefined.
    """
    # A symbolic size (jax.export) is not an int.
    size = coded.size
    kind = np.float32 if np.dtype(dtype) == np.float32 else coded.dtype
    count = min(_ELEMENTS, max(1, _TERMS // terms))
    if isinstance(size, int):
        count = min(count, -(-size // _GROUP))

    def trip(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        out, _ = state
        rank, group = lax.top_k(_ranks(out, count), count)
        rank = lax.convert_element_type(rank, np.int32)
        is_asked = lax.gt(rank, lax.full_like(rank, 0))
        end = lax.mul(lax.add(group, lax.full_like(group, 1)), lax.full_like(group, _GROUP))
        position = lax.select(is_asked, lax.sub(end, rank), lax.full_like(rank, 0))
        slot = lax.select(is_asked, position, lax.full_like(position, _NOWHERE))
        values = lax.bitcast_convert_type(word_of(exact(position)), kind)
        return _stored(out, slot, values), lax.index_in_dim(is_asked, 0, keepdims=False)

    # XLA copies an array to make floats of its words, or does so on its way into the loop. It may
    # change the bits of a NaN of 16 bits.
    flat = lax.reshape(lax.bitcast_convert_type(coded, kind), (size,))
    start = flat, vary_like(lax.full((), True), flat)
    with in_any_order():
        out, _ = lax.while_loop(lambda state: state[1], trip, start)
    return lax.reshape(lax.bitcast_convert_type(out, dtype), coded.shape)


def repaired_sums(
    coded: jax.Array,
    dtype: jax.typing.DTypeLike,
    count: int,
    terms: Callable[[jax.Array], jax.Array],
    cuts: Cuts,
) -> jax.Array:
    """Returns sums with the elements in doubt added exactly.

    Args:
        coded: Words of ``interval.rounded``, any shape.
        dtype: The dtype of the sums.
        count: The number of terms of a sum, on a device.
        terms: Takes positions in the flat result, int32, shape [n]; returns the terms of these
            sums, float64, shape [n, K].
        cuts: The mesh axes over which the terms of a sum are sharded.
    """
    return repaired(coded, dtype, count, lambda at: exact_sum(terms(at), dtype, cuts))


def _ranks(flat: jax.Array, least: int) -> jax.Array:
    """Returns the rank of each group of 16 neighbours, float32.

    Args:
        flat: Words of ``interval.rounded``, or floats of their bits, shape [size].
        least: The least number of groups, which JAX needs to know for a symbolic size.
    """
    words = lax.bitcast_convert_type(flat, word_type(flat.dtype))
    marks = lax.convert_element_type(is_doubt(words), np.float32)
    size: Any = flat.size
    missing = -size % _GROUP
    if not isinstance(size, int):
        missing += least * _GROUP
    if not isinstance(size, int) or missing:
        marks = lax.pad(marks, np.float32(0), [(0, missing, 0)])
    rows = lax.reshape(marks, (marks.size // _GROUP, _GROUP))
    ranks = lax.broadcast_in_dim(np.arange(_GROUP, 0, -1, dtype=np.float32), rows.shape, (1,))
    return lax.reduce_max(lax.mul(rows, ranks), (1,))


def _stored(out: jax.Array, slots: jax.Array, values: jax.Array) -> jax.Array:
    """Returns a flat array with values at slots; a slot after its end is dropped."""
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    stored: jax.Array = lax.scatter(
        out,
        lax.broadcast_in_dim(slots, (*slots.shape, 1), (0,)),
        values,
        numbers,
        unique_indices=True,
        mode=lax.GatherScatterMode.FILL_OR_DROP,
    )
    return stored
