"""Sums of parts over the whole range of float64, to 53 bits and more.

``exact_sum`` finds the parts. Their terms may span 2**2098, more than the exponents of a float64,
and a result of 53 bits leaves no bit for a rounding to odd. So:

- The sum is held by three float64, a + b + c, in units of 2**F, its *frame*. While the sum is at
  most K units of the last pass, where K is the number of terms, the frame moves down to this unit.
  Otherwise the sum keeps its sign, and at least half of its magnitude, for any rests.
- A unit some 2**1800 below the frame would underflow. There, only the sign of ``c`` matters, and
  ``c`` is held in units of the pass::

    terms               1e300, 2**-60 * 1e300, -1e-300, -1e300
    large units         a = 2**-60 * 1e300, once 1e300 has cancelled and the frame has moved
    far smaller ones    c < 0
    result              the float64 that is nearest to a - tiny

A sum is closed when the rests cannot change the sign of ``c``. Then a + (b + c), where the inner
sum is rounded to odd, is rounded once (Boldo and Melquiond 2008, doi:10.1109/TC.2007.70819).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jax import lax

from impl._core.shard_axes import vary_like
from impl._exact import arithmetic

#: The exponent of the unit of a pass in a frame that has moved, and the least one.
_TOP, _FLOOR = 900, -900
#: Below it, ``b`` is no part of a sum of 106 bits, but the tail.
_TAIL = 2.0**-600


class Words(NamedTuple):
    """Sums a + b + c, in units of 2**frame.

    Attributes:
        a: The nearest float64. An infinity or a NaN is the sum.
        b: Of the rest, the nearest float64.
        c: The rest after both. If ``b`` is 0, it may be of another scale, but has the right sign.
        frame: int32.
    """

    a: jax.Array
    b: jax.Array
    c: jax.Array
    frame: jax.Array

    @classmethod
    def zeros(cls, zero: jax.Array, exponent: jax.Array) -> Words:
        """Returns sums of no terms, before passes of units below 2**exponent."""
        frame = lax.broadcast(lax.sub(exponent, np.int32(_TOP)), zero.shape)
        return cls(zero, zero, zero, vary_like(frame, zero))

    def plus(self, parts: jax.Array, exponent: jax.Array, width: int, more: int) -> Words:
        """Adds sums of parts.

        Args:
            parts: Integers, float64.
            exponent: Of their unit, int32, shape [].
            width: The unit before is 2**width times greater.
            more: A sum has at most 2**more terms.
        """
        a, b, c, frame = self
        zero = lax.full_like(a, 0)
        before = lax.broadcast(lax.add(exponent, np.int32(width)), frame.shape)
        before = vary_like(before, frame)
        floor = lax.full_like(frame, _FLOOR)
        unit = arithmetic.power_of_two(lax.max(lax.sub(before, frame), floor))
        reach = lax.mul(unit, lax.full_like(unit, 2.0**more))
        # A sum that is closed stays as it is.
        is_open = lax.le(lax.abs(c), reach)
        is_alone = lax.bitwise_and(lax.eq(b, zero), lax.eq(c, zero))
        moves = lax.bitwise_and(lax.le(lax.abs(a), reach), is_alone)
        moved = lax.mul(lax.mul(a, arithmetic.reciprocal(unit)), lax.full_like(unit, 2.0**_TOP))
        a = lax.select(moves, moved, a)
        frame = lax.select(moves, lax.sub(before, lax.full_like(frame, _TOP)), frame)
        own = lax.sub(lax.sub(before, frame), lax.full_like(frame, width))
        place = lax.max(own, floor)
        deeper = lax.min(lax.sub(place, own), lax.full_like(own, width))
        grown = lax.mul(c, arithmetic.power_of_two(deeper))
        added = lax.add(grown, lax.mul(parts, arithmetic.power_of_two(place)))
        more_b, more_c = arithmetic.two_sum(b, added)
        more_a, more_b = arithmetic.two_sum(a, more_b)
        more_b, more_c = arithmetic.two_sum(more_b, more_c)
        is_tail = lax.lt(lax.abs(more_b), lax.full_like(b, _TAIL))
        more_b, more_c = lax.select(is_tail, zero, more_b), lax.select(is_tail, more_b, more_c)
        return Words(
            lax.select(is_open, more_a, a),
            lax.select(is_open, more_b, b),
            lax.select(is_open, more_c, c),
            frame,
        )

    def rounded(self, dtype: jax.typing.DTypeLike) -> jax.Array:
        """Returns the sums, rounded once; a subnormal one is 0."""
        a, b, c, frame = self
        zero = lax.full_like(b, 0)
        to_odd = arithmetic.to_odd
        rest = arithmetic.finite_or_zero(lax.select(lax.eq(b, zero), c, to_odd(b, c)))
        whole = arithmetic.seal(lax.add(a, rest)) if arithmetic.is_long(dtype) else to_odd(a, rest)
        # The power of two may be beyond the range of float64, so it is applied in two parts.
        first = lax.shift_right_arithmetic(frame, lax.full_like(frame, 1))
        result = lax.mul(whole, arithmetic.power_of_two(first))
        result = lax.mul(result, arithmetic.power_of_two(lax.sub(frame, first)))
        height = lax.add(arithmetic.exponent_above(lax.abs(whole)), frame)
        is_small = lax.lt(height, lax.full_like(height, arithmetic.MIN_EXPONENT + 1))
        return arithmetic.narrow(lax.select(is_small, zero, result), dtype)
