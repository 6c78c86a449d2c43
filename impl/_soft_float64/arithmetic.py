"""Sums, products, quotients and roots of float64, by integers, rounded to the nearest.

The algorithms are SoftFloat's (Hauser, *Berkeley SoftFloat*, release 3e, 2018), written for
arrays: both branches are computed and one is selected, and subnormal numbers count as zeros. An
operation aligns or multiplies significands in 64 bits, keeps one bit that tells whether anything
was lost below, and rounds once (``words.packed``)::

    1 + 2**-53      significands 2**62 and 2**9      sum 2**62 + 2**9, a tie, so 1
    1 / 3           quotient 0x5555555555555555      remainder 1, so the lost bits are not 0
"""

from __future__ import annotations

import jax
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
    1/289, 2**-16 and 2**-31 in 32 bits, and to 2**-58 in 64 bits.

    Args:
        divisor: uint64 with the first bit set.
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
    """Returns the square root of ``value * 2**56``, or up to 4 less.

    Args:
        value: uint64 from 2**52 to 2**54. A fixed point number x from 1/4 to 1 has it as 54 bits.
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
