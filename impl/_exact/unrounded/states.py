"""States of sums: the exact sum of all terms so far, as three float64, to which more can be added.

An element of a state is ``high + low``, within ``slack``. TwoSum (Knuth, *The Art of Computer
Programming* 2, section 4.2.2) adds to both without error, as in double-double arithmetic (Dekker
1971, doi:10.1007/BF01397083). The slack also bounds the bits that do not fit
into 106 bits. If it is 0, as for terms of few bits, the sum is exact, and so are ties::

    terms             2**24, 1, 2**-30                 of three programs
    state             high = 2**24 + 1 + 2**-30, low = 0, slack = 0
    rounded           2**24 + 2, though 2**24 + 1 is halfway between two float32
    a slack of 2**-29 2**24 or 2**24 + 2: in doubt

Elements in doubt are counted again (``impl._exact.unrounded.operations``): for one *level* after
the other, the highest first, a state has the exact sum of the parts of all terms at this level. A
*total* adds these states: three words and the slack of what three words do not hold. The bits that
they drop are 2**-150 times the sum, so they matter only if the sum is that close to a tie.

Outside of ``arithmetic.wide()``, a state is an array of uint32: for each word an array of the upper
halves, then an array of the lower ones. So a loop of a program without 64 bits can carry it::

    shape of the sums    [5, 7]
    shape of a state     [6, 5, 7], which has 24 bytes for each sum
    shape of counts      [9, 5, 7]: the words of rounded sums, and their totals
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._native import states as native
from impl._native.scope import or_native

#: The float64 of a state and of a total, and the words of 32 bits of each.
WORDS, TOTAL_WORDS = 3, 4
HALVES = 2
#: The bound of the relative error of ``slack`` itself, a sum of many slacks.
_SAFE = 1 + 2.0**-10


def packed(words: Sequence[jax.Array]) -> jax.Array:
    """Returns float64 of one shape as one array of uint32, with a new first axis."""
    halves = []
    for word in words:
        raw = lax.bitcast_convert_type(word, np.uint64)
        upper = lax.shift_right_logical(raw, lax.full_like(raw, 32))
        halves += [lax.convert_element_type(each, np.uint32) for each in (upper, raw)]
    return lax.concatenate([lax.expand_dims(half, (0,)) for half in halves], 0)


def unpacked(state: jax.Array) -> list[jax.Array]:
    """Returns the float64 of a state or a total."""
    halves = [
        lax.convert_element_type(lax.index_in_dim(state, i, keepdims=False), np.uint64)
        for i in range(state.shape[0])
    ]
    pairs = zip(halves[::HALVES], halves[1::HALVES], strict=True)
    return [
        lax.bitcast_convert_type(
            lax.bitwise_or(lax.shift_left(upper, lax.full_like(upper, 32)), lower), np.float64
        )
        for upper, lower in pairs
    ]


def sums_of(state: jax.core.ShapedArray) -> int:
    """Returns the number of sums of a state, from its type."""
    return int(state.size) // (HALVES * WORDS)


def zeros(shape: Sequence[int]) -> jax.Array:
    """Returns the state of empty sums."""
    return lax.full((HALVES * WORDS, *shape), 0, np.uint32)


def _guarded(high: jax.Array, low: jax.Array, slack: jax.Array) -> jax.Array:
    """Returns a state. The error of a sum that is not finite is a NaN, and counts as 0."""
    is_finite, zero = lax.is_finite(high), lax.full_like(high, 0)
    return packed([high, *(lax.select(is_finite, each, zero) for each in (low, slack))])


@or_native(native.merged)
def merged(state: jax.Array, other: jax.Array) -> jax.Array:
    """Returns the state of all terms of two states."""
    return with_parts(state, *unpacked(other))


def with_parts(state: jax.Array, high: jax.Array, low: jax.Array, slack: jax.Array) -> jax.Array:
    """Returns the state of all terms of a state, and of sums ``high + low`` within ``slack``."""
    own_high, own_low, own_slack = unpacked(state)
    high, rest = arithmetic.two_sum(own_high, high)
    own_low, lost = arithmetic.two_sum(own_low, rest)
    low, more_lost = arithmetic.two_sum(own_low, low)
    lost = lax.add(lax.abs(lost), lax.abs(more_lost))
    return _guarded(high, low, lax.add(lax.add(own_slack, slack), lost))


def rounded(state: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the words of rounded sums, or ``interval.IN_DOUBT``; a zero is +0.

    Args:
        state: The state.
        dtype: float16, bfloat16 or float32.
    """
    high, low, slack = unpacked(state)
    return _coded(high, low, slack, dtype)


