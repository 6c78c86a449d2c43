"""What functions of float64 need beyond ``elementary._pairs``.

``quotient`` and ``root`` are pairs. XLA divides by a broadcast number in another way than by an
array, so ``reciprocal`` divides by Newton's method, which has the same bits everywhere.

A result is a pair times a power of two, which is applied to the rounded pair (``rounded``).
``quick_results`` rounds both ends of the interval that an error leaves (Ziv 1991,
doi:10.1145/114697.116813).

Near a point where a function is a short polynomial, its value can be much closer to the middle of
two float64 than a pair tells. ``first_terms`` adds three terms there as if exactly::

    exp(2**-53)      1 + 2**-53 + 2**-107      above the middle of 1 and 1 + 2**-52
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import add_to_odd, flushed_float64, product, seal, two_sum
from impl._exact.elementary._pairs import Pair, fast_two_sum, pair_series, two_product
from impl._exact.elementary._words import constant, polynomial, wide_root
from impl._exact.elementary.doubles._function import Double

#: A pair and a float64 n, which stand for the pair times 2**n, or for the pair if n is None.
Scaled: TypeAlias = tuple[Pair, jax.Array | None]
#: The bits of a number from which the bits of x are subtracted. The difference is the float64
#: 1 / x with an error of at most 5.1 %.
_RECIPROCAL = 0x7FDE6 << 44
#: The bits of an exponent, and its place.
_TOP, _FRACTION = 0x7FF, 52
_SIGN = int(np.iinfo(np.int64).min)


def as_pair(value: Fraction) -> tuple[float, float]:
    """Returns a number as the nearest float64 and the float64 nearest to the rest."""
    high = float(value)
    return high, float(value - Fraction(high))


def series(coefficients: Sequence[tuple[float, float]], x: Pair, kept: int) -> Pair:
    """Returns a polynomial, the lowest coefficient first, of which the first are kept as pairs.

    The terms after these, one or more, are computed in float64.
    """
    tail = polynomial([high for high, _ in coefficients[kept:]], x[0])
    return pair_series(coefficients[:kept], x, tail)


def scaled_by(x: Pair, power: jax.Array) -> Pair:
    """Returns a pair times a power of two, exactly."""
    return lax.mul(x[0], power), lax.mul(x[1], power)


def reciprocal(x: jax.Array) -> jax.Array:
    """Returns 1 / x of a positive normal number, with an error of at most 2**-52 of itself."""
    raw = lax.bitcast_convert_type(x, np.int64)
    y = lax.bitcast_convert_type(lax.sub(lax.full_like(raw, _RECIPROCAL), raw), np.float64)
    for _ in range(4):
        y = lax.add(y, product(y, lax.sub(constant(x, 1), product(x, y))))
    return y


def quotient(a: Pair, b: Pair) -> Pair:
    """Returns a / b of pairs, with a relative error of less than 2**-100. b is positive."""
    inverse = reciprocal(b[0])
    near = product(a[0], inverse)
    above, below = two_product(near, b[0])
    rest = lax.add(lax.sub(lax.sub(a[0], above), below), lax.sub(a[1], product(near, b[1])))
    return fast_two_sum(near, product(seal(rest), inverse))


def root(x: Pair) -> Pair:
    """Returns the square root of a positive pair, with a relative error of less than 2**-100."""
    near = wide_root(x[0])
    above, below = two_product(near, near)
    rest = seal(lax.add(lax.sub(lax.sub(x[0], above), below), x[1]))
    return fast_two_sum(near, product(rest, reciprocal(lax.add(near, near))))


def scaled(value: jax.Array, n: jax.Array | None) -> jax.Array:
    """Returns a normal float64 times 2**n: infinity if it is too great, 0 if it is subnormal."""
    if n is None:
        return value
    raw, shift = lax.bitcast_convert_type(value, np.int64), lax.convert_element_type(n, np.int64)
    fraction, top = lax.full_like(raw, _FRACTION), lax.full_like(raw, _TOP)
    exponent = lax.bitwise_and(lax.shift_right_logical(raw, fraction), top)
    exponent = lax.add(exponent, shift)
    sign = lax.bitwise_and(raw, lax.full_like(raw, _SIGN))
    infinity = lax.bitwise_or(sign, lax.full_like(raw, _TOP << _FRACTION))
    result = lax.add(raw, lax.shift_left(shift, fraction))
    result = lax.select(lax.lt(exponent, top), result, infinity)
    result = lax.select(lax.gt(exponent, lax.full_like(raw, 0)), result, sign)
    return lax.bitcast_convert_type(result, np.float64)


def rounded(value: Pair, n: jax.Array | None) -> jax.Array:
    """Returns a pair times 2**n, rounded once."""
    return scaled(seal(lax.add(*value)), n)


def quick_results(
    value: Pair, error: float | jax.Array, finish: Callable[[jax.Array], jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Returns the result of the lower end of an interval, rounded, and another or the same one.

    Args:
        value: A pair in the midst of the interval.
        error: Its relative error.
        finish: Takes a rounded end, and returns its result.

    The other result has other bits where the upper end is another number.
    """
    high, low = value
    more = product(high, error if isinstance(error, jax.Array) else constant(high, error))
    below, above = (seal(lax.add(high, change(low, more))) for change in (lax.sub, lax.add))
    result = finish(below)
    raw, *ends = (lax.bitcast_convert_type(each, np.int64) for each in (result, above, below))
    return result, lax.bitcast_convert_type(lax.add(raw, lax.sub(*ends)), np.float64)


def first_terms(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """Returns ``a + b + c``, rounded once, where c is less than an ulp of b."""
    high, low = two_sum(a, b)
    return seal(lax.add(high, add_to_odd(low, c)))


def of_pairs(
    value: Callable[[jax.Array, bool], Scaled],
    finish: Callable[[jax.Array, jax.Array], jax.Array],
    *,
    error: float | Callable[[jax.Array], jax.Array] | None = None,
    near: Callable[[jax.Array], tuple[jax.Array, jax.Array]] | None = None,
) -> Double:
    """Returns a function of one float64.

    Args:
        value: Takes an argument, which is not subnormal, and whether all digits are needed. It
            returns any finite pair for special arguments.
        finish: Takes an argument and the rounded value, and returns the result, with those of
            special arguments.
        error: The relative error of ``value`` with fewer digits, or a function of arguments that
            returns it, which is infinite where ``value`` needs all. None if it has but one way.
        near: Returns whether arguments are near a point where first terms of a series are needed,
            and their sum. There, the ends of the interval may differ.
    """

    def full(x: jax.Array, **_: object) -> jax.Array:
        x = flushed_float64(x)
        result = rounded(*value(x, True))
        if near is not None:
            is_near, terms = near(x)
            result = lax.select(is_near, terms, result)
        return finish(x, result)

    def quick(x: jax.Array, **_: object) -> tuple[jax.Array, jax.Array]:
        x = flushed_float64(x)
        about, n = value(x, False)
        bound = error(x) if callable(error) else error or 0
        return quick_results(about, bound, lambda end: finish(x, scaled(end, n)))

    return Double(full, quick if error else None)
