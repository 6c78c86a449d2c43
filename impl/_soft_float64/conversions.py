"""Conversions of float64 by integers, and roundings to whole numbers.

A float of 32 bits or fewer becomes a word by shifts, since float64 has all of its exponents. A word
becomes a float32 by one rounding, to the nearest, ties to even; a result below 2**-126 becomes a
zero of its sign. A word becomes a float of 16 bits by a float32 that is rounded to odd (Boldo and
Melquiond 2008, doi:10.1109/TC.2007.70819)::

    float32 1.5 = 0x3fc00000    word 0x3ff8000000000000
    word of 1 + 2**-24          float32 1, since the tie goes to the even neighbour
    word of -2.5                whole number -2.0, int32 -2
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._soft_float64 import words
from impl._soft_float64.ordering import is_signed
from impl._soft_float64.words import bit, full, left, masked, right

#: The difference of the biases of float64 and float32, and of the lengths of their fractions.
_BIAS, _LENGTH = 1023 - 127, 52 - 23


def to_word(value: jax.Array) -> jax.Array:
    """Returns numbers as words.

    Args:
        value: A float of 32 bits or fewer, an integer, or bool.
    """
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
    if dtype == np.float32:
        return _to_float32(_rounded_at(words.magnitude(word), _LENGTH), word)
    size = words.magnitude(word)
    lost = lax.ne(masked(size, (1 << _LENGTH) - 1), full(size, 0))
    odd = lax.bitwise_or(right(size, _LENGTH), bit(lost, size))
    return lax.convert_element_type(_to_float32(odd, word), dtype)


def _rounded_at(size: jax.Array, place: int) -> jax.Array:
    """Returns integers without their last bits, rounded to the nearest, ties to even."""
    half = full(size, (1 << (place - 1)) - 1)
    return right(lax.add(size, lax.add(half, masked(right(size, place), 1))), place)


def _to_float32(size: jax.Array, word: jax.Array) -> jax.Array:
    """Returns float32 of the signs of words, with exponents that have the bias of float64.

    Args:
        size: The exponents of 11 bits, and fractions of 23 bits.
        word: The words.
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

    Args:
        word: The words.
        size: Their magnitudes.
        cut: The results for magnitudes of at least 1.
        small: The results for magnitudes between 0 and 1.
    """
    is_zero = words.is_zero(words.masked(size, words.INFINITY))
    below = lax.select(is_zero, full(size, 0), small)
    whole = lax.select(lax.lt(size, full(size, words.ONE)), below, cut)
    is_special = lax.ge(size, full(size, words.INFINITY))
    return lax.bitwise_or(words.sign_of(word), lax.select(is_special, size, whole))
