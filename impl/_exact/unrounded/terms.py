"""States of the terms of one operation: of a product of two factors, or of a sum of elements.

*Products.* Each factor is split into a part of few bits and the rest, as in the splitting of Ozaki,
Ogita, Oishi and Rump 2012 (doi:10.1007/s11075-011-9478-1). A row of the left factor and a column
of the right factor have a unit each, a power of two. So a product of two parts is exact, in any
order in which a library adds, and the rests are smaller by the bits of a part::

    left = a + b, right = c + d     K = 1024 terms, and 21 bits for a and c
    a c                             at most 53 bits: exact
    a d + b right                   2**-21 times as great, with the error K 2**-53 of a plain sum
    slack                           K 2**-73 norm(left) norm(right), or 0 if b and d are 0

*Sums.* A part has 52 bits less the logarithm of the number of terms, so there are two parts, which
are added exactly. The slack is the rest of terms that are 2**-60 times the greatest one.

*Levels.* For elements in doubt, all terms are counted again, level by level: a level has the digits
of all terms at one position, or the products of two digits whose positions have one sum. These are
integers, and exact. Together, the levels have all bits of a float32.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.devices import Devices
from impl._core.numerics import in_any_order
from impl._core.shard_axes import vary_like
from impl._exact import arithmetic
from impl._exact.nearest import interval

#: Sums ``high + low``, within ``slack``.
Parts: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
#: The level of a plain state. Levels from 0 on are counted for elements in doubt.
PLAIN = -1
#: A power of two above every float32, and the number of bits from it down to the last one.
_TOP, _SPAN = 128, 128 + 149
#: The bits of float64, and the bits of a float32.
_BITS, _SHORT = 53, 24
#: The bits of a float64 after its leading bit, and the exponent of its last bit if the field is 0.
_FRACTION, _BIAS = 52, 1075
#: The exponent of the unit of zeros.
_LEAST = -300


def _digit(terms: jax.Array, position: jax.Array, bits: jax.Array) -> jax.Array:
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


def _width(count: int, factors: int) -> int:
    """Returns the bits of a part, such that sums of a number of products of parts are exact."""
    whole = (_BITS - 1 if factors == 1 else _BITS) - math.ceil(math.log2(max(count, 1)))
    return max(1, min(_SHORT if factors > 1 else whole, whole // factors))


def levels(count: int, factors: int) -> int:
    """Returns how many levels terms have.

    Args:
        count: The number of terms of a sum, on all devices.
        factors: The number of factors of a term, 1 or 2.
    """
    digits = math.ceil(_SPAN / _width(count, factors))
    return factors * (digits - 1) + 1


#: The number of levels of the longest sums.
MOST_LEVELS = levels(1 << 31, 2)


def _digits(value: jax.Array, index: jax.Array, width: int) -> jax.Array:
    """Returns the digits of float64 at an index, the highest one at 0; zeros at any other index."""
    last = lax.sub(np.int32(_TOP), lax.mul(lax.add(index, np.int32(1)), np.int32(width)))
    position = lax.broadcast(lax.clamp(np.int32(-2000), last, np.int32(2000)), value.shape)
    return _digit(value, position, lax.full((), width, np.int64))


def _split(value: jax.Array, top: jax.Array, width: int) -> tuple[jax.Array, jax.Array]:
    """Returns the multiple of a unit, and the rest, of float64.

    Args:
        value: Finite.
        top: The greatest magnitude of those with one unit, of a shape that broadcasts.
        width: The bits of the multiple.
    """
    exponent = arithmetic.exponent_above(top)
    exponent = lax.max(exponent, lax.full_like(exponent, _LEAST))
    exponent = lax.min(exponent, lax.full_like(exponent, -_LEAST))
    exponent = lax.sub(exponent, lax.full_like(exponent, width))
    unit, inverse = (arithmetic.power_of_two(each) for each in (exponent, lax.neg(exponent)))
    unit, inverse = (jnp.broadcast_to(each, value.shape) for each in (unit, inverse))
    multiple = lax.mul(arithmetic.nearest_integer(lax.mul(value, inverse)), unit)
    return multiple, lax.sub(value, multiple)


@dataclasses.dataclass(frozen=True)
class Products:
    """How an operation adds products of two factors.

    Attributes:
        count: The greatest number of terms of a sum, on all devices.
        multiply: Returns the sums of products of float64 factors, on this device.
        left_axes: The axes of the left factor whose elements share a unit.
        right_axes: The axes of the right factor whose elements share a unit.
        outer: Takes an array of the left factor's other axes and an array of the right factor's,
            and returns their products in the shape of the result.
        devices: The devices that share the sums.
    """

    count: int
    multiply: Callable[[jax.Array, jax.Array], jax.Array]
    left_axes: Sequence[int]
    right_axes: Sequence[int]
    outer: Callable[[jax.Array, jax.Array], jax.Array]
    devices: Devices

    def parts(self, level: jax.Array, left: jax.Array, right: jax.Array) -> Parts:
        """Returns the sums, or one level of them.

        Args:
            level: ``PLAIN`` or a level, int32, shape [].
            left: The left factor, float64 that float32 holds.
            right: The right factor.
        """
        with in_any_order():
            return _chosen(level, self._plain, self._at, left, right)

    def _plain(self, _: jax.Array, left: jax.Array, right: jax.Array) -> Parts:
        factors = ((left, tuple(self.left_axes)), (right, tuple(self.right_axes)))
        tops = [self.devices.max(_greatest(value, axes)) for value, axes in factors]
        are_finite = lax.is_finite(lax.max(*(jnp.max(top) for top in tops)))
        width = _width(self.count, 2)
        parts = []
        for (value, _axes), top in zip(factors, tops, strict=True):
            multiple, rest = _split(value, top, width)
            # The rest of an infinity has no unit: the left factor is one rest then.
            parts.append((_if(are_finite, multiple), rest))
        (first, rest), (second, more) = parts
        rest = lax.select(jnp.broadcast_to(are_finite, left.shape), rest, left)
        more = _if(are_finite, more)
        exact = self.devices.sum(self.multiply(first, second))
        smaller = self.devices.sum(
            lax.add(self.multiply(first, more), self.multiply(rest, right)),
        )
        slack = lax.add(
            self.outer(self._norm(first, self.left_axes), self._norm(more, self.right_axes)),
            self.outer(self._norm(rest, self.left_axes), self._norm(right, self.right_axes)),
        )
        relative = interval.of_chain(self.count + self.devices.number + 4)
        # A state expects infinities in the first part. There are no exact products then.
        exact = lax.select(jnp.broadcast_to(are_finite, exact.shape), exact, smaller)
        return exact, _if(are_finite, smaller), lax.mul(slack, lax.full_like(slack, relative))

    def _norm(self, value: jax.Array, axes: Sequence[int]) -> jax.Array:
        return lax.sqrt(self.devices.sum(lax.reduce_sum(lax.mul(value, value), tuple(axes))))

    def _at(self, level: jax.Array, left: jax.Array, right: jax.Array) -> Parts:
        width = _width(self.count, 2)
        number = math.ceil(_SPAN / width)

        def add(index: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
            index = lax.convert_element_type(index, np.int32)
            high, low = state
            of_left = _digits(left, index, width)
            of_right = _digits(right, lax.sub(level, index), width)
            sums = self.devices.sum(arithmetic.seal(self.multiply(of_left, of_right)))
            high, rest = arithmetic.two_sum(high, sums)
            return high, lax.add(low, rest)

        shape = jax.eval_shape(self.multiply, left, right)
        zero = vary_like(lax.full(shape.shape, 0, np.float64), left, right)
        high, low = lax.fori_loop(0, number, add, (zero, zero))
        exponent = lax.mul(lax.add(level, np.int32(2)), np.int32(width))
        return _scaled(high, low, lax.sub(np.int32(2 * _TOP), exponent))


@dataclasses.dataclass(frozen=True)
class Elements:
    """How an operation adds elements of arrays.

    Attributes:
        count: The greatest number of terms of a sum, on all devices.
        add: Takes arrays of float64, and returns the sums of their elements, on this device.
        devices: The devices that share the sums.
    """

    count: int
    add: Callable[..., jax.Array]
    devices: Devices

    def parts(self, level: jax.Array, *operands: jax.Array) -> Parts:
        """Returns the sums, or one level of them.

        Args:
            level: ``PLAIN`` or a level, int32, shape [].
            *operands: float64 that float32 holds.
        """
        with in_any_order():
            return _chosen(level, self._plain, self._at, *operands)

    def _plain(self, _: jax.Array, *operands: jax.Array) -> Parts:
        tops = [jnp.max(lax.abs(arithmetic.finite_or_zero(each))) for each in operands if each.size]
        top = self.devices.max(jnp.max(jnp.stack(tops)))
        width = _width(self.count, 1)
        sums, rests = [], [*operands]
        for more in (0, width):
            down = arithmetic.power_of_two(lax.full((), -more, np.int32))
            pairs = [
                _split(arithmetic.finite_or_zero(each), lax.mul(top, down), width) for each in rests
            ]
            # The first sum has the infinities and NaNs.
            firsts = [
                lax.select(lax.is_finite(each), multiple, each)
                for each, (multiple, _rest) in zip(rests, pairs, strict=True)
            ]
            sums.append(self.devices.sum(self.add(*firsts)))
            rests = [rest for _multiple, rest in pairs]
        lost = self.devices.sum(
            functools.reduce(lax.add, (jnp.sum(lax.abs(rest)) for rest in rests))
        )
        high, low = sums
        return high, low, jnp.broadcast_to(lost, high.shape)

    def _at(self, level: jax.Array, *operands: jax.Array) -> Parts:
        width = _width(self.count, 1)
        sums = self.devices.sum(self.add(*(_digits(each, level, width) for each in operands)))
        exponent = lax.mul(lax.add(level, np.int32(1)), np.int32(width))
        low = lax.full_like(sums, 0)
        return _scaled(arithmetic.seal(sums), low, lax.sub(np.int32(_TOP), exponent))


def _chosen(
    level: jax.Array,
    plain: Callable[..., Parts],
    at: Callable[..., Parts],
    *operands: jax.Array,
) -> Parts:
    is_plain = lax.lt(level, lax.full_like(level, 0))
    chosen: Parts = lax.cond(is_plain, plain, at, level, *operands)
    return chosen


def _greatest(value: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Returns the greatest magnitude along axes, which keep the length 1."""
    return lax.expand_dims(lax.reduce_max(lax.abs(value), tuple(axes)), tuple(axes))


def _if(chosen: jax.Array, value: jax.Array) -> jax.Array:
    """Returns a value, or zeros unless a scalar is true."""
    return lax.select(jnp.broadcast_to(chosen, value.shape), value, lax.full_like(value, 0))


def _scaled(high: jax.Array, low: jax.Array, exponent: jax.Array) -> Parts:
    """Returns integers ``high + low``, times a power of two, as sums without a slack."""
    # The last levels may be below all bits of a float32, and zero.
    power = arithmetic.power_of_two(lax.max(exponent, np.int32(arithmetic.MIN_EXPONENT)))
    high, low = (lax.mul(each, jnp.broadcast_to(power, each.shape)) for each in (high, low))
    return high, low, lax.full_like(high, 0)
