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

*Products.* Each factor is split into a part of few bits and the rest, as in the splitting of Ozaki,
Ogita, Oishi and Rump 2012 (doi:10.1007/s11075-011-9478-1). A row of the left factor and a column
of the right factor have a unit each, a power of two. So a product of two parts is exact, in any
order in which a library adds, and the rests are smaller by the bits of a part::

    left = a + b, right = c + d     K = 1024 terms, and 21 bits for a and c
    a c                             at most 53 bits: exact
    a d + b right                   2**-21 times as great, with the error K 2**-53 of a plain sum
    slack                           K 2**-73 norm(left) norm(right), or 0 if b and d are 0

*Sums.* A part has 52 bits less the logarithm of the number of terms, so there are two parts, which
are added exactly. The slack is the rest of terms that are 2**-60 times the greatest one.

*Levels.* For elements in doubt, all terms are counted again, level by level: a level has the digits
of all terms at one position, or the products of two digits whose positions have one sum. These are
integers, and exact. Together, the levels have all bits of a float32.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import in_any_order
from impl._core.shard_axes import Devices, vary_like
from impl._exact import arithmetic
from impl._exact.nearest import exact_sum, interval
from impl._native import states as native
from impl._native.scope import or_native

#: The float64 of a state and of a total, and the words of 32 bits of each.
WORDS, TOTAL_WORDS = 3, 4
HALVES = 2
#: The bound of the relative error of ``slack`` itself, a sum of many slacks.
_SAFE = 1 + 2.0**-10


def packed(words: Sequence[jax.Array]) -> jax.Array:
    """Returns float64 of one shape as one array of uint32, with a new first axis."""
    halves = lax.bitcast_convert_type(jnp.stack(words), np.uint32)
    upper_first = jnp.moveaxis(lax.rev(halves, (halves.ndim - 1,)), -1, 1)
    return lax.reshape(upper_first, (HALVES * len(words), *words[0].shape))


