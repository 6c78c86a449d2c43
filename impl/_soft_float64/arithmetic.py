"""Sums, quotients, comparisons and conversions of float64, by integers, rounded to the nearest.

The algorithms are SoftFloat's (Hauser, *Berkeley SoftFloat*, release 3e, 2018), written for
arrays: both branches are computed and one is selected, and subnormal numbers count as zeros. An
operation aligns or multiplies significands in 64 bits, keeps one bit that tells whether anything
was lost below, and rounds once (``words.packed``)::

    1 + 2**-53      significands 2**62 and 2**9      sum 2**62 + 2**9, a tie, so 1
    1 / 3           quotient 0x5555555555555555      remainder 1, so the lost bits are not 0

The key of a word is a signed integer; the order of keys is the order of numbers::

    number    -inf            -1              -0 and +0    1              inf
    key       -0x7ff0...      -0x3ff0...      0            0x3ff0...      0x7ff0...

A float of 32 bits or fewer becomes a word by shifts, since float64 has all of its exponents. A word
becomes a float32 by one rounding, to the nearest, ties to even; a result below 2**-126 becomes a
zero of its sign. A word becomes a float of 16 bits by a float32 that is rounded to odd (Boldo and
Melquiond 2008, doi:10.1109/TC.2007.70819)::

    float32 1.5 = 0x3fc00000    word 0x3ff8000000000000
    word of 1 + 2**-24          float32 1, since the tie goes to the even neighbour
    word of -2.5                whole number -2.0, int32 -2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._soft_float64 import words
from impl._soft_float64.words import bit, full, is_zero, left, masked, right

#: 2**52 of a significand becomes 2**62, one bit below the top, where a sum can carry.
_GUARD = 10


def add(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns words of ``a + b``. The sum of opposite numbers is +0."""
    of_a, of_b = words.magnitude(a), words.magnitude(b)
    is_first = lax.ge(of_a, of_b)
    greater, less = lax.select(is_first, a, b), lax.select(is_first, b, a)
    differs = lax.ne(words.sign_of(a), words.sign_of(b))
    power = words.exponent(greater)
    apart = lax.sub(power, words.exponent(less))
    # A shift by 62 leaves the greatest bit of a significand as the one that was lost.
    apart = lax.convert_element_type(lax.min(apart, full(apart, 62)), np.uint64)
    first = left(words.significand(greater), _GUARD)
    second = left(words.significand(less), _GUARD)
    shifted = lax.shift_right_logical(second, apart)
    lost = lax.ne(lax.shift_left(shifted, apart), second)
    shifted = lax.bitwise_or(shifted, bit(lost, shifted))
    total = lax.select(differs, lax.sub(first, shifted), lax.add(first, shifted))
    sign = lax.select(
        is_zero(total), lax.bitwise_and(words.sign_of(a), words.sign_of(b)), words.sign_of(greater)
    )
    result = words.packed(sign, lax.add(power, full(power, 1)), total)
    # An infinity and a finite number is the infinity; opposite infinities and NaNs are NaN.
    largest, other = words.magnitude(greater), words.magnitude(less)
    is_opposed = lax.bitwise_and(differs, lax.eq(other, full(other, words.INFINITY)))
    is_bad = lax.bitwise_or(lax.gt(largest, full(largest, words.INFINITY)), is_opposed)
    special = lax.select(is_bad, full(a, words.NAN), greater)
    return lax.select(lax.ge(largest, full(largest, words.INFINITY)), special, result)


def negative(a: jax.Array) -> jax.Array:
    """Returns words of ``-a``."""
    return lax.bitwise_xor(a, full(a, words.SIGN))


