"""The elements in doubt, computed again: some at a time, until none is left.

A trip of the loop takes some elements in doubt, computes them exactly, and stores them over their
marks. To find them, the marks of 16 neighbours become the bits of one word, by a product with
powers of two, and ``top_k`` picks words that are not 0. Of each, the lowest bit is taken::

    in doubt        elements 3, 5 and 40                of 48
    words           2**3 + 2**5, 0, 2**8
    trip 1          elements 3 and 40
    trip 2          element 5
    trip 3          nothing, so the loop ends

A library adds the bits, and picks the words, on a CPU: a loop of XLA for either would take longer
to compile than the product whose elements are repaired.
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
#: The number of marks in a word. float32 holds the word exactly.
_WORD = 16
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
        count = min(count, -(-size // _WORD))

    def trip(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        out, _ = state
        top, word = lax.top_k(_words(out, count), count)
        bits = lax.convert_element_type(top, np.int32)
        lowest = lax.sub(lax.bitwise_and(bits, lax.neg(bits)), lax.full_like(bits, 1))
        position = lax.mul(word, lax.full_like(word, _WORD))
        position = lax.add(position, lax.population_count(lowest))
        is_asked = lax.gt(bits, lax.full_like(bits, 0))
        values = exact(lax.select(is_asked, position, lax.full_like(position, 0)))
        slot = lax.select(is_asked, position, lax.full_like(position, _NOWHERE))
        values = lax.bitcast_convert_type(word_of(values), kind)
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


def _words(flat: jax.Array, least: int) -> jax.Array:
    """Returns the marks of 16 neighbours as the bits of a whole number, float32.

    Args:
        flat: Words of ``interval.rounded``, or floats of their bits, shape [size].
        least: The least number of whole numbers, which JAX needs to know for a symbolic size.
    """
    words = lax.bitcast_convert_type(flat, word_type(flat.dtype))
    marks = lax.convert_element_type(is_doubt(words), np.float32)
    size: Any = flat.size
    missing = -size % _WORD
    if not isinstance(size, int):
        missing += least * _WORD
    if not isinstance(size, int) or missing:
        marks = lax.pad(marks, np.float32(0), [(0, missing, 0)])
    powers = np.float32(2) ** np.arange(_WORD, dtype=np.float32)
    words: jax.Array = lax.dot_general(
        lax.reshape(marks, (marks.size // _WORD, _WORD)),
        lax.convert_element_type(powers, np.float32),
        (((1,), (0,)), ((), ())),
        lax.Precision.HIGHEST,
    )
    return words


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