def unpacked(state: jax.Array) -> list[jax.Array]:
    """Returns the float64 of a state or a total."""
    pairs = lax.reshape(state, (state.shape[0] // HALVES, HALVES, *state.shape[1:]))
    halves = jnp.moveaxis(lax.rev(pairs, (1,)), 1, -1)
    return list(lax.bitcast_convert_type(halves, np.float64))


def sums_of(state: jax.core.ShapedArray) -> int:
    """Returns the number of sums of a state, from its type."""
    return int(state.size) // (HALVES * WORDS)


def zeros(shape: Sequence[int]) -> jax.Array:
    """Returns the state of empty sums."""
    return lax.full((HALVES * WORDS, *shape), 0, np.uint32)


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
    slack = lax.add(lax.add(own_slack, slack), lost)
    # The error of a sum that is not finite is a NaN, and counts as 0.
    is_finite, zero = lax.is_finite(high), lax.full_like(high, 0)
    return packed([high, *(lax.select(is_finite, each, zero) for each in (low, slack))])


def rounded(state: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the words of sums rounded to a dtype of at most 32 bits, or ``interval.IN_DOUBT``.

    A zero is +0.
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

    They are uint32, of shape ``[9, *shape]``.
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


#: Sums ``high + low``, within ``slack``.
Parts: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
#: The level of a plain state. Levels from 0 on are counted for elements in doubt.
PLAIN = -1
#: The exponent of twice a power of two above every float32, and the bits from it to the last one.
_TOP, _SPAN = 129, 129 + 149
#: The bits of float64, and the bits of a float32.
_BITS, _SHORT = 53, 24
#: The exponent of the unit of zeros.
_LEAST = -300


def _width(count: int, factors: int) -> int:
    """Returns the bits of a part, such that sums of a number of products of parts are exact."""
    whole = (_BITS - 1 if factors == 1 else _BITS) - math.ceil(math.log2(max(count, 1)))
    return max(1, min(_SHORT if factors > 1 else whole, whole // factors))


def levels(count: int, factors: int) -> int:
    """Returns how many levels terms of 1 or 2 factors have.

    ``count`` is the number of terms of a sum, on all devices.
    """
    digits = math.ceil(_SPAN / _width(count, factors))
    return factors * (digits - 1) + 1


#: The number of levels of the longest sums.
MOST_LEVELS = levels(1 << 31, 2)


def _digits(value: jax.Array, index: jax.Array, width: int) -> jax.Array:
    """Returns the digits of float64 at an index, the highest one at 0; zeros at any other index."""
    exponent = lax.sub(np.int32(_TOP), lax.mul(lax.add(index, np.int32(1)), np.int32(width)))
    exponent = lax.clamp(np.int32(-2 * _SPAN), exponent, np.int32(2 * _SPAN))
    return exact_sum.part(arithmetic.finite_or_zero(value), exponent, width, are_far=False)


def _split(value: jax.Array, top: jax.Array, width: int) -> tuple[jax.Array, jax.Array]:
    """Returns the multiple of a unit, of ``width`` bits, and the rest, of finite float64.

    ``top`` is the greatest magnitude of those with one unit, of a shape that broadcasts.
    """
    exponent = arithmetic.exponent_above(top)
    exponent = lax.max(exponent, lax.full_like(exponent, _LEAST))
    exponent = lax.min(exponent, lax.full_like(exponent, -_LEAST))
    exponent = lax.sub(exponent, lax.full_like(exponent, width))
    unit, inverse = (arithmetic.power_of_two(each) for each in (exponent, lax.neg(exponent)))
    unit, inverse = (jnp.broadcast_to(each, value.shape) for each in (unit, inverse))
    multiple = lax.mul(arithmetic.nearest_integer(lax.mul(value, inverse)), unit)
    return multiple, lax.sub(value, multiple)


class _Terms:
    """How an operation adds its terms.

    ``_plain`` and ``_at`` take a level and operands, and return the sums, or one level of them.
    """

    _plain: Callable[..., Parts]
    _at: Callable[..., Parts]

    def parts(self, level: jax.Array, *operands: jax.Array) -> Parts:
        """Returns the sums of float64 that float32 holds, or one level of them.

        The level is ``PLAIN`` or a level, int32, shape [].
        """
        with in_any_order():
            is_plain = lax.lt(level, lax.full_like(level, 0))
            parts: Parts = lax.cond(is_plain, self._plain, self._at, level, *operands)
        return parts


@dataclasses.dataclass(frozen=True)
class Products(_Terms):
    """How an operation adds products of two factors.

    Attributes:
        count: The greatest number of terms of a sum, on all devices.
        multiply: Returns the sums of products of float64 factors, on this device.
        left_axes: The axes of the left factor whose elements share a unit.
        right_axes: The axes of the right factor whose elements share a unit.
        outer: Takes an array of the left factor's other axes and an array of the right factor's,
            and returns their products in the shape of the result.
        devices: The devices that share the sums.
    """

    count: int
    multiply: Callable[[jax.Array, jax.Array], jax.Array]
    left_axes: Sequence[int]
    right_axes: Sequence[int]
    outer: Callable[[jax.Array, jax.Array], jax.Array]
    devices: Devices

    def _plain(self, _: jax.Array, left: jax.Array, right: jax.Array) -> Parts:
        factors = ((left, tuple(self.left_axes)), (right, tuple(self.right_axes)))
        tops = [self.devices.max(_greatest(value, axes)) for value, axes in factors]
        are_finite = lax.is_finite(lax.max(*(jnp.max(top) for top in tops)))
        width = _width(self.count, 2)
        parts = []
        for (value, _axes), top in zip(factors, tops, strict=True):
            multiple, rest = _split(value, top, width)
            # The rest of an infinity has no unit: the left factor is one rest then.
            parts.append((_if(are_finite, multiple), rest))
        (first, rest), (second, more) = parts
        rest = lax.select(jnp.broadcast_to(are_finite, left.shape), rest, left)
        more = _if(are_finite, more)
        exact = self.devices.sum(self.multiply(first, second))
        smaller = self.devices.sum(
            lax.add(self.multiply(first, more), self.multiply(rest, right)),
        )
        slack = lax.add(
            self.outer(self._norm(first, self.left_axes), self._norm(more, self.right_axes)),
            self.outer(self._norm(rest, self.left_axes), self._norm(right, self.right_axes)),
        )
        relative = interval.of_chain(self.count + self.devices.number + 4)
        # A state expects infinities in the first part. There are no exact products then.
        exact = lax.select(jnp.broadcast_to(are_finite, exact.shape), exact, smaller)
        return exact, _if(are_finite, smaller), lax.mul(slack, lax.full_like(slack, relative))

    def _norm(self, value: jax.Array, axes: Sequence[int]) -> jax.Array:
        return lax.sqrt(self.devices.sum(lax.reduce_sum(lax.mul(value, value), tuple(axes))))

    def _at(self, level: jax.Array, left: jax.Array, right: jax.Array) -> Parts:
        width = _width(self.count, 2)
        number = math.ceil(_SPAN / width)

        def add(index: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
            index = lax.convert_element_type(index, np.int32)
            high, low = state
            of_left = _digits(left, index, width)
            of_right = _digits(right, lax.sub(level, index), width)
            sums = self.devices.sum(arithmetic.seal(self.multiply(of_left, of_right)))
            high, rest = arithmetic.two_sum(high, sums)
            return high, lax.add(low, rest)

        shape = jax.eval_shape(self.multiply, left, right)
        zero = vary_like(lax.full(shape.shape, 0, np.float64), left, right)
        high, low = lax.fori_loop(0, number, add, (zero, zero))
        exponent = lax.mul(lax.add(level, np.int32(2)), np.int32(width))
        return _scaled(high, low, lax.sub(np.int32(2 * _TOP), exponent))


@dataclasses.dataclass(frozen=True)
class Elements(_Terms):
    """How an operation adds elements of arrays.

    Attributes:
        count: The greatest number of terms of a sum, on all devices.
        add: Takes arrays of float64, and returns the sums of their elements, on this device.
        devices: The devices that share the sums.
    """

    count: int
    add: Callable[..., jax.Array]
    devices: Devices

    def _plain(self, _: jax.Array, *operands: jax.Array) -> Parts:
        tops = [jnp.max(lax.abs(arithmetic.finite_or_zero(each))) for each in operands if each.size]
        top = self.devices.max(jnp.max(jnp.stack(tops)))
        width = _width(self.count, 1)
        sums, rests = [], [*operands]
        for more in (0, width):
            down = arithmetic.power_of_two(lax.full((), -more, np.int32))
            pairs = [
                _split(arithmetic.finite_or_zero(each), lax.mul(top, down), width) for each in rests
            ]
            # The first sum has the infinities and NaNs.
            firsts = [
                lax.select(lax.is_finite(each), multiple, each)
                for each, (multiple, _rest) in zip(rests, pairs, strict=True)
            ]
            sums.append(self.devices.sum(self.add(*firsts)))
            rests = [rest for _multiple, rest in pairs]
        lost = self.devices.sum(
            functools.reduce(lax.add, (jnp.sum(lax.abs(rest)) for rest in rests))
        )
        high, low = sums
        return high, low, jnp.broadcast_to(lost, high.shape)

    def _at(self, level: jax.Array, *operands: jax.Array) -> Parts:
        width = _width(self.count, 1)
        sums = self.devices.sum(self.add(*(_digits(each, level, width) for each in operands)))
        exponent = lax.mul(lax.add(level, np.int32(1)), np.int32(width))
        low = lax.full_like(sums, 0)
        return _scaled(arithmetic.seal(sums), low, lax.sub(np.int32(_TOP), exponent))


def _greatest(value: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Returns the greatest magnitude along axes, which keep the length 1."""
    return lax.expand_dims(lax.reduce_max(lax.abs(value), tuple(axes)), tuple(axes))


def _if(chosen: jax.Array, value: jax.Array) -> jax.Array:
    """Returns a value, or zeros unless a scalar is true."""
    return lax.select(jnp.broadcast_to(chosen, value.shape), value, lax.full_like(value, 0))


def _scaled(high: jax.Array, low: jax.Array, exponent: jax.Array) -> Parts:
    """Returns integers ``high + low``, times a power of two, as sums without a slack."""
    # The last levels may be below all bits of a float32, and zero.
    power = arithmetic.power_of_two(lax.max(exponent, np.int32(arithmetic.MIN_EXPONENT)))
    high, low = (lax.mul(each, jnp.broadcast_to(power, each.shape)) for each in (high, low))
    return high, low, lax.full_like(high, 0)
