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

``log_of_ratio``, ``powers`` and ``direction`` are logarithms, exponentials and angles, for ``pow``
and ``atan2`` of float32 and for ``doubles``. A table reduces the argument further than for float64,
to 1/16 or less, as Tang (1989, doi:10.1145/63522.214389) does. They are then the first terms of a
series, added as pairs, and a polynomial of float64 for the terms after these, which are so small
that their rounding errors do not matter. The logarithm is ``2 * (y + y**3 / 3 + ...)`` with
y = (m - 1) / (m + 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import factorial
from typing import NamedTuple, TypeAlias

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import add_to_odd, nearest_integer, product, seal, to_odd, two_sum
from impl._exact.elementary._words import constant, data, plus, polynomial, times, wide_quotient

#: A high part, and a low part of at most half a unit in the last place of the high one.
Pair: TypeAlias = tuple[jax.Array, jax.Array]
#: A sum of two numbers as a pair.
Sum: TypeAlias = Callable[[jax.Array, jax.Array], Pair]
#: The number of bits of each half of a factor.
_HALF = 26
#: The bits of a number from which the bits of x are subtracted. The difference is the float64
#: 1 / x with an error of at most 5.1 %.
_RECIPROCAL = 0x7FDE6 << 44


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


def times_pair(a: Pair, b: Pair, exact: bool = True) -> Pair:
    """Returns the product of two pairs to 2**-100 of itself, normalised if ``exact``."""
    high, low = two_product(a[0], b[0])
    low = lax.add(low, seal(lax.add(product(a[0], b[1]), product(a[1], b[0]))))
    return fast_two_sum(high, low) if exact else (high, low)


def plus_pair(a: Pair, b: Pair) -> Pair:
    """Returns the sum of two pairs of which the first is greater in magnitude, or both of one sign.

    The error is less than 2**-100 of the greater one.
    """
    high, low = two_sum(a[0], b[0])
    return fast_two_sum(high, lax.add(low, seal(lax.add(a[1], b[1]))))


def plus_less(a: Pair, b: Pair, exact: bool = True) -> Pair:
    """Returns the bits of ``plus_pair`` if b is not greater than a in magnitude, or a is 0.

    Unless ``exact``, the low part may be some units in the last place of the high one.
    """
    high, low = fast_two_sum(a[0], b[0])
    low = lax.add(low, seal(lax.add(b[1], a[1])))
    return fast_two_sum(high, low) if exact else (high, low)


def pair(like: jax.Array, value: tuple[float, float]) -> Pair:
    """Returns a constant pair of the shape of ``like``."""
    return constant(like, value[0]), constant(like, value[1])


def with_zero(x: jax.Array) -> Pair:
    """Returns a number as a pair."""
    return x, constant(x, 0)


def choose(condition: jax.Array, a: Pair, b: Pair) -> Pair:
    """Returns the pair ``a`` where a condition holds, and ``b`` elsewhere."""
    return lax.select(condition, a[0], b[0]), lax.select(condition, a[1], b[1])


def rounded_to_odd(value: Pair) -> jax.Array:
    """Returns a pair as float64, whose last bit is 1 if the pair is not that float64.

    The pair is normalized, and its high part is no zero. If its low part is not finite, the result
    is the high part.
    """
    return to_odd(*value)


def short_quotient(a: jax.Array, b: jax.Array) -> Pair:
    """Returns ``a / b`` of floats of 31 bits as a pair whose parts have 22 and 53 bits."""
    high = short(wide_quotient(a, b), 22)
    return high, wide_quotient(lax.sub(a, lax.mul(high, b)), b)


def negative(x: Pair) -> Pair:
    """Returns -x."""
    return lax.neg(x[0]), lax.neg(x[1])


def as_pair(value: Fraction) -> tuple[float, float]:
    """Returns a number as the nearest float64 and the float64 nearest to the rest."""
    high = float(value)
    return high, float(value - Fraction(high))


def series(coefficients: Sequence[tuple[float, float]], x: Pair, kept: int) -> Pair:
    """Returns a polynomial, the lowest coefficient first, of which the first are kept as pairs.

    The terms after these, one or more, are computed in float64. It is Horner's rule.
    """
    tail = polynomial([high for high, _ in coefficients[kept:]], x[0])
    *rest, last = coefficients[:kept]
    high, low = two_sum(constant(tail, last[0]), product(x[0], tail))
    result = fast_two_sum(high, plus(seal(lax.add(low, product(x[1], tail))), last[1]))
    for term in reversed(rest):
        result = plus_pair(pair(tail, term), times_pair(x, result))
    return result


def reciprocal(x: jax.Array) -> jax.Array:
    """Returns 1 / x of a positive normal number, with an error of at most 2**-52 of itself."""
    raw = lax.bitcast_convert_type(x, np.int64)
    y = lax.bitcast_convert_type(lax.sub(lax.full_like(raw, _RECIPROCAL), raw), np.float64)
    for _ in range(4):
        y = lax.add(y, product(y, lax.sub(constant(x, 1), product(x, y))))
    return y


def quotient(a: Pair, b: Pair, exact: bool = True) -> Pair:
    """Returns a / b of pairs, with a relative error of less than 2**-100. b is positive.

    Unless ``exact``, the last bits may depend on how XLA divides.
    """
    inverse = reciprocal(b[0]) if exact else lax.div(constant(b[0], 1), b[0])
    near = product(a[0], inverse)
    above, below = two_product(near, b[0])
    rest = lax.add(lax.sub(lax.sub(a[0], above), below), lax.sub(a[1], product(near, b[1])))
    return fast_two_sum(near, product(seal(rest), inverse))


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


#: The coefficients of (atanh(y) / y - 1) / y**2, of the square of y.
_ATANH = [as_pair(Fraction(1, 2 * k + 3)) for k in range(10)]


def log_of_ratio(y: Pair, k: jax.Array, of_factor: Pair, kept: int) -> Pair:
    """Returns k * log(2) + ``of_factor`` + 2 * atanh(y) for abs(y) < 1/32 and an integer k.

    ``kept`` is how many coefficients are pairs: 4 for an error of less than 2**-100 of the result,
    1 for 2**-74, and 0 for about 2**-62. With 4, the sum has one rounding: the last bit of its low
    part says whether it is inexact.
    """
    twice = lax.add(y[0], y[0]), lax.add(y[1], y[1])
    if kept:
        square = times_pair(y, y)
        more = times_pair(twice, times_pair(square, series(_ATANH, square, kept)))
        main = plus_pair(twice, more)
    else:
        near = product(y[0], y[0])
        tail = polynomial([high for high, _ in _ATANH[:6]], near)
        rest = product(twice[0], product(near, tail))
        main = fast_two_sum(twice[0], lax.add(twice[1], rest))
    # The products with the first two parts of log(2) are exact.
    high, middle, low = (
        lax.mul(k, constant(k, part)) for part in (data.LN2_HIGH, data.LN2_LOW, data.LN2_REST)
    )
    high, middle = fast_two_sum(high, middle)
    low = seal(low)
    if kept < 4:
        return plus_less(plus_less((high, lax.add(middle, low)), of_factor), main)
    rest = lax.add(low, lax.add(of_factor[1], main[1]))
    for first in (of_factor[0], main[0]):
        high, error = fast_two_sum(high, first)
        middle, less = two_sum(middle, error)
        rest = lax.add(rest, less)
    return fast_two_sum(high, add_to_odd(middle, rest))


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


def _eighth_root(i: jax.Array) -> Pair:
    """Returns 2**(i / 8) for integers from 0 to 7, as float64."""
    root = pair(i, _ROOTS[0])
    for number, value in enumerate(_ROOTS[1:], 1):
        root = choose(lax.ge(i, constant(i, number)), pair(i, value), root)
    return root


#: The coefficients of (exp(x) - 1) / x.
_EXP = [as_pair(Fraction(1, factorial(k + 1))) for k in range(15)]
_LOG2_E = 1.4426950408889634


class Powers(NamedTuple):
    """exp(x) as 2**n * (root + more).

    Attributes:
        root: 2**(i / 8).
        more: root * (exp(r) - 1), with a small relative error.
        n: An integer, as float64.
        exact: Whether all digits are needed.
    """

    root: Pair
    more: Pair
    n: jax.Array
    exact: bool

    def sum(self) -> Pair:
        """Returns root + more."""
        return plus_less(self.root, self.more, self.exact)

    def less(self, power: jax.Array, sum_of: Sum = two_sum) -> Pair:
        """Returns root + more, less a power of two: of at most 1, if by ``fast_two_sum``."""
        high, low = sum_of(self.root[0], lax.neg(power))
        main = high, seal(lax.add(low, self.root[1]))
        return plus_less(fast_two_sum(*main) if self.exact else main, self.more, self.exact)


def powers_of(r: Pair, eighths: jax.Array, exact: bool) -> Powers:
    """Returns exp(r) * 2**(eighths / 8), with all digits, or as ``_quick_power`` has them."""
    n = lax.floor(times(eighths, 0.125))
    root = _eighth_root(lax.sub(eighths, times(n, 8.0)))
    power = times_pair(r, series(_EXP, r, 8)) if exact else _quick_power(r)
    return Powers(root, times_pair(root, power, exact), n, exact)


def _quick_power(r: Pair) -> Pair:
    """Returns exp(r) - 1 with a relative error of less than 2**-62: r + r**2 / 2 + r**3 / 6 ..."""
    square, of_square = two_product(r[0], r[0])
    more = polynomial([high for high, _ in _EXP[2:10]], r[0])
    more = product(product(square, r[0]), more)
    low = lax.add(times(of_square, 0.5), product(r[0], r[1]))
    high, rest = fast_two_sum(r[0], times(square, 0.5))
    return fast_two_sum(high, lax.add(rest, lax.add(lax.add(r[1], low), more)))


def powers(x: Pair, exact: bool) -> Powers:
    """Returns exp(x) of a pair from -746 to 746."""
    eighths = nearest_integer(times(x[0], 8 * _LOG2_E))
    # The products with the first two parts of log(2) / 8 are exact, and so is the first difference.
    high, low, rest = (lax.mul(eighths, constant(eighths, -part)) for part in data.LN2_EIGHTH)
    sum_of: Sum = two_sum if exact else fast_two_sum
    high, more = sum_of(seal(lax.add(x[0], high)), low)
    high, middle = two_sum(high, x[1]) if exact else (high, x[1])
    r = fast_two_sum(high, lax.add(seal(lax.add(more, middle)), seal(rest)))
    return powers_of(r, eighths, exact)


#: The coefficients of (atan(t) / t - 1) / t**2, by powers of t**2.
_ATAN = [as_pair(Fraction((-1) ** (k + 1), 2 * k + 3)) for k in range(12)]


def _angle(y: Pair, x: Pair, exact: bool) -> Pair:
    """Returns the angle of the point (x, y), from 0 to pi / 4. x is from 1/2 to 2."""
    ratio = times(product(y[0], reciprocal(x[0])), 8.0)
    number = lax.min(nearest_integer(ratio), constant(ratio, 7))
    tangent = times(number, 0.125), constant(ratio, 0)
    angle = pair(ratio, (0.0, 0.0))
    for eighth, value in enumerate(data.PAIR_ATAN_EIGHTHS, 1):
        angle = choose(lax.ge(number, constant(ratio, eighth)), pair(ratio, value), angle)
    over = plus_pair(y, negative(times_pair(tangent, x)))
    t = quotient(over, plus_pair(x, times_pair(tangent, y)))
    square = times_pair(t, t)
    more = series(_ATAN if exact else _ATAN[:7], square, 6 if exact else 1)
    return plus_pair(angle, plus_pair(t, times_pair(times_pair(t, square), more)))


def direction(y: Pair, x: Pair, is_left: jax.Array, exact: bool) -> Pair:
    """Returns the angle from 0 to pi of (x, y), or of (-x, y) where it is left."""
    is_steep = lax.gt(y[0], x[0])
    angle = _angle(choose(is_steep, x, y), choose(is_steep, y, x), exact)
    flat = choose(is_left, pair(x[0], data.PAIR_PI), pair(x[0], (0.0, 0.0)))
    base = choose(is_steep, pair(x[0], data.PAIR_HALF_PI), flat)
    return plus_pair(base, choose(lax.ne(is_steep, is_left), negative(angle), angle))
