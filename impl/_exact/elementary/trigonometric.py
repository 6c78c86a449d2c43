"""sin, cos and tan, for every argument, and their inverses.

An argument is reduced to [-pi / 4, pi / 4] by the method of Payne and Hanek (1983,
doi:10.1145/1057600.1057602) in integers: the significand is multiplied by 128 bits of 2 / pi, at
the position that the exponent decides. Bits before are multiples of whole turns, and bits after are
too small to matter. The product is the number of quarter turns, modulo 4, and a fraction::

    x = 1e10        1e10 * 2 / pi = 6366197723.675813..., nearest 6366197724, which is 0 modulo 4
                    r = -0.324186... * pi / 2 = -0.509231..., sin(1e10) = sin(r) = -0.487506...

An inverse is the angle of a point: asin(x) of (sqrt(1 - x**2), x), acos(x) of (x, sqrt(1 - x**2)),
and atan(x) of (1, x). Symmetries reduce an angle to at most pi / 8, whose tangent t gives t + t**3
* polynomial(t**2).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import product
from impl._exact.elementary._pairs import direction, rounded_to_odd
from impl._exact.elementary._words import (
    constant,
    data,
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

_QUARTER_TURN = 1.5707963267948966
#: pi / 4: smaller arguments are not reduced.
_SMALL = 0.7853981633974483
#: The number of words of 32 bits of 2 / pi that a significand is multiplied by.
_WORDS = 4


def wide_sin(x: jax.Array) -> jax.Array:
    """Returns the sine of an angle in radians."""
    return _by_quadrant(x, 0)


def wide_cos(x: jax.Array) -> jax.Array:
    """Returns the cosine of an angle in radians."""
    return _by_quadrant(x, 1)


def _by_quadrant(x: jax.Array, ahead: int) -> jax.Array:
    """Returns the sine of ``x`` plus ``ahead`` quarter turns."""
    quadrant, r = _reduce(x)
    quadrant = lax.add(quadrant, lax.full_like(quadrant, ahead))
    result = lax.select(has_bit(quadrant, 1), small_cos(r), small_sin(r))
    return lax.select(has_bit(quadrant, 2), lax.neg(result), result)


def wide_tan(x: jax.Array) -> jax.Array:
    """Returns the tangent of an angle in radians."""
    quadrant, r = _reduce(x)
    sine, cosine = small_sin(r), small_cos(r)
    is_odd = has_bit(quadrant, 1)
    above = lax.select(is_odd, lax.neg(cosine), sine)
    return wide_quotient(above, lax.select(is_odd, sine, cosine))


def small_sin(r: jax.Array) -> jax.Array:
    """Returns the sine of a float64 from -pi / 4 to pi / 4."""
    square = product(r, r)
    more = product(product(square, r), polynomial(data.SIN, square))
    # For r = -0, the sum would be +0.
    return lax.select(lax.eq(r, constant(r, 0)), r, lax.add(r, more))


def small_cos(r: jax.Array) -> jax.Array:
    """Returns the cosine of a float64 from -pi / 4 to pi / 4."""
    square = product(r, r)
    more = product(product(square, square), polynomial(data.COS, square))
    return lax.add(plus(lax.mul(square, constant(r, -0.5)), 1), more)


def has_bit(value: jax.Array, bit: int) -> jax.Array:
    """Returns whether integers have a bit, a power of two."""
    bits = lax.bitwise_and(value, lax.full_like(value, bit))
    return lax.ne(bits, lax.full_like(bits, 0))


def _reduce(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns n and r with sin(x) = sin(n * pi / 2 + r), and r from -pi / 4 to pi / 4.

    x is a float64 with significands of 24 bits. Infinity and NaN give NaN.
    """
    magnitude = lax.abs(x)
    is_small = lax.le(magnitude, constant(x, _SMALL))
    is_finite = is_below(magnitude, np.inf)
    quadrant, fraction = _quarter_turns(lax.select(is_finite, magnitude, constant(x, 1)))
    r = product(fraction, constant(x, _QUARTER_TURN))
    is_negative = is_below(x, 0)
    r = lax.select(is_negative, lax.neg(r), r)
    quadrant = lax.select(is_negative, lax.neg(quadrant), quadrant)
    r = lax.select(is_finite, r, constant(x, np.nan))
    return (
        lax.select(is_small, lax.full_like(quadrant, 0), quadrant),
        lax.select(is_small, x, r),
    )


