"""asin, acos, atan and atan2, each as the angle of a point.

asin(x) is the angle of the point (sqrt(1 - x**2), x), acos(x) of (x, sqrt(1 - x**2)), and atan(x)
of (1, x). Symmetries reduce an angle to at most pi / 8, whose tangent t gives t + t**3 *
polynomial(t**2).
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import product
from impl._exact.elementary import _coefficients as data
from impl._exact.elementary._pair_functions import pair_atan
from impl._exact.elementary._pairs import choose, pair, plus_pair, rounded_to_odd
from impl._exact.elementary._words import (
    constant,
    has_sign,
    is_below,
    plus,
    polynomial,
    rounded_once,
    times,
    wide_quotient,
    wide_root,
    with_sign,
)

_PI = 3.141592653589793
#: The tangent of pi / 8.
_TAN = 0.41421356237309503


def wide_asin(x: jax.Array) -> jax.Array:
    """Returns the inverse sine. Beyond 1 and -1 it is NaN."""
    return with_sign(_angle(lax.abs(x), _other_side(x)), x)


def wide_acos(x: jax.Array) -> jax.Array:
    """Returns the inverse cosine. Beyond 1 and -1 it is NaN."""
    return _angle_of_half_plane(_other_side(x), x)


def wide_atan(x: jax.Array) -> jax.Array:
    """Returns the inverse tangent."""
    return with_sign(_angle(lax.abs(x), constant(x, 1)), x)


def atan2(y: jax.Array, x: jax.Array, **_: object) -> jax.Array:
    """Returns the angle of the point (x, y), rounded once, as IEEE 754 has it.

    That the result is correctly rounded is not proved for angles within 2**-66 of themselves of the
    middle of two floats.

    Args:
        y: Any shape; float32, float16 or bfloat16.
        x: The same shape and dtype.

    Raises:
        TypeError: Another dtype, or several.
    """
    return rounded_once(_wide_atan2, y, x)


def _wide_atan2(y: jax.Array, x: jax.Array) -> jax.Array:
    """Returns a float64 that rounds to 24 bits or fewer as the angle does."""
    high, wide = lax.abs(y), lax.abs(x)
    infinite = constant(x, np.inf)
    both = lax.bitwise_and(lax.eq(wide, infinite), lax.eq(high, infinite))
    wide, high = (lax.select(both, constant(x, 1), side) for side in (wide, high))
    is_steep = lax.gt(high, wide)
    least, most = lax.min(wide, high), lax.max(wide, high)
    # A zero or an infinity makes an angle of 0; NaN stays.
    has_angle = lax.bitwise_and(lax.gt(least, constant(x, 0)), is_below(most, np.inf))
    is_nan = lax.ne(most, most)
    least = lax.select(has_angle, least, constant(x, 0))
    most = lax.select(lax.bitwise_or(has_angle, is_nan), most, constant(x, 1))
    angle = pair_atan(least, most)
    is_left = has_sign(x)
    turns = lax.ne(is_steep, is_left)
    flat = choose(is_left, pair(x, data.PAIR_PI), pair(x, (0.0, 0.0)))
    base = choose(is_steep, pair(x, data.PAIR_HALF_PI), flat)
    angle = plus_pair(base, choose(turns, (lax.neg(angle[0]), lax.neg(angle[1])), angle))
    return with_sign(lax.abs(rounded_to_odd(angle)), y)


def _other_side(x: jax.Array) -> jax.Array:
    """Returns sqrt(1 - x**2)."""
    magnitude = lax.abs(x)
    return wide_root(product(plus(lax.neg(magnitude), 1), plus(magnitude, 1)))


def _angle_of_half_plane(y: jax.Array, x: jax.Array) -> jax.Array:
    """Returns the angle of (x, y) from 0 to pi, for y that is not negative."""
    angle = _angle(y, lax.abs(x))
    return lax.select(has_sign(x), plus(lax.neg(angle), _PI), angle)


def _angle(y: jax.Array, x: jax.Array) -> jax.Array:
    """Returns the angle of (x, y) from 0 to pi / 2, for coordinates that are not negative."""
    infinite = lax.full_like(y, np.inf)
    both = lax.bitwise_and(lax.eq(x, infinite), lax.eq(y, infinite))
    x, y = (lax.select(both, constant(x, 1), side) for side in (x, y))
    is_steep = lax.gt(y, x)
    short = lax.select(is_steep, x, y)
    long = lax.select(is_steep, y, x)
    # Beyond pi / 8, the angle to the diagonal is taken.
    is_middle = lax.gt(short, times(long, _TAN))
    over = lax.select(is_middle, lax.sub(short, long), short)
    under = lax.select(is_middle, lax.add(short, long), long)
    t = wide_quotient(over, under)
    square = product(t, t)
    angle = lax.add(t, product(product(square, t), polynomial(data.ATAN, square)))
    base = lax.select(is_steep, constant(x, _PI / 2), constant(x, 0))
    base = lax.select(is_middle, constant(x, _PI / 4), base)
    angle = lax.add(base, lax.select(is_steep, lax.neg(angle), angle))
    # Both coordinates are zero, and the quotient is NaN.
    return lax.select(lax.eq(lax.max(x, y), constant(x, 0)), constant(x, 0), angle)
