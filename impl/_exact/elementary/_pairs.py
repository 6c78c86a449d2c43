"""Arithmetic and functions on pairs: unevaluated sums of two float64, of about 106 bits together.

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

``pair_log``, ``pair_exp`` and ``pair_atan`` have a relative error of about 2**-67. A table reduces
the argument further than for float64, to 1/16 or less, as Tang (1989, doi:10.1145/63522.214389)
does. They are then the first terms of a series, added as pairs, and a polynomial of float64 for the
terms after these, which are so small that their rounding errors do not matter. The logarithm is
``2 * (y + y**3 / 3 + ...)`` with y = (m - 1) / (m + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import nearest_integer, product, seal, to_odd, two_sum
from impl._exact.elementary._words import constant, data, plus, polynomial, times, wide_quotient

#: A high part, and a low part of at most half a unit in the last place of the high one.
Pair: TypeAlias = tuple[jax.Array, jax.Array]
#: The number of bits of each half of a factor.
_HALF = 26


def short(value: jax.Array, bits: int) -> jax.Array:
    """Returns a float64 rounded to a number of bits, from 2 to 52; ties go away from zero.

    Of infinities and NaN the result is not finite.
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


@jax.jit
def product_error(a: jax.Array, b: jax.Array, near: jax.Array) -> jax.Array:
    """Returns ``a * b - near``, exactly, where ``near`` is the float64 nearest to the product.

    The engine ``native`` has one step for it.
    """
    a_high, b_high = short(a, _HALF), short(b, _HALF)
    a_low, b_low = lax.sub(a, a_high), lax.sub(b, b_high)
    # Of the halves, all products are exact.
    rest = lax.sub(lax.mul(a_high, b_high), near)
    rest = lax.add(lax.add(rest, lax.mul(a_high, b_low)), lax.mul(b_high, a_low))
    return lax.add(rest, product(a_low, b_low))


def two_product(a: jax.Array, b: jax.Array) -> Pair:
    """Returns ``a * b`` as a pair, exactly, unless it overflows or underflows."""
    near = product(a, b)
    return near, product_error(a, b, near)


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

    The pair is normalized, and its high part is no zero. If its low part is not finite, the result
    is the high part.
    """
    return to_odd(*value)


_LOG2_E = 1.4426950408889634


def pair_series(terms: Sequence[tuple[float, float]], x: Pair, tail: jax.Array) -> Pair:
    """Returns a polynomial by Horner's rule: terms, the lowest first, and a tail after them."""
    *rest, last = terms
    high, low = two_sum(constant(tail, last[0]), product(x[0], tail))
    result = fast_two_sum(high, plus(seal(lax.add(low, product(x[1], tail))), last[1]))
    for term in reversed(rest):
        result = plus_pair(pair(tail, term), times_pair(x, result))
    return result


def _quotient(a: jax.Array, b: jax.Array) -> Pair:
    """Returns ``a / b`` of floats of 31 bits as a pair whose parts have 22 and 53 bits."""
    high = short(wide_quotient(a, b), 22)
    return high, wide_quotient(lax.sub(a, lax.mul(high, b)), b)


def _square(x: Pair) -> Pair:
    """Returns the square of a pair whose high part has 26 bits or fewer."""
    crossed = product(x[1], seal(lax.add(lax.add(x[0], x[0]), x[1])))
    return fast_two_sum(lax.mul(x[0], x[0]), crossed)


#: Numbers c for which c * m is close to 1, the bounds of m for each, and their logarithms.
_FACTORS = (
    (44 / 32, 0.0, data.PAIR_LOG_44_32),
    (41 / 32, 0.7529, data.PAIR_LOG_41_32),
    (38 / 32, 0.8101, data.PAIR_LOG_38_32),
    (35 / 32, 0.8767, data.PAIR_LOG_35_32),
    (1.0, 0.9552, (0.0, 0.0)),
    (29 / 32, 1.0492, data.PAIR_LOG_29_32),
    (26 / 32, 1.1636, data.PAIR_LOG_26_32),
    (23 / 32, 1.3061, data.PAIR_LOG_23_32),
)


def factor_to_one(m: jax.Array) -> tuple[jax.Array, Pair]:
    """Returns the number c of a table for which c * m is nearest to 1, and -log(c)."""
    factor, table = constant(m, 1), pair(m, (0.0, 0.0))
    for value, bound, logarithm in _FACTORS:
        is_above = lax.gt(m, constant(m, bound))
        factor = lax.select(is_above, constant(m, value), factor)
        table = choose(is_above, pair(m, (-logarithm[0], -logarithm[1])), table)
    return factor, table


