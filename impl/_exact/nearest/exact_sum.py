"""The exact sum of terms, rounded once: parts of the terms that float64 adds without error.

The technique is the extraction of leading parts (Rump, Ogita and Oishi 2008, AccSum,
doi:10.1137/050645671). A pass takes a *part* of each term: its multiple of one unit, less its
multiple of the unit before, which is about 2**40 times greater. An operation of XLA adds the parts:
along axes, running, by windows, by index or over devices. Two float64, ``high`` and ``low``, hold
the sum of all parts so far::

    terms, float32       2**60, 1, -2**-40, -2**60     exponents from 60 to -40
    multiples of 2**13   2**60, 0, 0, -2**60           sum 0
    of 2**-36            0, 1, 0, 0                    sum 1
    of 2**-85            0, 0, -2**-40, 0              sum 1 - 2**-40, and no term has a rest

The exponents of all terms say how many passes there are: two or three for usual terms. A part is
the difference of two roundings of a term, so a pass reads the terms and writes none. The loop of
passes has no branch, and no order of the additions shows in the result.

*Exactness.* Let K be the number of terms of a sum, at most 2**c, u the unit of a pass, and
v = 2**(51 - c) u the unit before. A rest of the pass before is at most v / 2, so the sum P of the
parts is at most K (v + u) / 2, which is at most 2**51 u: float64 adds the parts exactly, in any
order. ``low`` is a multiple of u. So ``low + P`` is exact, unless ``low`` exceeds 2**52 u. Such a
``low`` is greater than all later parts together: no error changes its sign. The sum of ``high`` and
``low`` is exact by TwoSum (Knuth, *The Art of Computer Programming* 2, section 4.2.2). Of the exact
sum, rounding to odd needs ``high`` and the sign of ``low`` alone (Boldo and Melquiond 2008,
doi:10.1109/TC.2007.70819).

*float64.* The terms may span 2**2098, more than the exponents of a float64, and a result of 53 bits
leaves no bit for a rounding to odd. So:

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
sum is rounded to odd, is rounded once (Boldo and Melquiond 2008).

*One pass.* float64 itself adds 2**13 float16 exactly, since they have 40 bits together. A sum of
two terms that is rounded to 53 bits and then to at most 25, but no fewer than the terms have, is
rounded as if once (Figueroa, *When is double rounding innocuous?*, 1995,
doi:10.1145/221332.221334).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import fence, in_any_order
from impl._core.shard_axes import Devices, vary, vary_like
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._jax import varying_axes

#: The bits that a float64 has for a sum of parts, less two for ``low``.
BITS = 51
#: The greatest number of float16 that float64 adds without error: they have 40 bits together.
_FLOAT16 = 1 << 13


class Scaled(NamedTuple):
    """Terms ``value * 2**exponent``, beyond the range of float64.

    Attributes:
        value: Float64: zeros, and multiples of 2**-104 up to 4.
        exponent: int32, of the same shape.
    """

    value: jax.Array
    exponent: jax.Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the terms."""
        return self.value.shape

    @property
    def size(self) -> int:
        """The number of terms."""
        return self.value.size

    @classmethod
    def products(cls, a: jax.Array, b: jax.Array) -> Scaled:
        """Returns four terms of each product of float64, [rows, terms], by halves of factors."""
        (*lefts, of_a), (*rights, of_b) = _halves(a), _halves(b)
        exponent = lax.add(of_a, of_b)
        values = [lax.mul(x, y) for x in lefts for y in rights]
        return cls(lax.concatenate(values, 1), lax.concatenate([exponent] * len(values), 1))


