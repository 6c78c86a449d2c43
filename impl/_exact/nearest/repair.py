"""The elements in doubt, computed again: some at a time, until none is left.

A loop takes one element in doubt from each of ``lanes`` interleaved parts of the result. The number
of lanes is a prime, since elements in doubt often lie in one row or one column. The flags of a lane
are packed, 32 in a word, so that a trip of the loop reads one bit for each element::

    doubt, 3 lanes        [0 0 1   0 1 0   0 1 0]      lane 1 has two elements in doubt
    trip 1                elements 4 (lane 1) and 2 (lane 2)
    trip 2                element 7 (lane 1)
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jax import lax

from impl._core.jax_internals.releases import FENCES_HOLD
from impl._core.numerics import fence
from impl._exact.nearest.interval import in_doubt

#: The numbers of lanes: primes, each some eight times smaller than the one before.
_LANES = (61, 7, 1)
#: The greatest number of terms that a trip adds, if it has more than one lane.
_TERMS = 1 << 16
#: The number of flags in a word.
_WORD = 16
#: A position after all positions.
_NONE = np.int32(2**30)


def lanes_of(size: int, terms: int) -> int:
    """Returns the number of elements that a trip computes.

    Args:
        size: The number of elements of the result.
        terms: The number of terms of an element.
    """
    fits = [lanes for lanes in _LANES if lanes * terms <= _TERMS] or [1]
    enough = [lanes for lanes in fits if lanes >= size]
    return enough[-1] if enough else fits[0]


def repaired(
    coded: jax.Array,
    dtype: jax.typing.DTypeLike,
    lanes: int,
    exact: Callable[[jax.Array, jax.Array], jax.Array],
) -> jax.Array:
    """Returns the result with the elements in doubt computed by ``exact``.

    Args:
        coded: Rounded values as words, ``IN_DOUBT`` where a value is in doubt; any shape.
        dtype: The dtype of the values.
        lanes: The number of elements that a trip computes.
        exact: Takes positions in the flat result, int32, shape [lanes], and whether each is in
            doubt; returns the elements. Positions that are not in doubt are 0, and their elements
            undefined.
    """
    size = coded.size
    flat, packed = _stored_apart(lax.reshape(coded, (size,)), lambda flat: _packed(flat, lanes))
    first = lax.mul(lax.broadcasted_iota(np.int32, packed.shape, 0), lax.full_like(packed, _WORD))

    def following(taken: jax.Array) -> jax.Array:
        """Returns the next flag of each lane after ``taken``, as 32 * word + bit."""
        start = lax.sub(lax.broadcast_in_dim(taken, packed.shape, (1,)), first)
        start = lax.add(start, lax.full_like(start, 1))
        start = lax.clamp(lax.full_like(start, 0), start, lax.full_like(start, 32))
        left = lax.bitwise_and(packed, lax.shift_left(lax.full_like(packed, -1), start))
        lowest = lax.sub(lax.bitwise_and(left, lax.neg(left)), lax.full_like(left, 1))
        flag = lax.add(first, lax.population_count(lowest))
        none = lax.full_like(flag, _NONE)
        return lax.reduce_min(lax.select(lax.ne(left, lax.full_like(left, 0)), flag, none), (0,))

    def trip(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        out, flag = state
        is_doubt = lax.lt(flag, lax.full_like(flag, _NONE))
        word = lax.shift_right_logical(flag, lax.full_like(flag, _WORD.bit_length() - 1))
        bit = lax.bitwise_and(flag, lax.full_like(flag, _WORD - 1))
        lane = lax.iota(np.int32, lanes)
        position = lax.add(lax.mul(word, lax.full_like(word, lanes)), lane)
        position = lax.add(position, lax.mul(bit, lax.full_like(bit, packed.size)))
        values = exact(lax.select(is_doubt, position, lax.full_like(position, 0)), is_doubt)
        slot = lax.select(is_doubt, position, lax.full_like(position, size))
        out = _stored(out, slot, lax.bitcast_convert_type(values, out.dtype))
        return out, following(flag)

    def has_any(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        least = lax.reduce_min(state[1], (0,))
        return lax.lt(least, lax.full_like(least, _NONE))

    start = following(lax.full((lanes,), -1, np.int32))
    out, _ = lax.while_loop(has_any, trip, (flat, start))
    return lax.bitcast_convert_type(lax.reshape(out, coded.shape), dtype)


def _stored_apart(
    flat: jax.Array, function: Callable[[jax.Array], jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Returns an array and a function of it, which XLA computes from the stored array.

    XLA would compute all elements again for each of their uses. A fence stops it, except in jax
    0.10, where a loop of one step does.
    """
    if FENCES_HOLD:
        flat = fence(flat)
        return flat, function(flat)
    is_first = lax.ge(
        lax.population_count(lax.index_in_dim(flat, 0, keepdims=False)), flat.dtype.type(0)
    )
    shape = jax.eval_shape(function, flat)
    state = (flat, lax.full(shape.shape, 0, shape.dtype), is_first)
    flat, result, _ = lax.while_loop(
        lambda state: state[2],
        lambda state: (state[0], function(state[0]), lax.full_like(is_first, False)),
        state,
    )
    return flat, result


def _packed(flat: jax.Array, lanes: int) -> jax.Array:
    """Returns the flags of elements in doubt, int32, shape [words of a lane, lanes].

    Bit b of word w, counted over all words, is the flag of element b * words + w. So a word reads
    elements that lie far apart, and neighbours are in words side by side, which XLA vectorises.
    """
    size = flat.size
    rows = -(-size // (_WORD * lanes))
    words = rows * lanes
    packed = lax.full((words,), 0, np.int32)
    for bit in range(min(_WORD, -(-size // words))):
        part = lax.slice(flat, [bit * words], [min(size, (bit + 1) * words)])
        flags = lax.convert_element_type(
            lax.eq(part, lax.full_like(part, in_doubt(part.dtype))), np.int32
        )
        if part.size < words:
            flags = lax.pad(flags, np.int32(0), [(0, words - part.size, 0)])
        packed = lax.bitwise_or(packed, lax.shift_left(flags, lax.full_like(flags, bit)))
    return lax.reshape(packed, (rows, lanes))


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
