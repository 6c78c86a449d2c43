"""Exact sums of floats of any range, digit by digit from the top, for terms in any layout.

Each term is a fixed-point number, and a trip adds one digit of all terms: the bits from a position
on, which are integers that float64 adds without error, in any order, by atomics, and over devices.
Long accumulators add all digits (Kulisch, *Computer Arithmetic and Validity*, 2013, chapter 8).
Here, a loop ends at the digit that decides the rounding. A digit is a function of the bits of its
term, so that the loop stores nothing for a term::

    terms              1.5 * 2**1000, -1.5 * 2**1000, 3          digits of 4 bits
    position 998       6, -6, 0          sum 0                   nothing is known yet
    ...
    position 2         0, 0, 0           sum 0
    position -2        0, 0, 12          sum 12                  no term has a bit below: the end

Some floats, the *parts*, hold the sum of all digits so far, in units of the last position. Each
part but the last is the nearest float64 of itself and all parts after it, by TwoSum (Knuth, *The
Art of Computer Programming* 2, section 4.2.2). A float64 has three parts, any other result two.

*Exactness.* Let n be the number of terms, and s the bits of a digit, 2**s * 3 * n <= 2**53. All
bits below a position add up to less than n units. A sum whose last part exceeds 2 * n ends: only
the sign of this part counts, and the bits below cannot change it. Otherwise the last part, times
2**s, plus n * 2**s is at most 2**53, and exact. A first part of 2**600 units or more stands still,
with the second part. The scale of the last part counts no more then: its sign alone says on which
side of a tie the sum is. The first digit has 52 bits, since the sum of all magnitudes has no more.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.shard_axes import aligned
from impl._exact import arithmetic
from impl._exact.nearest.interval import positive_zero

#: The bits of the first digit, of which the sum of all terms has no more.
FIRST = 52
#: The exponent of a first part that stands still.
_FAR = 600
#: The bits of a float64 after its leading bit, and the exponent of its last bit if the field is 0.
_FRACTION, _BIAS = 52, 1075


def digit(terms: jax.Array, position: jax.Array, bits: jax.Array) -> jax.Array:
    """Returns the digit of each term: its bits from a position on, as a float64 with its sign.

    Args:
        terms: float64. Subnormal terms count as 0. An infinity or a NaN has some finite digit.
        position: The exponent of the last bit of each digit, int32, of the same shape.
        bits: The number of bits of a digit, at most 52; int64, shape [].
    """
    raw = lax.bitcast_convert_type(terms, np.int64)
    field = lax.bitwise_and(_right(raw, lax.full_like(raw, _FRACTION)), lax.full_like(raw, 0x7FF))
    fraction = lax.bitwise_and(raw, lax.full_like(raw, (1 << _FRACTION) - 1))
    whole = lax.bitwise_or(fraction, lax.full_like(raw, 1 << _FRACTION))
    none = lax.full_like(raw, 0)
    whole = lax.select(lax.eq(field, none), none, whole)
    # A shift by 63 leaves no bit of a digit.
    shift = lax.sub(lax.sub(field, lax.full_like(field, _BIAS)), position.astype(np.int64))
    most = lax.full_like(shift, 63)
    moved = lax.shift_left(whole, lax.clamp(none, shift, most))
    moved = _right(moved, lax.clamp(none, lax.neg(shift), most))
    mask = lax.sub(lax.shift_left(lax.full_like(bits, 1), bits), lax.full_like(bits, 1))
    moved = lax.bitwise_and(moved, lax.broadcast(mask, moved.shape))
    magnitude = lax.convert_element_type(moved, np.float64)
    return lax.select(lax.lt(raw, none), lax.neg(magnitude), magnitude)


def _right(value: jax.Array, count: jax.Array) -> jax.Array:
    return lax.shift_right_logical(value, count)


@dataclasses.dataclass(frozen=True)
class Sums:
    """Sums to compute.

    Attributes:
        top: An exponent for each sum, int32: the sum of magnitudes is below ``2**top``.
        last: The exponent of the last bit that a term of the sum may have, int32.
        count: The greatest number of terms of a sum, on all devices.
        dtype: The dtype of the results.
    """

    top: jax.Array
    last: jax.Array
    count: int
    dtype: jax.typing.DTypeLike

    @property
    def bits(self) -> int:
        """The bits of each digit after the first."""
        return 51 - math.ceil(math.log2(self.count))

    @property
    def is_long(self) -> bool:
        """Whether the results are float64."""
        return jnp.dtype(self.dtype) == np.float64


class _State(NamedTuple):
    """A step of the loop.

    Attributes:
        bits: The bits of the next digit, int64, shape [].
        position: The position of the last digit added, for each sum.
        unit: The exponent of the units of the first part.
        parts: The parts of the sums.
    """

    bits: jax.Array
    position: jax.Array
    unit: jax.Array
    parts: list[jax.Array]


def exact(
    sums: Sums, asked: jax.Array, add: Callable[[jax.Array, jax.Array], jax.Array]
) -> jax.Array:
    """Returns sums, rounded once. A sum of zero is +0.

    Args:
        sums: The sums.
        asked: Whether each sum is computed. The results of other sums are undefined.
        add: Takes a position for each sum and a number of bits, and returns the sums of the digits
            of all terms (``digit``).
    """
    top, asked = aligned(sums.top, asked)
    zero = lax.convert_element_type(lax.bitwise_xor(top, top), np.float64)
    parts = [zero] * (3 if sums.is_long else 2)
    start = _State(lax.full((), FIRST, np.int64), top, top, parts)

    def step(state: _State) -> _State:
        bits = lax.convert_element_type(state.bits, np.int32)
        position = lax.sub(state.position, lax.broadcast(bits, state.position.shape))
        goes_on = _is_open(state, sums, asked)
        unit, parts = _added(state, position, add(position, state.bits), sums)
        unit = lax.select(goes_on, unit, state.unit)
        pairs = zip(parts, state.parts, strict=True)
        parts = [lax.select(goes_on, new, old) for new, old in pairs]
        return _State(lax.full_like(state.bits, sums.bits), position, unit, parts)

    end = lax.while_loop(
        lambda state: lax.reduce_or(_is_open(state, sums, asked), tuple(range(zero.ndim))),
        step,
        start,
    )
    return _rounded(end, sums)


def _is_open(state: _State, sums: Sums, asked: jax.Array) -> jax.Array:
    """Returns whether the bits below the position may change the rounding of a sum."""
    first, last = state.parts[0], state.parts[-1]
    reach = lax.full_like(last, 2.0 * sums.count)
    has_more = lax.bitwise_and(asked, lax.gt(state.position, sums.last))
    is_open = lax.bitwise_and(has_more, lax.le(lax.abs(last), reach))
    if not sums.is_long:
        return is_open
    # The first part is the result, unless the second part is about halfway to a neighbour: half of
    # the last place, or a quarter below a power of two.
    second, wider = lax.abs(state.parts[1]), lax.full_like(last, 4.0 * sums.count)
    half, quarter = (
        lax.mul(_power_below(first), lax.full_like(first, 2.0**-bits)) for bits in (53, 54)
    )
    from_tie = lax.min(lax.abs(lax.sub(half, second)), lax.abs(lax.sub(quarter, second)))
    return lax.bitwise_and(is_open, lax.le(from_tie, wider))


def _added(
    state: _State, position: jax.Array, added: jax.Array, sums: Sums
) -> tuple[jax.Array, list[jax.Array]]:
    """Returns the unit and the parts after the sum of the digits at a position was added."""
    first, *_, last = state.parts
    scale = lax.full_like(first, 2.0**sums.bits)
    unit = position
    rest = lax.add(lax.mul(last, scale), added)
    if sums.is_long:
        is_far = lax.ge(lax.abs(first), lax.full_like(first, 2.0**_FAR))
        scale = lax.select(is_far, lax.full_like(first, 1), scale)
        unit = lax.select(is_far, state.unit, position)
    parts: list[jax.Array] = []
    for part in state.parts[-2::-1]:
        rest, error = arithmetic.two_sum(lax.mul(part, scale), rest)
        parts.insert(0, error)
    return unit, [rest, *parts]


def _power_below(value: jax.Array) -> jax.Array:
    """Returns the greatest power of two up to each magnitude; 0 for 0."""
    raw = lax.bitcast_convert_type(value, np.int64)
    field = lax.bitwise_and(raw, lax.full_like(raw, 0x7FF << _FRACTION))
    return lax.bitcast_convert_type(field, np.float64)


def _rounded(state: _State, sums: Sums) -> jax.Array:
    """Returns the values of parts, rounded once."""
    first, second, *third = state.parts
    if not third:
        # The position of a float of 32 bits is within the exponents of float64.
        odd = arithmetic.to_odd(first, second)
        total = lax.mul(odd, arithmetic.power_of_two(state.unit))
        return positive_zero(arithmetic.narrow(total, sums.dtype))
    is_last = lax.eq(second, lax.full_like(second, 0))
    rest = lax.select(is_last, third[0], arithmetic.to_odd(second, third[0]))
    total = lax.add(first, rest)
    # A factor alone may be beyond the range of float64, so it has two parts.
    half = lax.shift_right_arithmetic(state.unit, lax.full_like(state.unit, 1))
    for exponent in (half, lax.sub(state.unit, half)):
        total = arithmetic.seal(lax.mul(total, arithmetic.power_of_two(exponent)))
    return positive_zero(arithmetic.flushed_float64(total))
