"""The bits of float64 in integers of 64 bits: constants, fields, and packing with one rounding.

A *word* is a uint64 with the bits of a float64: a sign, 11 bits of an exponent with a bias of 1023,
and 52 bits of a fraction (IEEE 754-2019, section 3.4). A word whose exponent is 0 counts as a zero
of its sign, and a result below 2**-1022 becomes one, as XLA's threads on a CPU have it::

    1.5     sign 0, exponent 1023, fraction 2**51     0x3ff8000000000000
    -0.0    sign 1, exponent 0, fraction 0            0x8000000000000000
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

SIGN = 1 << 63
FRACTION = (1 << 52) - 1
INFINITY = 0x7FF << 52
NAN = INFINITY | 1 << 51
ONE = 1023 << 52
#: The bits below the 53 bits of a significand that fills 64 bits.
_REST = 11


def full(like: jax.Array, value: int) -> jax.Array:
    """Returns an array of the shape and dtype of ``like``, full of an integer."""
    return lax.full_like(like, np.array(value, like.dtype))


def is_zero(word: jax.Array) -> jax.Array:
    """Returns where integers are 0."""
    return lax.eq(word, full(word, 0))


def left(word: jax.Array, count: int) -> jax.Array:
    """Returns integers shifted to the left by a number of bits."""
    return lax.shift_left(word, full(word, count))


def right(word: jax.Array, count: int) -> jax.Array:
    """Returns integers shifted to the right by a number of bits; zeros come from the left."""
    return lax.shift_right_logical(word, full(word, count))


def masked(word: jax.Array, mask: int) -> jax.Array:
    """Returns the bits of integers that a mask has."""
    return lax.bitwise_and(word, full(word, mask))


def bit(condition: jax.Array, like: jax.Array) -> jax.Array:
    """Returns 1 where a condition holds, else 0, in the dtype of ``like``."""
    return lax.convert_element_type(condition, like.dtype)


def sign_of(word: jax.Array) -> jax.Array:
    """Returns the sign bits of words, in place."""
    return masked(word, SIGN)


def magnitude(word: jax.Array) -> jax.Array:
    """Returns words without their signs."""
    return masked(word, SIGN - 1)


def exponent(word: jax.Array) -> jax.Array:
    """Returns the biased exponents of words, int64."""
    return lax.convert_element_type(masked(right(word, 52), 0x7FF), np.int64)


def significand(word: jax.Array) -> jax.Array:
    """Returns the significands of words, below 2**53; 0 if the exponent is 0."""
    field = masked(word, INFINITY)
    whole = lax.bitwise_or(masked(word, FRACTION), full(word, 1 << 52))
    return lax.select(is_zero(field), full(word, 0), whole)


def is_nan(word: jax.Array) -> jax.Array:
    """Returns where words are NaNs."""
    return lax.gt(magnitude(word), full(word, INFINITY))


def is_finite(word: jax.Array) -> jax.Array:
    """Returns where words are neither NaNs nor infinities."""
    return lax.lt(magnitude(word), full(word, INFINITY))


def packed(sign: jax.Array, power: jax.Array, value: jax.Array) -> jax.Array:
    """Returns words of ``value * 2**(power - 1086)``, rounded once: to the nearest, ties to even.

    Args:
        sign: The sign bits, in place.
        power: The biased exponents of the greatest bit of ``value`` if that is bit 63, int64.
        value: uint64. If bits were lost below it, its last bit is 1, and one of the first two bits
            is 1 as well.
    """
    zeros = lax.clz(value)
    value = lax.shift_left(value, zeros)
    power = lax.sub(power, lax.convert_element_type(zeros, np.int64))
    kept, rest = right(value, _REST), masked(value, (1 << _REST) - 1)
    # More than half of a last place, or half of it and an odd last place.
    odd = lax.bitwise_or(rest, masked(kept, 1))
    grows = lax.gt(odd, full(odd, 1 << (_REST - 1)))
    # The greatest bit of the significand adds 1 to the exponent.
    field = lax.convert_element_type(lax.sub(power, full(power, 1)), np.uint64)
    word = lax.add(left(field, 52), lax.add(kept, bit(grows, kept)))
    # The exponent 0 becomes 1 if the significand grows to a power of two.
    is_tiny = lax.bitwise_or(lax.lt(word, full(word, 1 << 52)), is_zero(value))
    is_tiny = lax.bitwise_or(is_tiny, lax.lt(power, full(power, 0)))
    is_huge = lax.bitwise_or(lax.ge(power, full(power, 2047)), lax.ge(word, full(word, INFINITY)))
    word = lax.select(is_huge, full(word, INFINITY), word)
    return lax.bitwise_or(sign, lax.select(is_tiny, full(word, 0), word))
