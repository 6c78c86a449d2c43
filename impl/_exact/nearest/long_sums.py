"""Sums of float64 terms in the spec's order ``nearest``, over the whole range of float64.

No plain sum of float64 decides 53 bits, so all terms are added exactly, in the parts that
``nearest.sums`` describes. Two things are new, since the terms may span 2**2098, more than the
exponents of a float64:

- The sum is held by three float64, a + b + c, in units of 2**F, its *frame*. While the sum is at
  most K units of the last step, where K is the number of terms, the frame moves down to this unit.
  Otherwise the sum keeps its sign, and at least half of its magnitude, for any rests.
- A unit some 2**1800 below the frame would underflow. There, only the sign of ``c`` matters, and
  ``c`` is held in units of the step::

    terms               1e300, 2**-60 * 1e300, -1e-300, -1e300
    large units         a = 2**-60 * 1e300, once 1e300 has cancelled and the frame has moved
    far smaller ones    c < 0
    result              the float64 that is nearest to a - tiny

A sum is closed when the rests cannot change the sign of ``c``. Then a + (b + c), where the inner
sum is rounded to odd, is rounded once (Boldo and Melquiond 2008, doi:10.1109/TC.2007.70819).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from impl._core.numerics import in_any_order
from impl._core.shard_axes import vary_like
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.nearest.reductions import greatest_of_all
from impl._exact.nearest.sums import BITS, Sums, full, log2_above, or_huge

#: The exponent of the unit of a step in a frame that has moved, and the least one.
_TOP, _FLOOR = 900, -900
#: Below it, ``b`` is no part of a sum of 106 bits, but the tail.
_TAIL = 2.0**-600


def rounded_sums(terms: jax.Array, dtype: jax.typing.DTypeLike, sums: Sums) -> jax.Array:
    """Returns sums rounded once. A sum of zero is +0; a subnormal term or sum counts as 0.

    Args:
        terms: float64.
        dtype: The dtype of the result: float16, bfloat16, float32 or float64.
        sums: How the terms are added.
    """
    terms = arithmetic.flushed_float64(terms)
    finite = arithmetic.finite_or_zero(terms)
    special = sums.add(lax.select(lax.is_finite(terms), lax.full_like(terms, 0), terms))
    above, below = (
        arithmetic.exponent_above(each)
        for each in (sums.greatest(lax.abs(finite)), sums.least(or_huge(finite)))
    )
    above, depth = sums.greatest_of_all(above, lax.neg(below))
    below = lax.neg(depth)
    above = lax.add(above, lax.full_like(above, 1))
    grid = lax.sub(below, lax.full_like(below, 53))

    def add(part: Callable[[jax.Array], jax.Array]) -> jax.Array:
        return sums.add(part(finite))

    result = exact(add, sums.count, above, grid, special, dtype, over_devices=sums.over_devices)
    is_finite = lax.is_finite(special)
    return lax.select(is_finite, result, arithmetic.narrow(special, dtype))


@dataclasses.dataclass(frozen=True)
class _Words:
    """Sums a + b + c, in units of 2**frame.

    Attributes:
        a: The nearest float64.
        b: Of the rest, the nearest float64.
        c: The rest after both. If ``b`` is 0, it may be of another scale, but has the right sign.
        frame: int32.
        unit: The unit of the last step.
        is_open: Whether the rests of the terms may change the rounded sum.
    """

    a: jax.Array
    b: jax.Array
    c: jax.Array
    frame: jax.Array
    unit: jax.Array
    is_open: jax.Array

    @classmethod
    def zeros(cls, like: jax.Array, frame: jax.Array) -> _Words:
        zero = vary_like(lax.full(like.shape, 0, np.float64), like)
        unit = lax.full_like(zero, 2.0**_TOP)
        frame = lax.sub(full(frame, zero), lax.full(like.shape, _TOP, np.int32))
        return cls(zero, zero, zero, vary_like(frame, zero), unit, lax.eq(zero, zero))

    def framed(self, last: jax.Array, more: int) -> _Words:
        """Returns open sums of at most 2**more units of the last step in a frame of their own."""
        reach = lax.mul(self.unit, lax.full_like(self.unit, 2.0**more))
        zero = lax.full_like(self.a, 0)
        is_small = lax.bitwise_and(lax.le(lax.abs(self.a), reach), self.is_open)
        is_alone = lax.bitwise_and(lax.eq(self.b, zero), lax.eq(self.c, zero))
        moves = lax.bitwise_and(is_small, is_alone)
        top = lax.full_like(self.unit, 2.0**_TOP)
        moved = lax.mul(lax.mul(self.a, arithmetic.reciprocal(self.unit)), top)
        frame = lax.sub(full(last, self.a), lax.full_like(self.frame, _TOP))
        return dataclasses.replace(
            self,
            a=lax.select(moves, moved, self.a),
            frame=lax.select(moves, frame, self.frame),
            unit=lax.select(moves, top, self.unit),
        )

    def with_parts(self, parts: jax.Array, width: int, more: int) -> _Words:
        """Adds sums of parts to the open sums.

        Args:
            parts: In units of the next step, which are 2**width times smaller than the last ones.
            width: The logarithm of this factor.
            more: The logarithm of a power of two that is not below the number of terms.
        """
        finer = lax.mul(self.unit, lax.full_like(self.unit, 2.0**-width))
        is_deep = lax.lt(finer, lax.full_like(finer, 2.0**_FLOOR))
        unit = lax.select(is_deep, self.unit, finer)
        grown = lax.select(is_deep, lax.full_like(unit, 2.0**width), lax.full_like(unit, 1))
        zero = lax.full_like(unit, 0)
        b, c = arithmetic.two_sum(self.b, lax.add(lax.mul(self.c, grown), lax.mul(parts, unit)))
        a, b = arithmetic.two_sum(self.a, b)
        b, c = arithmetic.two_sum(b, c)
        is_tail = lax.lt(lax.abs(b), lax.full_like(b, _TAIL))
        b, c = lax.select(is_tail, zero, b), lax.select(is_tail, b, c)
        reach = lax.mul(unit, lax.full_like(unit, 2.0**more))
        is_open = lax.bitwise_and(self.is_open, lax.le(lax.abs(c), reach))
        # A sum that is closed stays as it is.
        a, b, c = (
            lax.select(self.is_open, new, old)
            for new, old in ((a, self.a), (b, self.b), (c, self.c))
        )
        return _Words(a, b, c, self.frame, unit, is_open)


jax.tree_util.register_dataclass(_Words)


def exact(
    add: Callable[[Callable[[jax.Array], jax.Array]], jax.Array],
    count: Any,
    above: jax.Array,
    grid: jax.Array,
    like: jax.Array,
    dtype: jax.typing.DTypeLike,
    *,
    over_devices: Callable[[jax.Array], jax.Array] | None = None,
) -> jax.Array:
    """Returns exact sums, rounded once. A sum of zero is +0; a subnormal sum counts as 0.

    Args:
        add: Takes a function from float64 terms to their parts, and returns the sums of all parts.
        count: The greatest number of terms of a sum; a symbolic size of jax.export, too.
        above: The exponent of a power of two above twice all magnitudes, int32.
        grid: The exponent of a power of two of which all terms are multiples, int32.
        like: An array of the shape of the sums.
        dtype: The dtype of the result: float16, bfloat16, float32 or float64.
        over_devices: Returns the greatest of the values of all devices that share the loop; None
            for one device.
    """
    more = log2_above(count)
    width = BITS - more

    def step(state: tuple[jax.Array, _Words]) -> tuple[jax.Array, _Words]:
        coarse, words = state
        fine = lax.sub(coarse, lax.full_like(coarse, width))

        def part(terms: jax.Array) -> jax.Array:
            larger = _in_units(terms, coarse)
            larger = lax.mul(larger, lax.full_like(larger, 2.0**width))
            # A term far above the unit has no part of it: the difference of its infinities is NaN.
            return arithmetic.finite_or_zero(lax.sub(_in_units(terms, fine), larger))

        return fine, words.framed(coarse, more).with_parts(add(part), width, more)

    def goes_on(state: tuple[jax.Array, _Words]) -> jax.Array:
        coarse, words = state
        (is_open,) = greatest_of_all(lax.convert_element_type(words.is_open, np.int32))
        is_open = is_open if over_devices is None else over_devices(is_open)
        return lax.bitwise_and(lax.gt(coarse, grid), lax.gt(is_open, lax.full_like(is_open, 0)))

    with in_any_order():
        _, words = lax.while_loop(goes_on, step, (above, _Words.zeros(like, above)))
    return _rounded(words, dtype)


def _in_units(terms: jax.Array, exponent: jax.Array) -> jax.Array:
    """Returns terms, rounded to integers, in units of 2**exponent; an infinity if too large."""
    first = lax.shift_right_arithmetic(lax.neg(exponent), lax.full_like(exponent, 1))
    second = lax.sub(lax.neg(exponent), first)
    scaled = lax.mul(terms, full(arithmetic.power_of_two(first), terms))
    scaled = lax.mul(scaled, full(arithmetic.power_of_two(second), terms))
    return arithmetic.nearest_integer(scaled)


def _rounded(words: _Words, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns sums rounded once, each zero as +0."""
    zero = lax.full_like(words.b, 0)
    to_odd = arithmetic.to_odd
    rest = lax.select(lax.eq(words.b, zero), words.c, to_odd(words.b, words.c))
    is_long = np.dtype(dtype) == np.float64
    whole = arithmetic.seal(lax.add(words.a, rest)) if is_long else to_odd(words.a, rest)
    # The power of two may be beyond the range of float64, so it is applied in two parts.
    first = lax.shift_right_arithmetic(words.frame, lax.full_like(words.frame, 1))
    result = lax.mul(whole, arithmetic.power_of_two(first))
    result = lax.mul(result, arithmetic.power_of_two(lax.sub(words.frame, first)))
    height = lax.add(arithmetic.exponent_above(lax.abs(whole)), words.frame)
    is_small = lax.lt(height, lax.full_like(height, arithmetic.MIN_EXPONENT + 1))
    return interval.positive_zero(arithmetic.narrow(lax.select(is_small, zero, result), dtype))