def subtract(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns words of ``a - b``."""
    return add(a, negative(b))


def multiply(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns words of ``a * b``."""
    sign = words.sign_of(lax.bitwise_xor(a, b))
    high, low = wide_product(left(words.significand(a), 11), left(words.significand(b), 11))
    high = lax.bitwise_or(high, bit(lax.ne(low, full(low, 0)), high))
    power = lax.add(words.exponent(a), words.exponent(b))
    result = words.packed(sign, lax.sub(power, full(power, 1022)), high)
    largest = lax.max(words.magnitude(a), words.magnitude(b))
    has_zero = lax.bitwise_or(is_zero(words.significand(a)), is_zero(words.significand(b)))
    is_bad = lax.bitwise_or(has_zero, lax.gt(largest, full(largest, words.INFINITY)))
    infinite = lax.bitwise_or(sign, full(sign, words.INFINITY))
    special = lax.select(is_bad, full(a, words.NAN), infinite)
    return lax.select(lax.ge(largest, full(largest, words.INFINITY)), special, result)


def wide_product(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the 128 bits of products of uint64: the high half and the low half.

    It multiplies halves of 32 bits (Warren, *Hacker's Delight*, 2012, section 8-2).
    """
    a_high, a_low = right(a, 32), masked(a, 0xFFFFFFFF)
    b_high, b_low = right(b, 32), masked(b, 0xFFFFFFFF)
    low = lax.mul(a_low, b_low)
    middle = lax.add(lax.mul(a_high, b_low), right(low, 32))
    other = lax.add(lax.mul(a_low, b_high), masked(middle, 0xFFFFFFFF))
    high = lax.add(lax.mul(a_high, b_high), lax.add(right(middle, 32), right(other, 32)))
    return high, lax.bitwise_or(left(other, 32), masked(low, 0xFFFFFFFF))


def high_product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the high 64 bits of products of uint64."""
    return wide_product(a, b)[0]


def divide(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns words of ``a / b``.

    The quotient of significands has 55 or 56 bits. The product with the reciprocal is at most 2
    too small, and the remainder tells how much.
    """
    sign = words.sign_of(lax.bitwise_xor(a, b))
    dividend, divisor = words.significand(a), words.significand(b)
    quotient = right(high_product(left(dividend, 11), _reciprocal(left(divisor, 11))), 8)
    remainder = lax.sub(left(dividend, 55), lax.mul(quotient, divisor))
    for _ in range(2):
        fits = lax.ge(remainder, divisor)
        remainder = lax.sub(remainder, lax.select(fits, divisor, full(divisor, 0)))
        quotient = lax.add(quotient, bit(fits, quotient))
    # Two zeros below the quotient, and a last bit for the remainder.
    value = lax.bitwise_or(left(quotient, 2), bit(lax.ne(remainder, full(a, 0)), a))
    power = lax.sub(words.exponent(a), words.exponent(b))
    result = words.packed(sign, lax.add(power, full(power, 1023 + 6)), value)
    of_a, of_b = words.magnitude(a), words.magnitude(b)
    infinity = full(a, words.INFINITY)
    a_is_zero, b_is_zero = is_zero(dividend), is_zero(divisor)
    is_bad = lax.bitwise_and(a_is_zero, b_is_zero)
    is_bad = lax.bitwise_or(is_bad, lax.bitwise_and(lax.ge(of_a, infinity), lax.ge(of_b, infinity)))
    is_bad = lax.bitwise_or(is_bad, lax.gt(lax.max(of_a, of_b), infinity))
    is_infinite = lax.bitwise_or(b_is_zero, lax.eq(of_a, infinity))
    is_none = lax.bitwise_or(a_is_zero, lax.eq(of_b, infinity))
    result = lax.select(is_none, sign, result)
    result = lax.select(is_infinite, lax.bitwise_or(sign, infinity), result)
    return lax.select(is_bad, full(a, words.NAN), result)


def _reciprocal(divisor: jax.Array) -> jax.Array:
    """Returns at most 2**127 / divisor, and at least 2**127 / divisor - 2**9.

    A line is within 1/17 of the reciprocal. Newton's iteration squares the relative error: to
    1/289, 2**-16 and 2**-31 in 32 bits, and to 2**-58 in 64 bits. The divisor is uint64 with the
    first bit set.
    """
    short = lax.convert_element_type(right(divisor, 32), np.int64)
    line = right(lax.mul(short, full(short, round(32 / 17 * 2**30))), 31)
    found = lax.sub(full(short, round(48 / 17 * 2**31)), line)
    for _ in range(3):
        error = _down(lax.neg(lax.sub(lax.mul(short, found), full(short, -(1 << 63)))), 31)
        found = lax.add(found, _down(lax.mul(found, error), 32))
    found = lax.min(found, full(found, (1 << 32) - 1))
    whole = left(lax.convert_element_type(found, np.uint64), 32)
    error = lax.sub(full(whole, 1 << 63), high_product(divisor, whole))
    error = _down(lax.convert_element_type(error, np.int64), 3)
    more = lax.sub(_down(lax.mul(found, error), 28), full(error, 1 << 8))
    return lax.add(whole, lax.convert_element_type(more, np.uint64))


def root(a: jax.Array) -> jax.Array:
    """Returns words of the square root of ``a``.

    The root of a significand has 55 bits. Newton's iteration gives 1 / root in 32 bits; one step of
    Heron's method makes the root of it, at most 4 too small, and the remainder tells how much.
    """
    power = words.exponent(a)
    # An exponent whose distance from 1023 is odd gives one bit to the significand.
    is_odd = lax.eq(masked(power, 1), full(power, 0))
    value = words.significand(a)
    value = lax.select(is_odd, left(value, 1), value)
    root = _root_of_110_bits(value)
    remainder = lax.sub(left(value, 56), lax.mul(root, root))
    for _ in range(4):
        step = lax.bitwise_or(left(root, 1), full(root, 1))
        fits = lax.ge(remainder, step)
        remainder = lax.sub(remainder, lax.select(fits, step, full(step, 0)))
        root = lax.add(root, bit(fits, root))
    value = lax.bitwise_or(left(root, 2), bit(lax.ne(remainder, full(a, 0)), a))
    half = _down(lax.sub(power, full(power, 1023)), 1)
    result = words.packed(full(a, 0), lax.add(half, full(half, 1023 + 7)), value)
    infinity = full(a, words.INFINITY)
    is_zero_of_a = is_zero(words.significand(a))
    result = lax.select(lax.eq(a, infinity), infinity, result)
    is_bad = lax.bitwise_or(lax.gt(a, infinity), words.is_nan(a))
    result = lax.select(is_bad, full(a, words.NAN), result)
    return lax.select(is_zero_of_a, words.sign_of(a), result)


def _root_of_110_bits(value: jax.Array) -> jax.Array:
    """Returns the square root of ``value * 2**56``, or up to 4 less, of uint64 from 2**52 to 2**54.

    A fixed point number x from 1/4 to 1 has it as 54 bits.
    """
    signed = lax.convert_element_type(value, np.int64)
    short = right(signed, 22)
    # A line within 1/7 of 1 / root(x), with 31 bits after the point. Each of Newton's steps takes
    # an error e to 3/2 e**2.
    line = right(lax.mul(short, full(short, round(1.2 * 2**30))), 31)
    found = lax.sub(full(short, round(2.2 * 2**31)), line)
    for _ in range(5):
        square = right(lax.mul(found, right(found, 0)), 31)
        error = lax.sub(full(short, 3 << 31), right(lax.mul(short, square), 32))
        found = right(lax.mul(found, error), 32)
    first = right(lax.mul(short, found), 32)
    rest = lax.sub(left(signed, 8), lax.mul(first, first))
    more = _down(lax.mul(_down(rest, 2), found), 37)
    root = lax.add(left(first, 24), lax.sub(more, full(more, 2)))
    return lax.convert_element_type(root, np.uint64)


def _down(value: jax.Array, count: int) -> jax.Array:
    """Returns signed integers divided by a power of two, rounded down."""
    return lax.shift_right_arithmetic(value, full(value, count))


#: A comparison of integers of one dtype.
Comparison = Callable[[jax.Array, jax.Array], jax.Array]


def key(word: jax.Array) -> jax.Array:
    """Returns int64 in the order of numbers; subnormal numbers have the key of zero."""
    field = words.masked(word, words.INFINITY)
    size = lax.select(words.is_zero(field), full(word, 0), words.magnitude(word))
    signed = lax.convert_element_type(size, np.int64)
    return lax.select(is_signed(word), lax.neg(signed), signed)


def sortable(word: jax.Array) -> jax.Array:
    """Returns int64 in the order of numbers, with every NaN after infinity."""
    found = key(word)
    return lax.select(words.is_nan(word), full(found, words.NAN), found)


def is_signed(word: jax.Array) -> jax.Array:
    """Returns where words have a sign."""
    return lax.ge(word, full(word, words.SIGN))


def compared(compare: Comparison) -> Comparison:
    """Returns a comparison of words. It is False where a NaN is, except for ``lax.ne``."""

    def run(a: jax.Array, b: jax.Array) -> jax.Array:
        holds = compare(key(a), key(b))
        has_nan = lax.bitwise_or(words.is_nan(a), words.is_nan(b))
        if compare is lax.ne:
            return lax.bitwise_or(holds, has_nan)
        return lax.bitwise_and(holds, lax.bitwise_not(has_nan))

    return run


def maximum(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the greater words; NaN where one is a NaN."""
    return _chosen(a, b, lax.ge(key(a), key(b)))


def minimum(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the smaller words; NaN where one is a NaN."""
    return _chosen(a, b, lax.le(key(a), key(b)))


def _chosen(a: jax.Array, b: jax.Array, is_first: jax.Array) -> jax.Array:
    first = lax.bitwise_or(
        words.is_nan(a), lax.bitwise_and(is_first, lax.bitwise_not(words.is_nan(b)))
    )
    return lax.select(first, a, b)


def clamp(low: jax.Array, value: jax.Array, high: jax.Array) -> jax.Array:
    """Returns words between two bounds of the same shape."""
    return minimum(maximum(value, low), high)


def sign(a: jax.Array) -> jax.Array:
    """Returns words of -1, 1, or the zero or NaN itself."""
    one = lax.bitwise_or(words.sign_of(a), full(a, words.ONE))
    is_itself = lax.bitwise_or(words.is_nan(a), lax.eq(key(a), full(key(a), 0)))
    return lax.select(is_itself, a, one)


#: The difference of the biases of float64 and float32, and of the lengths of their fractions.
_BIAS, _LENGTH = 1023 - 127, 52 - 23


def to_word(value: jax.Array) -> jax.Array:
    """Returns numbers as words: floats of 32 bits or fewer, integers, or bools."""
    if jnp.issubdtype(value.dtype, np.floating):
        return _of_float32(lax.convert_element_type(value, np.float32))
    if value.dtype == np.bool_ or jnp.issubdtype(value.dtype, np.unsignedinteger):
        whole = lax.convert_element_type(value, np.uint64)
        return _of_integer(full(whole, 0), whole)
    signed = lax.convert_element_type(value, np.int64)
    size = lax.convert_element_type(lax.abs(signed), np.uint64)
    is_negative = lax.lt(signed, full(signed, 0))
    return _of_integer(left(bit(is_negative, size), 63), size)


def _of_integer(sign: jax.Array, size: jax.Array) -> jax.Array:
    """Returns words of integers, rounded once. The lost bits fit below a significand."""
    return words.packed(sign, lax.full(size.shape, 1023 + 63, np.int64), size)


def _of_float32(value: jax.Array) -> jax.Array:
    raw = lax.convert_element_type(lax.bitcast_convert_type(value, np.uint32), np.uint64)
    sign, size = left(right(raw, 31), 63), masked(raw, 0x7FFFFFFF)
    moved = lax.add(left(size, _LENGTH), full(raw, _BIAS << 52))
    beyond = lax.bitwise_or(left(size, _LENGTH), full(raw, words.INFINITY))
    quiet = lax.select(lax.gt(size, full(size, 0x7F800000)), full(raw, 1 << 51), full(raw, 0))
    moved = lax.select(lax.ge(size, full(size, 0x7F800000)), lax.bitwise_or(beyond, quiet), moved)
    moved = lax.select(lax.lt(size, full(size, 1 << 23)), full(raw, 0), moved)
    return lax.bitwise_or(sign, moved)


def from_word(word: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns words as numbers of a dtype.

    Args:
        word: The words.
        dtype: A float of 32 bits or fewer, rounded to the nearest; an integer, cut, where one that
            is out of range becomes the nearest of the dtype, and a NaN 0; or bool.
    """
    dtype = jnp.dtype(dtype)
    if dtype == np.bool_:
        return lax.bitwise_or(words.is_nan(word), lax.ne(words.significand(word), full(word, 0)))
    if jnp.issubdtype(dtype, np.integer):
        return _to_integer(word, dtype)
    size = words.magnitude(word)
    if dtype == np.float32:  # To the nearest, ties to even.
        half = full(size, (1 << (_LENGTH - 1)) - 1)
        size = lax.add(size, lax.add(half, masked(right(size, _LENGTH), 1)))
        return _to_float32(right(size, _LENGTH), word)
    lost = lax.ne(masked(size, (1 << _LENGTH) - 1), full(size, 0))
    odd = lax.bitwise_or(right(size, _LENGTH), bit(lost, size))
    return lax.convert_element_type(_to_float32(odd, word), dtype)


def _to_float32(size: jax.Array, word: jax.Array) -> jax.Array:
    """Returns float32 of the signs of words, with exponents that have the bias of float64.

    ``size`` has the exponents of 11 bits, and fractions of 23 bits.
    """
    least, beyond = full(size, (_BIAS + 1) << 23), full(size, (_BIAS + 255) << 23)
    moved = lax.select(lax.lt(size, least), full(size, 0), lax.sub(size, full(size, _BIAS << 23)))
    moved = lax.select(lax.ge(size, beyond), full(size, 0x7F800000), moved)
    payload = masked(right(word, _LENGTH), (1 << 22) - 1)
    nan = lax.bitwise_or(payload, full(size, 0x7FC00000))
    moved = lax.bitwise_or(lax.select(words.is_nan(word), nan, moved), left(right(word, 63), 31))
    return lax.bitcast_convert_type(lax.convert_element_type(moved, np.uint32), np.float32)


def _to_integer(word: jax.Array, dtype: np.dtype[Any]) -> jax.Array:
    ends = jnp.iinfo(dtype)
    power = lax.sub(words.exponent(word), lax.full(word.shape, 1023, np.int64))
    size = left(words.significand(word), 11)
    places = lax.clamp(np.int64(0), lax.sub(full(power, 63), power), np.int64(63))
    size = lax.shift_right_logical(size, lax.convert_element_type(places, np.uint64))
    size = lax.select(lax.lt(power, full(power, 0)), full(size, 0), size)
    is_negative = is_signed(word)
    most = lax.select(is_negative, full(size, -int(ends.min)), full(size, int(ends.max)))
    is_huge = lax.bitwise_or(lax.gt(power, full(power, 63)), lax.gt(size, most))
    size = lax.select(is_huge, most, size)
    size = lax.select(words.is_nan(word), full(size, 0), size)
    signed = lax.select(is_negative, lax.neg(size), size)
    return lax.convert_element_type(lax.convert_element_type(signed, np.int64), dtype)


def floor(word: jax.Array) -> jax.Array:
    """Returns words of the greatest whole numbers that are not greater."""
    return _whole(word, is_signed(word))


def ceil(word: jax.Array) -> jax.Array:
    """Returns words of the least whole numbers that are not less."""
    return _whole(word, lax.bitwise_not(is_signed(word)))


def _whole(word: jax.Array, grows: jax.Array) -> jax.Array:
    """Returns words cut to whole numbers, away from zero where they are cut and grow."""
    size, fraction = _places(word)
    mask = lax.sub(lax.shift_left(full(size, 1), fraction), full(size, 1))
    lost = lax.ne(lax.bitwise_and(size, mask), full(size, 0))
    up = lax.select(lax.bitwise_and(lost, grows), mask, full(mask, 0))
    cut = lax.bitwise_and(lax.add(size, up), lax.bitwise_not(mask))
    small = lax.select(grows, full(size, words.ONE), full(size, 0))
    return _assembled(word, size, cut, small)


def round_to_even(word: jax.Array) -> jax.Array:
    """Returns words of the nearest whole numbers, ties to even."""
    size, fraction = _places(word)
    unit = lax.shift_left(full(size, 1), fraction)
    mask = lax.sub(unit, full(unit, 1))
    half = lax.sub(right(unit, 1), full(unit, 1))
    odd = masked(lax.shift_right_logical(size, fraction), 1)
    is_whole = lax.eq(fraction, full(fraction, 0))
    more = lax.select(is_whole, full(size, 0), lax.add(half, odd))
    cut = lax.bitwise_and(lax.add(size, more), lax.bitwise_not(mask))
    above_half = lax.gt(size, full(size, 1022 << 52))
    small = lax.select(above_half, full(size, words.ONE), full(size, 0))
    return _assembled(word, size, cut, small)


def _places(word: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns magnitudes, and the numbers of bits after the point, from 0 to 52."""
    size = words.magnitude(word)
    fraction = lax.sub(lax.full(word.shape, 1075, np.int64), words.exponent(word))
    fraction = lax.clamp(np.int64(0), fraction, np.int64(52))
    return size, lax.convert_element_type(fraction, np.uint64)


def _assembled(word: jax.Array, size: jax.Array, cut: jax.Array, small: jax.Array) -> jax.Array:
    """Returns words with the signs of words, cut to whole numbers.

    ``cut`` are the results for magnitudes of at least 1, and ``small`` for those between 0 and 1.
    """
    is_zero = words.is_zero(words.masked(size, words.INFINITY))
    below = lax.select(is_zero, full(size, 0), small)
    whole = lax.select(lax.lt(size, full(size, words.ONE)), below, cut)
    is_special = lax.ge(size, full(size, words.INFINITY))
    return lax.bitwise_or(words.sign_of(word), lax.select(is_special, size, whole))