def _quarter_turns(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the quarter turns of an angle from pi / 4 on: an integer, and a rest of at most 1/2.

    The integer is correct modulo 4. With x = m * 2**e for a significand m of 24 bits, the bits of
    2**e * 2 / pi of weight 4 and more are not needed, and 128 bits below them suffice.
    """
    raw = lax.bitcast_convert_type(x, np.int64)
    lead = lax.full_like(raw, 1 << 23)
    mask = lax.full_like(raw, (1 << 23) - 1)
    m = lax.shift_right_logical(raw, lax.full_like(raw, 52 - 23))
    exponent = lax.shift_right_logical(m, lax.full_like(raw, 23))
    m = lax.bitwise_or(lax.bitwise_and(m, mask), lead)
    # The window of bits starts at the bit of weight 2. The least angle has e = -24.
    start = lax.sub(exponent, lax.full_like(raw, 1023 + 23 - 24))
    # With 26 zeros in front, the window of e = -24 starts at bit 0.
    words = window(lax.max(start, lax.full_like(raw, 0)), 128, 26, 32, _WORDS)
    low = lax.full_like(raw, 0xFFFFFFFF)
    carry = lax.full_like(raw, 0)
    parts: list[jax.Array] = []
    for word in reversed(words):
        total = lax.add(lax.mul(m, word), carry)
        parts.insert(0, lax.bitwise_and(total, low))
        carry = lax.shift_right_logical(total, lax.full_like(raw, 32))
    return _whole_and_rest(parts)


def window(start: jax.Array, most: int, zeros: int, width: int, count: int) -> list[jax.Array]:
    """Returns digits of 2 / pi from a bit on, of which the first are zeros before the point.

    Args:
        start: The number of the first bit.
        most: The greatest of these numbers, at most 1024.
        zeros: The number of zeros.
        width: The number of bits of a digit.
        count: The number of digits.
    """
    bits = "0" * zeros + "".join(f"{word:032b}" for word in data.TWO_OVER_PI)
    ends = range(width, min(len(bits), most + (count + 1) * width) + 1, width)
    words = [lax.full_like(start, int(bits[end - width : end], 2)) for end in ends]
    factor = lax.full_like(start, (1 << 16) // width + 1)
    index = lax.shift_right_logical(lax.mul(start, factor), lax.full_like(start, 16))
    for step in (1 << place for place in reversed(range((most // width).bit_length()))):
        moves = has_bit(index, step)
        words = [
            lax.select(moves, words[i + step], words[i]) if i + step < len(words) else words[i]
            for i in range(min(count + step, len(words)))
        ]
    by = lax.sub(start, lax.mul(index, lax.full_like(start, width)))
    low = lax.full_like(start, (1 << width) - 1)
    rest = lax.sub(lax.full_like(start, width), by)
    return [
        lax.bitwise_or(
            lax.bitwise_and(lax.shift_left(word, by), low), lax.shift_right_logical(after, rest)
        )
        for word, after in itertools.pairwise(words)
    ]


def _whole_and_rest(parts: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Returns a fixed-point number of 2 bits before the point as an integer and a rest."""
    first, second, third, _ = parts
    top = lax.bitwise_or(lax.shift_left(first, lax.full_like(first, 32)), second)
    # The bit of weight 2 is the sign bit of int64. A number from 2 to 4 counts as negative, which
    # drops a whole turn.
    unit = lax.full_like(top, 62)
    half = lax.full_like(top, 1 << 61)
    whole = lax.shift_right_arithmetic(lax.add(top, half), unit)
    rest = lax.sub(top, lax.shift_left(whole, unit))
    value = lax.mul(
        lax.convert_element_type(rest, np.float64), lax.full_like(rest, 2.0**-62, np.float64)
    )
    below = lax.mul(
        lax.convert_element_type(third, np.float64), lax.full_like(rest, 2.0**-94, np.float64)
    )
    return whole, lax.add(value, below)


_PI = 3.141592653589793
#: The tangent of pi / 8.
_TAN = 0.41421356237309503


def wide_asin(x: jax.Array) -> jax.Array:
    """Returns the inverse sine. Beyond 1 and -1 it is NaN."""
    return with_sign(_angle(lax.abs(x), _other_side(x)), x)


def wide_acos(x: jax.Array) -> jax.Array:
    """Returns the inverse cosine. Beyond 1 and -1 it is NaN."""
    angle = _angle(_other_side(x), lax.abs(x))
    return lax.select(has_sign(x), plus(lax.neg(angle), _PI), angle)


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
    is_steep, most = lax.gt(high, wide), lax.max(wide, high)
    zero, one = constant(x, 0), constant(x, 1)
    # The point (1, 0) or (0, 1) stands for one with a zero or an infinity.
    has_angle = lax.bitwise_and(lax.gt(lax.min(wide, high), zero), is_below(most, np.inf))
    high = lax.select(has_angle, high, lax.select(is_steep, one, zero))
    wide = lax.select(has_angle, wide, lax.select(is_steep, zero, one))
    angle = rounded_to_odd(direction((high, zero), (wide, zero), has_sign(x), False))
    return with_sign(lax.abs(lax.select(lax.ne(most, most), most, angle)), y)


def _other_side(x: jax.Array) -> jax.Array:
    """Returns sqrt(1 - x**2)."""
    magnitude = lax.abs(x)
    return wide_root(product(plus(lax.neg(magnitude), 1), plus(magnitude, 1)))


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
