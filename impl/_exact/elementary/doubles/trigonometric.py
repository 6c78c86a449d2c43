"""sin, cos and tan of float64, for every argument, and their inverses.

The angle is reduced as in ``elementary.trigonometric``. The multiple of pi / 2 that is closest to a
float64 is 2**-62 from it, so 6 digits of 30 bits of the fraction have 106 bits of every rest. With
fewer digits, arguments below 2**20 are reduced by multiples of the first parts of pi / 2 (Cody and
Waite, *Software Manual for the Elementary Functions*, 1980), and others not at all.

An inverse is the angle of a point. The angle whose tangent is the nearest multiple of 1/8,
at most 7/8, is subtracted by a rotation::

    atan2(3, 4)     tangent 3/4, so 6/8 is subtracted, and nothing is left: atan(6 / 8)
    atan2(1, 1)     tangent 1, so 7/8 is subtracted: atan(7 / 8) + atan(1 / 15)
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from fractions import Fraction
from math import factorial

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import (
    nearest_integer,
    power_of_two,
    seal,
    significand,
    two_sum,
)
from impl._exact.elementary._pairs import (
    Pair,
    as_pair,
    choose,
    direction,
    fast_two_sum,
    negative,
    pair,
    plus_less,
    quotient,
    times_pair,
    with_zero,
)
from impl._exact.elementary._words import (
    constant,
    data,
    has_sign,
    is_below,
    plus,
    times,
    with_sign,
)
from impl._exact.elementary.doubles._function import Double
from impl._exact.elementary.doubles._pairs import Scaled, of_pairs, root
from impl._exact.elementary.doubles._pieces import series_by_piece
from impl._exact.elementary.doubles.exponentials import near_one, odd
from impl._exact.elementary.trigonometric import has_bit, window

#: The coefficients of (sin(r) / r - 1) / r**2 and of (cos(r) - 1) / r**2, by powers of r**2.
_SINE_AND_COSINE = [
    [as_pair(Fraction((-1) ** (k + 1), factorial(2 * k + more))) for more in (3, 2)]
    for k in range(13)
]
#: pi / 4: the full way does not reduce smaller arguments.
_SMALL = 0.7853981633974483
#: The quick way takes arguments below the first number, and rests above the second one.
_MOST, _LEAST_REST = 2.0**20, 2.0**-30
#: The bits of a digit, and the number of digits that are multiplied and used.
_DIGIT, _DIGITS, _USED = 30, 8, 6
#: A bound below which sin, tan, asin and atan are their argument.
_TINY = 2.0**-54
#: A number of bits. An angle that is less by more of them than another one is nothing.
_FAR = 110
#: The errors of the quick ways of functions of an angle, and of inverses.
_ERROR, _ERROR_OF_ANGLE = 2.0**-63, 2.0**-66


def _by_digits(x: jax.Array) -> tuple[jax.Array, Pair]:
    """Returns the quarter turns of an angle from pi / 4 on: an integer, modulo 4, and a rest."""
    raw = lax.bitcast_convert_type(x, np.int64)

    def bits(value: jax.Array, count: int) -> jax.Array:
        return lax.bitwise_and(value, lax.full_like(raw, (1 << count) - 1))

    unit = lax.full_like(raw, _DIGIT)
    low = bits(raw, _DIGIT)
    high = lax.shift_right_logical(bits(raw, 52), unit)
    high = lax.bitwise_or(high, lax.full_like(raw, 1 << 52 - _DIGIT))
    exponent = lax.shift_right_logical(raw, lax.full_like(raw, 52))
    # The first word of the least exponent has the bit of weight 2.
    start = lax.max(lax.sub(exponent, lax.full_like(raw, 1022)), lax.full_like(raw, 0))
    words = window(start, 1024, 55, _DIGIT, _DIGITS)
    carry = after = lax.full_like(raw, 0)
    digits: list[jax.Array] = []
    for word in reversed(words):
        total = lax.add(lax.add(lax.mul(low, word), lax.mul(high, after)), carry)
        digits.insert(0, bits(total, _DIGIT))
        carry, after = lax.shift_right_logical(total, unit), word
    point = 2 * _DIGIT - 2
    top = lax.bitwise_or(lax.shift_left(digits[0], unit), digits[1])
    half, place = lax.full_like(raw, 1 << point - 1), lax.full_like(raw, point)
    whole = lax.shift_right_arithmetic(lax.add(top, half), place)
    top = lax.sub(top, lax.shift_left(whole, place))
    digits[:2] = lax.shift_right_arithmetic(top, unit), bits(top, _DIGIT)
    total, errors = constant(x, 0), constant(x, 0)
    for number, digit in reversed(list(enumerate(digits[:_USED]))):
        value = lax.convert_element_type(digit, np.float64)
        value = lax.mul(value, constant(x, 2.0 ** (2 - _DIGIT * (number + 1))))
        total, error = fast_two_sum(value, total)
        errors = lax.add(errors, error)
    return whole, times_pair(fast_two_sum(total, errors), pair(x, data.PAIR_HALF_PI))


def _by_parts(x: jax.Array) -> tuple[jax.Array, Pair]:
    """Returns the quarter turns of an angle below 2**20, as ``_by_digits`` does."""
    turns = nearest_integer(times(x, 1 / (2 * _SMALL)))
    # The products with the first two parts are exact, and so is the first difference.
    high, low, rest = (lax.mul(turns, constant(turns, part)) for part in data.HALF_PI)
    high, more = two_sum(seal(lax.sub(x, high)), lax.neg(low))
    return lax.convert_element_type(turns, np.int64), fast_two_sum(high, lax.sub(more, seal(rest)))


def _reduced(x: jax.Array, exact: bool) -> tuple[jax.Array, Pair]:
    """Returns n and r with sin(x) = sin(n * pi / 2 + r), and r from -pi / 4 to pi / 4."""
    magnitude = lax.abs(x)
    if exact:
        is_small = lax.le(magnitude, constant(x, _SMALL))
        turns, r = _by_digits(magnitude)
        turns = lax.select(is_small, lax.full_like(turns, 0), turns)
        r = choose(is_small, with_zero(magnitude), r)
    else:
        turns, r = _by_parts(lax.min(magnitude, constant(x, _MOST)))
    is_negative = is_below(x, 0)
    turns = lax.select(is_negative, lax.neg(turns), turns)
    return turns, choose(is_negative, negative(r), r)


def sine_or_cosine(r: Pair, is_cosine: jax.Array, exact: bool) -> Pair:
    """Returns the sine or the cosine of a pair from -pi / 4 to pi / 4."""
    square = times_pair(r, r)
    terms = _SINE_AND_COSINE if exact else _SINE_AND_COSINE[:9]
    more = series_by_piece([is_cosine], terms, square, 8 if exact else 2, exact)
    one = pair(r[0], (1.0, 0.0))
    main = plus_less(one, times_pair(square, more, exact), exact)
    return times_pair(choose(is_cosine, one, r), main, exact)


def _by_quadrant(x: jax.Array, ahead: int, exact: bool) -> Scaled:
    """Returns the sine of ``x`` plus ``ahead`` quarter turns."""
    quadrant, r = _reduced(x, exact)
    quadrant = lax.add(quadrant, lax.full_like(quadrant, ahead))
    result = sine_or_cosine(r, has_bit(quadrant, 1), exact)
    return choose(has_bit(quadrant, 2), negative(result), result), constant(x, 0)


def _sin(x: jax.Array, exact: bool) -> Scaled:
    return _by_quadrant(x, 0, exact)


def _cos(x: jax.Array, exact: bool) -> Scaled:
    return _by_quadrant(x, 1, exact)


def _tan(x: jax.Array, exact: bool) -> Scaled:
    quadrant, r = _reduced(x, exact)
    is_odd = has_bit(quadrant, 1)
    above = sine_or_cosine(r, is_odd, exact)
    below = sine_or_cosine(r, lax.bitwise_not(is_odd), exact)
    is_negative = is_below(below[0], 0)
    result = quotient(above, choose(is_negative, negative(below), below), exact)
    turns = lax.ne(is_negative, is_odd)
    return choose(turns, negative(result), result), constant(x, 0)


def _finish(x: jax.Array, result: jax.Array) -> jax.Array:
    """Returns a result, with x itself where it is tiny, and NaN for infinity."""
    return _finish_cos(x, lax.select(is_below(lax.abs(x), _TINY), x, result))


def _finish_cos(x: jax.Array, result: jax.Array) -> jax.Array:
    return lax.select(is_below(lax.abs(x), np.inf), result, constant(x, np.nan))


def _error(x: jax.Array, value: jax.Array) -> jax.Array:
    """Returns the error of the quick way, which is infinite where ``_by_parts`` does not do."""
    magnitude = lax.abs(x)
    rest = lax.abs(_by_parts(lax.min(magnitude, constant(x, _MOST)))[1][0])
    is_usual = lax.gt(rest, constant(x, _LEAST_REST))
    is_usual = lax.bitwise_and(is_usual, is_below(magnitude, _MOST))
    is_usual = lax.bitwise_or(is_usual, is_below(magnitude, _SMALL))
    return lax.select(is_usual, times(value, _ERROR), constant(x, np.inf))


def _of_point(y: jax.Array, x: jax.Array, exact: bool) -> Scaled:
    """Returns the magnitude of the angle of a point."""
    high, wide = lax.abs(y), lax.abs(x)
    both = lax.bitwise_and(lax.eq(wide, constant(x, np.inf)), lax.eq(high, constant(x, np.inf)))
    wide, high = (lax.select(both, constant(x, 1), side) for side in (wide, high))
    bits, exponents = zip(*map(significand, (wide, high)), strict=True)
    most = lax.max(*exponents)
    gaps = [lax.sub(most, exponent) for exponent in exponents]
    far = lax.full_like(most, _FAR)
    sides = []
    for raw, gap in zip(bits, gaps, strict=True):
        value = lax.bitcast_convert_type(raw, np.float64)
        sides.append(with_zero(lax.mul(value, power_of_two(lax.neg(lax.min(gap, far))))))
    is_left = has_sign(x)
    angle = direction(sides[1], sides[0], is_left, exact)
    n = lax.convert_element_type(lax.sub(lax.min(gaps[1], far), gaps[1]), np.float64)
    return angle, lax.select(is_left, constant(x, 0), n)


def _finish_atan2(y: jax.Array, x: jax.Array, result: jax.Array) -> jax.Array:
    """Returns the magnitude of an angle with the sign of y, and those that have no quotient."""
    high, wide = lax.abs(y), lax.abs(x)

    def is_nothing(side: jax.Array, other: jax.Array) -> jax.Array:
        is_beside = lax.bitwise_and(lax.eq(other, constant(x, np.inf)), is_below(side, np.inf))
        return lax.bitwise_or(is_beside, lax.eq(side, constant(x, 0)))

    right = constant(x, data.PAIR_HALF_PI[0])
    flat = lax.select(has_sign(x), constant(x, data.PAIR_PI[0]), constant(x, 0))
    result = lax.select(is_nothing(wide, high), right, lax.abs(result))
    result = with_sign(lax.select(is_nothing(high, wide), flat, result), y)
    is_nan = lax.bitwise_or(lax.ne(x, x), lax.ne(y, y))
    return lax.select(is_nan, constant(x, np.nan), result)


def _atan(x: jax.Array, exact: bool) -> Scaled:
    return _of_point(x, constant(x, 1), exact)


def _inside(x: jax.Array, exact: bool, *, is_sine: bool) -> Scaled:
    """Returns the angle of which ``x``, brought inside of -1 and 1, is the sine or cosine."""
    magnitude = lax.min(lax.abs(x), constant(x, 1 - 2.0**-53))
    side, one = with_zero(magnitude), constant(x, 1)
    other = root(times_pair(two_sum(one, magnitude), two_sum(one, lax.neg(magnitude))))
    if is_sine:
        return direction(side, other, lax.ne(x, x), exact), constant(x, 0)
    return direction(other, side, has_sign(x), exact), constant(x, 0)


def _finish_inverse(x: jax.Array, result: jax.Array, at_one: jax.Array) -> jax.Array:
    """Returns a result, ``at_one`` for 1 and -1, and NaN beyond them."""
    result = lax.select(lax.eq(lax.abs(x), constant(x, 1)), at_one, result)
    return lax.select(lax.le(lax.abs(x), constant(x, 1)), result, constant(x, np.nan))


def _finish_asin(x: jax.Array, result: jax.Array) -> jax.Array:
    return _finish_inverse(x, odd(x, result), with_sign(constant(x, data.PAIR_HALF_PI[0]), x))


def _finish_acos(x: jax.Array, result: jax.Array) -> jax.Array:
    return _finish_inverse(x, result, times(plus(lax.neg(x), 1.0), data.PAIR_HALF_PI[0]))


FUNCTIONS: Mapping[str, Double] = {
    "acos": of_pairs(
        functools.partial(_inside, is_sine=False), _finish_acos, error=_ERROR_OF_ANGLE
    ),
    "asin": of_pairs(functools.partial(_inside, is_sine=True), _finish_asin, error=_ERROR_OF_ANGLE),
    "atan": of_pairs(_atan, odd, error=_ERROR_OF_ANGLE),
    "atan2": of_pairs(_of_point, _finish_atan2, error=_ERROR_OF_ANGLE),
    "cos": of_pairs(_cos, _finish_cos, error=_error, near=functools.partial(near_one, half=-0.5)),
    "sin": of_pairs(_sin, _finish, error=_error),
    "tan": of_pairs(_tan, _finish, error=_error),
}
