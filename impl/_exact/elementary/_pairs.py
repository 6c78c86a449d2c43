"""Arithmetic on pairs: unevaluated sums of two float64, which have about 106 bits together.

A function of two arguments has too many arguments to try each, so its value has to be more accurate
than float64. Dekker (1971, doi:10.1007/BF01397083) computes with pairs: ``two_sum`` (Knuth) and
``two_product`` return a rounded result and its error, which is a float64 too. Devices need no fused
multiply-add for the product: its factors are split into halves of 26 bits, whose products are
exact. Every sum and product is sealed, or exact, so that XLA neither folds nor contracts them.

``rounded_to_odd`` makes one float64 of a pair, such that rounding it to 24 bits or fewer gives the
pair rounded once (Boldo and Melquiond 2008, doi:10.1109/TC.2007.70819)::

    pair                   1 + 2**-24  and  -2**-80       below the middle of two float32
    the first part alone   1 + 2**-24                     ties to even: 1
    pair with odd 3 ulp    1 + 3 * 2**-24 and -2**-80     as a float32 1 + 2**-23, not 1 + 2**-22
    rounded to odd         1 + 3 * 2**-24 - 2**-52 + ...  the last bit is 1, so the sum is below
"""

from __future__ import annotations

from typing import TypeAlias

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import product, seal, to_odd, two_sum
from impl._exact.elementary._words import constant

#: A high part, and a low part of at most half a unit in the last place of the high one.
Pair: TypeAlias = tuple[jax.Array, jax.Array]
#: The number of bits of each half of a factor.
_HALF = 26


def short(value: jax.Array, bits: int) -> jax.Array:
    """Returns a float64 rounded to a number of bits; ties go away from zero.

    Args:
        value: Any shape, float64; of infinities and NaN the result is not finite.
        bits: The bits of the significand of the result, from 2 to 52.
    """
    raw = lax.bitcast_convert_type(value, np.int64)
    lost = 53 - bits
    raw = lax.add(raw, lax.full_like(raw, 1 << (lost - 1)))
    return lax.bitcast_convert_type(
        lax.bitwise_and(raw, lax.full_like(raw, -1 << lost)), np.float64
    )


def fast_two_sum(a: jax.Array, b: jax.Array) -> Pair:
    """Returns ``a + b`` as a pair, exactly, if ``b`` is not greater than ``a`` in magnitude."""
    total = seal(lax.add(a, b))
    return total, lax.sub(b, seal(lax.sub(total, a)))


def two_product(a: jax.Array, b: jax.Array) -> Pair:
    """Returns ``a * b`` as a pair, exactly, unless it overflows or underflows."""
    result = product(a, b)
    a_high, b_high = short(a, _HALF), short(b, _HALF)
    a_low, b_low = lax.sub(a, a_high), lax.sub(b, b_high)
    # Of the halves, all products are exact.
    rest = lax.sub(lax.mul(a_high, b_high), result)
    rest = lax.add(lax.add(rest, lax.mul(a_high, b_low)), lax.mul(b_high, a_low))
    return result, lax.add(rest, product(a_low, b_low))


def times_pair(a: Pair, b: Pair) -> Pair:
    """Returns the product of two pairs, with a relative error of less than 2**-100."""
    high, low = two_product(a[0], b[0])
    crossed = seal(lax.add(product(a[0], b[1]), product(a[1], b[0])))
    return fast_two_sum(high, lax.add(low, crossed))


def plus_pair(a: Pair, b: Pair) -> Pair:
    """Returns the sum of two pairs of which the first is greater in magnitude, or both of one sign.

    The error is less than 2**-100 of the greater one.
    """
    high, low = two_sum(a[0], b[0])
    return fast_two_sum(high, lax.add(low, seal(lax.add(a[1], b[1]))))


def pair(like: jax.Array, value: tuple[float, float]) -> Pair:
    """Returns a constant pair of the shape of ``like``."""
    return constant(like, value[0]), constant(like, value[1])


def choose(condition: jax.Array, a: Pair, b: Pair) -> Pair:
    """Returns the pair ``a`` where a condition holds, and ``b`` elsewhere."""
    return lax.select(condition, a[0], b[0]), lax.select(condition, a[1], b[1])


def rounded_to_odd(value: Pair) -> jax.Array:
    """Returns a pair as float64, whose last bit is 1 if the pair is not that float64.

    Args:
        value: A normalized pair, whose high part is no zero. If its low part is not finite, the
            result is the high part.
    """
    return to_odd(*value)
