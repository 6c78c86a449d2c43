"""log, exp and the inverse tangent as pairs of float64, with a relative error of at most 2**-70.

They are the first terms of a series, added as pairs, and a polynomial of float64 for the terms
after these, which are so small that their rounding errors do not matter. The logarithm is ``2 * (y
+ y**3 / 3 + ...)`` with y = (m - 1) / (m + 1). ``_pairs`` has the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import nearest_integer, product, seal
from impl._exact.elementary import _coefficients as data
from impl._exact.elementary._pairs import (
    Pair,
    choose,
    fast_two_sum,
    pair,
    plus_pair,
    short,
    times_pair,
    two_product,
    two_sum,
)
from impl._exact.elementary._words import constant, plus, polynomial, wide_quotient

_LOG2_E = 1.4426950408889634


def _series(terms: Sequence[tuple[float, float]], x: Pair, tail: jax.Array) -> Pair:
    """Returns a polynomial by Horner's rule: terms, the lowest first, and a tail after them."""
    *rest, last = terms
    high, low = two_sum(constant(tail, last[0]), product(x[0], tail))
    result = fast_two_sum(high, plus(seal(lax.add(low, product(x[1], tail))), last[1]))
    for term in reversed(rest):
        result = plus_pair(pair(tail, term), times_pair(x, result))
    return result


def _quotient(a: jax.Array, b: jax.Array) -> Pair:
    """Returns ``a / b`` of floats of 30 bits as a pair whose parts have 23 and 53 bits."""
    high = short(wide_quotient(a, b), 23)
    return high, wide_quotient(lax.sub(a, lax.mul(high, b)), b)


def _square(x: Pair) -> Pair:
    """Returns the square of a pair whose high part has 26 bits or fewer."""
    crossed = product(x[1], seal(lax.add(lax.add(x[0], x[0]), x[1])))
    return fast_two_sum(lax.mul(x[0], x[0]), crossed)


def pair_log(f: jax.Array, k: jax.Array) -> Pair:
    """Returns log(2**k * (1 + f)) as a pair.

    Args:
        f: float64 of 24 bits, from sqrt(1/2) - 1 to sqrt(2) - 1.
        k: An integer of at most 11 bits, as float64.
    """
    y = _quotient(f, plus(f, 2.0))
    square = _square(y)
    terms = (data.PAIR_2_3, data.PAIR_2_5, data.PAIR_2_7)
    more = _series(terms, square, polynomial(data.PAIR_LOG, square[0]))
    y = fast_two_sum(*y)
    more = times_pair(times_pair(y, square), more)
    result = plus_pair((lax.add(y[0], y[0]), lax.add(y[1], y[1])), more)
    # The products of k with the first two parts are exact.
    high = lax.mul(k, constant(k, data.LN2_HIGH))
    low = two_sum(lax.mul(k, constant(k, data.LN2_LOW)), product(k, constant(k, data.LN2_REST)))
    return plus_pair(fast_two_sum(high, low[0]), plus_pair(result, (low[1], constant(k, 0))))


def pair_exp(x: Pair) -> tuple[Pair, jax.Array]:
    """Returns y and n with exp(x) = y * 2**n: y as a pair, from 0.7 to 1.5, and n as float64.

    Args:
        x: A pair from -700 to 700.
    """
    n = nearest_integer(product(x[0], constant(x[0], _LOG2_E)))
    # Both products are exact, and so is the first difference.
    r = seal(lax.sub(x[0], lax.mul(n, constant(n, data.LN2_HIGH))))
    high, low = two_sum(r, lax.neg(lax.mul(n, constant(n, data.LN2_LOW))))
    low = lax.sub(seal(lax.add(low, x[1])), product(n, constant(n, data.LN2_REST)))
    r_pair = fast_two_sum(high, low)
    terms = ((1.0, 0.0), (1.0, 0.0), (0.5, 0.0), data.PAIR_1_6, data.PAIR_1_24, data.PAIR_1_120)
    tail = polynomial(data.PAIR_EXP, r_pair[0])
    return _series(terms, r_pair, tail), n


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
    products and sums are exact.

    Args:
        short_side: A float32 as float64, not negative.
        long_side: A positive, finite one that is not less.
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
    more = _series(terms, square, polynomial(data.PAIR_ATAN, square[0]))
    y = fast_two_sum(*y)
    return plus_pair(angle, plus_pair(y, times_pair(times_pair(y, square), more)))