def _coded(
    high: jax.Array, low: jax.Array, slack: jax.Array, dtype: jax.typing.DTypeLike
) -> jax.Array:
    """Returns the words of ``high + low``, rounded once; ``IN_DOUBT`` where the slack decides."""
    wider = lax.add(
        lax.mul(slack, lax.full_like(slack, _SAFE)),
        lax.mul(lax.abs(low), lax.full_like(low, 2 * interval.ROUNDING)),
    )
    is_exact = lax.eq(slack, lax.full_like(slack, 0))
    wider = lax.select(is_exact, lax.full_like(wider, 0), wider)

    def end(low: jax.Array) -> jax.Array:
        near, rest = arithmetic.two_sum(high, low)
        odd = arithmetic.to_odd(near, rest)
        # The sum of an infinity has no rest.
        return arithmetic.narrow(lax.select(lax.is_finite(high), odd, high), dtype)

    least, greatest = end(lax.sub(low, wider)), end(lax.add(low, wider))
    raw = interval.word_of(interval.positive_zero(least))
    doubt = lax.full_like(raw, interval.IN_DOUBT)
    return lax.select(lax.lt(least, greatest), doubt, raw)


def folded(total: jax.Array, state: jax.Array) -> jax.Array:
    """Returns a total with the state of one more level."""
    *parts, lost = unpacked(total)
    more_high, more_low, more_slack = unpacked(state)
    for more in (more_high, more_low):
        rest = more
        for i, part in enumerate(parts):
            parts[i], rest = arithmetic.two_sum(part, rest)
        lost = lax.add(lost, lax.abs(rest))
    for i in (1, 0, 1):
        parts[i : i + 2] = arithmetic.two_sum(*parts[i : i + 2])
    return packed([*parts, lax.add(lost, more_slack)])


@or_native(native.counted)
def counted(
    level: jax.Array,
    counts: jax.Array,
    state: jax.Array,
    *,
    dtype: jax.typing.DTypeLike,
    last: int,
) -> jax.Array:
    """Returns words of rounded sums, and totals, after one more count of all terms.

    Args:
        level: The level that was counted, int32, shape []. The first count is of plain states, at a
            level below 0: it decides the words of most elements.
        counts: The counts so far (``no_counts``). The count of the last level decides the words in
            doubt.
        state: The states of the count.
        dtype: float16, bfloat16 or float32.
        last: The last level.
    """
    words = words_of(counts, dtype)
    is_first, is_last = (
        jnp.broadcast_to(each, words.shape)
        for each in (lax.lt(level, np.int32(0)), lax.ge(level, np.int32(last)))
    )
    more = folded(lax.slice_in_dim(counts, 1, counts.shape[0]), state)
    high, middle, low, lost = unpacked(more)
    of_total = high, arithmetic.to_odd(*arithmetic.two_sum(middle, low)), lost
    pairs = zip(unpacked(state), of_total, strict=True)
    high, low, slack = (lax.select(is_first, *pair) for pair in pairs)
    asked = lax.bitwise_or(is_first, lax.bitwise_and(is_last, interval.is_doubt(words)))
    words = lax.select(asked, _coded(high, low, slack, dtype), words)
    bits = lax.bitcast_convert_type(words, f"uint{8 * words.dtype.itemsize}")
    empty = jnp.broadcast_to(is_first[None], more.shape)
    totals = lax.select(empty, lax.full_like(more, 0), more)
    return lax.concatenate([bits.astype(np.uint32)[None], totals], 0)


def no_counts(shape: Sequence[int]) -> jax.Array:
    """Returns the counts of no terms: for each sum a word, and a total of four float64.

    Args:
        shape: The shape of the sums.

    Returns:
        uint32, shape ``[9, *shape]``.
    """
    return lax.full((1 + HALVES * TOTAL_WORDS, *shape), 0, np.uint32)


def words_of(counts: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the words of counts of sums of a dtype."""
    word = interval.word_type(dtype)
    bits = lax.index_in_dim(counts, 0, keepdims=False).astype(f"uint{8 * word.itemsize}")
    return lax.bitcast_convert_type(bits, word)


def values(words: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the floats of words. An element that is still in doubt is a NaN."""
    return lax.bitcast_convert_type(words, jnp.dtype(dtype))


def is_any_in_doubt(words: jax.Array) -> jax.Array:
    """Returns whether an element is in doubt."""
    return lax.reduce_or(interval.is_doubt(words), tuple(range(words.ndim)))