def pair_log(m: jax.Array, k: jax.Array) -> Pair:
    """Returns log(2**k * m) as a pair: k * log(2) - log(c) + log(c * m), with c * m close to 1.

    m is a float64 of 24 bits, from sqrt(1/2) to sqrt(2), and k an integer of at most 11 bits, as
    float64.
    """
    factor, table = factor_to_one(m)
    # The product has 30 bits, and y at most 2**-5.
    f = plus(product(factor, m), -1.0)
    high, low = _quotient(f, plus(f, 2.0))
    square = product(high, high)  # exact
    crossed = product(high, low)
    slope = times(product(seal(lax.add(square, crossed)), low), 3.0)
    cube, of_cube = two_product(square, high)
    of_cube = seal(lax.add(of_cube, slope))
    main, of_main = two_product(cube, constant(m, data.PAIR_2_3[0]))
    of_main = seal(lax.add(of_main, times(cube, data.PAIR_2_3[1])))
    of_main = seal(lax.add(of_main, times(of_cube, data.PAIR_2_3[0])))
    near_square = lax.add(square, seal(lax.add(lax.add(crossed, crossed), product(low, low))))
    fifth = product(lax.add(cube, of_cube), near_square)
    fifth = product(fifth, polynomial(data.PAIR_LOG, near_square))
    rest = lax.add(seal(lax.add(lax.add(low, low), of_main)), fifth)
    first, of_first = fast_two_sum(lax.add(high, high), main)
    # The products of k with the first two parts of log(2) are exact.
    total, of_total = two_sum(lax.mul(k, constant(k, data.LN2_HIGH)), table[0])
    total, of_first_total = two_sum(total, first)
    of_k = seal(lax.add(lax.mul(k, constant(k, data.LN2_LOW)), times(k, data.LN2_REST)))
    rest = seal(lax.add(rest, lax.add(of_first, lax.add(of_k, table[1]))))
    return fast_two_sum(total, lax.add(rest, lax.add(of_total, of_first_total)))


_ROOTS = (
    (1.0, 0.0),
    data.PAIR_EXP2_1_8,
    data.PAIR_EXP2_2_8,
    data.PAIR_EXP2_3_8,
    data.PAIR_EXP2_4_8,
    data.PAIR_EXP2_5_8,
    data.PAIR_EXP2_6_8,
    data.PAIR_EXP2_7_8,
)


def eighth_root(i: jax.Array) -> Pair:
    """Returns 2**(i / 8) for integers from 0 to 7, as float64."""
    root = pair(i, _ROOTS[0])
    for number, value in enumerate(_ROOTS[1:], 1):
        root = choose(lax.ge(i, constant(i, number)), pair(i, value), root)
    return root


def pair_exp(x: Pair) -> tuple[Pair, jax.Array]:
    """Returns y and n with exp(x) = y * 2**n: y as a pair, from 0.9 to 2, and n as float64.

    x is a pair from -150 to 150: n * log(2) + i / 8 * log(2) + r, so that y is 2**(i / 8) * exp(r).
    """
    eighths = nearest_integer(times(x[0], 8 * _LOG2_E))
    # Both products are exact, and so is the first difference.
    r = seal(lax.sub(x[0], lax.mul(eighths, constant(eighths, data.LN2_HIGH / 8))))
    high, low = two_sum(r, lax.neg(lax.mul(eighths, constant(eighths, data.LN2_LOW / 8))))
    low = lax.sub(seal(lax.add(low, x[1])), times(eighths, data.LN2_REST / 8))
    high, low = fast_two_sum(high, low)
    square, of_square = two_product(high, high)
    of_square = seal(lax.add(times(of_square, 0.5), product(high, low)))
    more = product(product(square, high), polynomial(data.PAIR_EXP, high))
    first, of_first = fast_two_sum(high, times(square, 0.5))
    total, of_total = fast_two_sum(constant(r, 1), first)
    rest = lax.add(seal(lax.add(low, lax.add(of_first, of_square))), more)
    power = fast_two_sum(total, lax.add(of_total, rest))
    n = lax.floor(times(eighths, 0.125))
    return times_pair(eighth_root(lax.sub(eighths, times(n, 8.0))), power), n


#: Tangents, the bounds of the interval of each, and their angles.
_TANGENTS = (
    (0.25, 0.125, data.PAIR_ATAN_1_4),
    (0.5, 0.375, data.PAIR_ATAN_2_4),
    (0.75, 0.625, data.PAIR_ATAN_3_4),
    (1.0, 0.875, data.PAIR_ATAN_4_4),
)


def pair_atan(short_side: jax.Array, long_side: jax.Array) -> Pair:
    """Returns the angle of the point (long_side, short_side), from 0 to pi / 4, as a pair.

    The angle whose tangent is the nearest multiple of 1/4 is subtracted first, by a rotation whose
    products and sums are exact. The sides are float32 as float64: the long one is positive, finite
    and not less than the short one, which is not negative.
    """
    tangent = constant(long_side, 0)
    angle = pair(long_side, (0.0, 0.0))
    for value, bound, its_angle in _TANGENTS:
        is_above = lax.gt(short_side, lax.mul(long_side, constant(long_side, bound)))
        tangent = lax.select(is_above, constant(tangent, value), tangent)
        angle = choose(is_above, pair(tangent, its_angle), angle)
    over = lax.sub(short_side, product(tangent, long_side))
    # Far from the diagonal the tangent is 0, and nothing is added.
    under = lax.add(long_side, product(tangent, short_side))
    y = _quotient(over, under)
    square = _square(y)
    terms = (
        (-data.PAIR_1_3[0], -data.PAIR_1_3[1]),
        data.PAIR_1_5,
        (-data.PAIR_1_7[0], -data.PAIR_1_7[1]),
    )
    more = pair_series(terms, square, polynomial(data.PAIR_ATAN, square[0]))
    y = fast_two_sum(*y)
    return plus_pair(angle, plus_pair(y, times_pair(times_pair(y, square), more)))