def _halves(value: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns two parts of 26 bits of significands from 1 to 2, and the exponents, int32."""
    raw, exponent = arithmetic.significand(value)
    exponent = lax.convert_element_type(exponent, np.int32)
    high = lax.bitwise_and(lax.add(raw, lax.full_like(raw, 1 << 26)), lax.full_like(raw, -1 << 27))
    is_zero = lax.eq(value, lax.full_like(value, 0))
    whole, first = (
        lax.select(is_zero, value, lax.bitcast_convert_type(each, np.float64))
        for each in (raw, high)
    )
    return first, lax.sub(whole, first), exponent


@dataclasses.dataclass(frozen=True)
class Addition:
    """How an operation adds terms.

    Attributes:
        add: Takes float64 in place of each array of terms, and returns their sums.
        count: The greatest number of terms of a sum, on all devices; a symbolic size of jax.export,
            too.
        devices: The devices that share the sums.
        are_products: Whether float64 terms are products of two float32, of no wider range.
    """

    add: Callable[..., jax.Array]
    count: Any
    devices: Devices = dataclasses.field(default_factory=Devices)
    are_products: bool = False

    def rounded(self, dtype: jax.typing.DTypeLike, *terms: jax.Array | Scaled) -> jax.Array:
        """Returns the exact sums, rounded once. A sum of zero is +0.

        Subnormal terms and results count as zero, except for float16. With an infinity or a NaN,
        the sum is the one of IEEE 754, which has no order.

        Args:
            dtype: The dtype of the result: float16, bfloat16, float32 or float64.
            *terms: Arrays of such dtypes, as ``add`` takes them, or one ``Scaled``.
        """
        with in_any_order():
            if not isinstance(terms[0], Scaled) and self._is_one_pass(dtype, terms):
                value = self.add(*map(_wide, terms))
                value = arithmetic.flushed_float64(value) if arithmetic.is_long(dtype) else value
                result = arithmetic.narrow(value, dtype)
            else:
                result = self._by_parts(dtype, terms)
        result = interval.positive_zero(result)
        return lax.bitcast_convert_type(interval.word_of(result), dtype)

    def _is_one_pass(self, dtype: jax.typing.DTypeLike, terms: Sequence[Any]) -> bool:
        bits = max(int(jnp.finfo(each.dtype).nmant) for each in terms)
        if all(math.prod(each.shape) == 0 for each in terms):
            return True
        if isinstance(self.count, int) and self.count <= 2:
            return bits <= jnp.finfo(dtype).nmant
        are_short = all(each.dtype == np.float16 for each in terms)
        return are_short and log2_above(self.count) <= math.log2(_FLOAT16)

    def _by_parts(self, dtype: jax.typing.DTypeLike, terms: Sequence[Any]) -> jax.Array:
        more = log2_above(self.count)
        width = BITS - more
        first, last = self._exponents(terms)
        out = jax.eval_shape(lambda *terms: self.add(*map(_wide, terms)), *terms)
        zero = vary(lax.full(out.shape, 0, np.float64), varying_axes(out))
        are_far = any(
            isinstance(each, Scaled) or (arithmetic.is_long(each.dtype) and not self.are_products)
            for each in terms
        )
        is_long = are_far or arithmetic.is_long(dtype)
        zeros = Words.zeros(zero, first) if is_long else _Pair(zero, zero)

        def step(state: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
            exponent, sums = state
            exponent = lax.sub(exponent, lax.full_like(exponent, width))
            parts = self.add(*(part(each, exponent, width, are_far=are_far) for each in terms))
            return exponent, sums.plus(parts, exponent, width, more)

        _, sums = lax.while_loop(lambda state: lax.gt(state[0], last), step, (first, zeros))
        return sums.rounded(dtype)

    def _exponents(self, terms: Sequence[Any]) -> tuple[jax.Array, jax.Array]:
        """Returns an exponent above twice all magnitudes, and one of their last bits, int32."""
        pairs = [_exponents(each) for each in terms if each.size != 0]
        above, depth = (functools.reduce(lax.max, each) for each in zip(*pairs, strict=True))
        above, depth = self.devices.max(above), self.devices.max(depth)
        first = lax.add(above, lax.full_like(above, 1))
        # Zeros have no last bit. An infinity or a NaN among zeros alone is in the first part too.
        return first, lax.min(lax.neg(depth), above)


class _Pair(NamedTuple):
    """Sums ``high + low``, of which ``high`` is the nearest float64."""

    high: jax.Array
    low: jax.Array

    def plus(self, parts: jax.Array, exponent: jax.Array, width: int, more: int) -> _Pair:
        """Adds sums of parts in units of 2**exponent; the arguments are as for ``Words``."""
        del width, more
        parts = lax.mul(parts, full(arithmetic.power_of_two(exponent), parts))
        high, low = arithmetic.two_sum(self.high, lax.add(self.low, parts))
        return _Pair(high, arithmetic.finite_or_zero(low))

    def rounded(self, dtype: jax.typing.DTypeLike) -> jax.Array:
        """Returns the sums, rounded once."""
        return arithmetic.narrow(arithmetic.to_odd(self.high, self.low), dtype)


def _wide(terms: jax.Array | Scaled) -> jax.Array:
    """Returns terms as float64, with zeros for subnormal numbers."""
    if isinstance(terms, Scaled):
        return terms.value
    is_long = arithmetic.is_long(terms.dtype)
    return arithmetic.flushed_float64(terms) if is_long else arithmetic.widen(terms)


def part(terms: jax.Array | Scaled, exponent: jax.Array, width: int, *, are_far: bool) -> jax.Array:
    """Returns parts of terms in units of 2**exponent: integers, as float64.

    An infinity or a NaN is a part of itself.

    Args:
        terms: The terms.
        exponent: The exponent of the unit, int32, shape [].
        width: The unit before is 2**width times greater.
        are_far: Whether a term may be farther from the unit than a float64 reaches.
    """
    # Without the fence, XLA would widen the terms before the loop.
    terms, exponent = fence((terms, exponent))
    scaled, up = _wide(terms), lax.neg(exponent)
    half = lax.shift_right_arithmetic(up, lax.full_like(up, 1))
    if isinstance(terms, Scaled):
        # A term that is farther from the unit has no part of it.
        up = lax.clamp(np.int32(-_TOP), lax.add(terms.exponent, full(up, scaled)), np.int32(_TOP))
        terms, scaled = scaled, lax.mul(scaled, arithmetic.power_of_two(up))
    else:
        for power in (half, lax.sub(up, half)) if are_far else (up,):
            scaled = lax.mul(scaled, full(arithmetic.power_of_two(power), scaled))
    larger = arithmetic.nearest_integer(lax.mul(scaled, lax.full_like(scaled, 2.0**-width)))
    larger = lax.mul(larger, lax.full_like(scaled, 2.0**width))
    part = lax.sub(arithmetic.nearest_integer(scaled), larger)
    if not are_far:
        return lax.select(lax.is_finite(scaled), part, scaled)
    # A term far above the unit has no part of it: the difference of its infinities is NaN.
    return lax.select(lax.is_finite(terms), arithmetic.finite_or_zero(part), terms)


def _exponents(terms: jax.Array | Scaled) -> tuple[jax.Array, jax.Array]:
    """Returns two exponents of all finite terms, int32.

    Returns:
        e, of a power of two 2**e above all magnitudes; d, for which all are multiples of 2**-d.
    """
    if isinstance(terms, Scaled):
        above = lax.add(arithmetic.exponent_above(lax.abs(terms.value)), terms.exponent)
        far = lax.full_like(above, _FAR)
        is_zero = lax.eq(terms.value, lax.full_like(terms.value, 0))
        above = lax.select(is_zero, lax.neg(far), above)
        least = lax.select(is_zero, far, terms.exponent)
        top, least = reduced([above, least], [lax.max, lax.min], range(far.ndim))
        return top, lax.sub(np.int32(104), least)
    fraction = int(jnp.finfo(terms.dtype).nmant)
    terms = arithmetic.at_least_float32(terms)
    bits = jnp.finfo(terms.dtype)
    word = interval.word_type(terms.dtype)
    raw = lax.bitcast_convert_type(terms, word)
    field = lax.shift_right_logical(raw, lax.full_like(raw, bits.nmant))
    field = lax.convert_element_type(field, np.int32)
    field = lax.bitwise_and(field, lax.full_like(field, (1 << bits.nexp) - 1))
    none, special = lax.full_like(field, 0), lax.full_like(field, (1 << bits.nexp) - 1)
    field = lax.select(lax.eq(field, special), none, field)
    least = lax.select(lax.eq(field, none), special, field)
    top, least = reduced([field, least], [lax.max, lax.min], range(field.ndim))
    bias = (1 << (bits.nexp - 1)) - 1
    return lax.sub(top, np.int32(bias - 1)), lax.sub(np.int32(bias + fraction), least)


def full(value: jax.Array, like: jax.Array) -> jax.Array:
    """Returns a scalar, broadcast to the shape of an array."""
    return lax.broadcast_in_dim(value, like.shape, ())


def log2_above(count: Any) -> int:
    """Returns the binary logarithm of a power of two that is not below a number of terms."""
    if isinstance(count, int):
        return math.ceil(math.log2(max(count, 1)))
    # A symbolic size has bounds at most.
    return 23 if count <= 1 << 23 else 40


def reduced(
    values: Sequence[jax.Array],
    steps: Sequence[Callable[[Any, Any], jax.Array]],
    axes: Sequence[int],
) -> list[jax.Array]:
    """Returns a reduction of each array, in any order. XLA reads the arrays once, in one kernel.

    The arrays are integers of one shape, and have ``lax.max``, ``lax.min`` or ``lax.bitwise_or``
    each.
    """

    def combined(first: Sequence[jax.Array], second: Sequence[jax.Array]) -> list[jax.Array]:
        return [step(a, b) for step, a, b in zip(steps, first, second, strict=True)]

    initial = [_initial(step, value.dtype) for step, value in zip(steps, values, strict=True)]
    return list(lax.reduce(list(values), initial, combined, tuple(axes)))


def _initial(step: Callable[[Any, Any], jax.Array], dtype: Any) -> Any:
    """Returns the integer that changes no other one in a step."""
    if step is lax.bitwise_or:
        return np.array(0, dtype)
    ends = jnp.iinfo(dtype)
    return np.array(ends.min if step is lax.max else ends.max, dtype)


#: Beyond the exponents of all products of float64.
_FAR = 5000
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
        return arithmetic.narrow(arithmetic.scaled(whole, frame), dtype)
