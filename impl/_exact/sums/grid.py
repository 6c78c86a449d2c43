"""The grid of an exact sum: its exponent, the digits of terms, and the value of sums of digits.

In the spec's order ``exact``, all terms of a result are rounded to multiples of one power of two,
the *grid*, which the largest term alone decides. Sums of multiples are exact, so devices, XLA and
atomics may add them in any order. The technique is the pre-rounding of reproducible sums (Demmel
and Nguyen, *Fast Reproducible Floating-Point Summation*, ARITH 2013), by the splitting of Rump,
Ogita and Oishi (2008, doi:10.1137/050645671). The binned sums of ReproBLAS instead fix their grids
in advance, and need no pass for the maximum (Ahrens, Nguyen and Demmel 2015, UCB/EECS-2015-229).

A term becomes *digits*: float64 that are integers. A float32 has one digit of 30 bits. A float64
has two, the second of which counts units that are 2**30 times finer. A float64 holds the sum of up
to 2**23 digits of 30 bits; for longer sums, each digit is split into two of 15 bits::

    terms, float32    1e8          1    -1e8          0.1
    exponent          27, since all terms are below 2**27
    grid              2**(27 - 30) = 1/8
    digits            800000000    8    -800000000    1      since 0.1 is 0.8 of the grid
    sum of digits     9, in every order
    result            9/8 = 1.125

Infinities and NaNs stay as they are in the first digit, whose sum is then the right one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic
from impl._exact.arithmetic import finite_or_zero, flushed_float64

#: A float64 holds every integer of up to 53 bits.
_SIGNIFICAND = 53
#: The bits of the largest term above the grid, and the least exponent of a grid of float64.
_BITS, _LOWEST = 30, -990


def bits() -> int:
    """Returns how many bits the largest term of a sum has above the grid."""
    return _BITS


def is_long(dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether a dtype is float64, whose terms are rounded on two grids."""
    return jnp.dtype(dtype) == np.float64


def at_least_float32(value: jax.Array) -> jax.Array:
    """Returns a float of 16 bits as float32, and a wider float as it is."""
    if value.dtype.itemsize >= 4:
        return value
    return lax.convert_element_type(value, np.float32)


def exponents(magnitude: jax.Array) -> jax.Array:
    """Returns the least int32 e for which a magnitude is below 2**e.

    Args:
        magnitude: float32 or float64, any shape, not negative. An infinity or a NaN has the
            exponent after the greatest finite one, 129 or 1025. Zeros and subnormals have -126 in
            float32. In float64, the least exponent is -990.
    """
    if is_long(magnitude.dtype):
        result = arithmetic.exponent_above(magnitude)
        return lax.max(result, lax.full_like(result, _LOWEST))
    raw = lax.bitcast_convert_type(magnitude, np.int32)
    biased = lax.shift_right_logical(raw, lax.full_like(raw, 23))
    return lax.sub(biased, lax.full_like(biased, 126))


@dataclasses.dataclass(frozen=True)
class Digits:
    """The number and the size of the digits of a sum's terms.

    For a grid of exponent e, digit k, from 0, counts multiples of 2**(e - width * (k + 1)).

    Attributes:
        width: The bits of a digit.
        number: How many digits a term has.
        long: Whether the terms are float64.
    """

    width: int
    number: int
    long: bool

    @staticmethod
    def of(dtype: jax.typing.DTypeLike, count: int, *, running: bool = False) -> Digits:
        """Returns the digits of a sum of up to ``count`` terms.

        Args:
            dtype: The dtype of the terms.
            count: The greatest number of terms of a result.
            running: Whether the sums are running sums, whose terms have two digits: a part of the
                axis may be much smaller than its largest term.
        """
        whole = bits()
        grids = 2 if running or is_long(dtype) else 1
        parts = 1 if count <= 1 << (_SIGNIFICAND - whole) else 2
        return Digits(whole // parts, grids * parts, is_long(dtype))

    def split(self, terms: jax.Array, exponent: jax.Array) -> list[jax.Array]:
        """Returns the digits of each term, float64.

        Args:
            terms: float16, bfloat16, float32 or float64.
            exponent: The exponent of the grid of each term, int32, of the same shape.
        """
        whole = bits()
        rest = self.in_units(terms, exponent)
        digits: list[jax.Array] = []
        for _ in range(self.number * self.width // whole):
            if digits:
                rest = lax.mul(rest, lax.full_like(rest, 2.0**whole))
            digit = lax.round(rest, lax.RoundingMethod.AWAY_FROM_ZERO)
            rest = finite_or_zero(lax.sub(rest, digit))
            digits += [digit] if self.width == whole else self._halves(digit)
        return digits

    def in_units(self, terms: jax.Array, exponent: jax.Array) -> jax.Array:
        """Returns terms in units of the grid, float64.

        Args:
            terms: float16, bfloat16, float32 or float64.
            exponent: The exponent of the grid of each term, int32, of the same shape.
        """
        whole = lax.full_like(exponent, bits())
        if not self.long:
            terms = arithmetic.widen(at_least_float32(terms))
            return lax.mul(terms, arithmetic.power_of_two(lax.sub(whole, exponent)))
        # A factor alone may be beyond the range of float64, so it has two parts.
        first = lax.shift_right_arithmetic(exponent, lax.full_like(exponent, 1))
        second = lax.sub(exponent, first)
        half = lax.mul(flushed_float64(terms), arithmetic.power_of_two(lax.neg(first)))
        return lax.mul(half, arithmetic.power_of_two(lax.sub(whole, second)))

    def _halves(self, digit: jax.Array) -> list[jax.Array]:
        """Returns a digit of twice the width as two digits, the higher one first."""
        unit = 2.0**self.width
        high = arithmetic.nearest_integer(lax.mul(digit, lax.full_like(digit, 1 / unit)))
        return [high, finite_or_zero(lax.sub(digit, lax.mul(high, lax.full_like(high, unit))))]

    def value_of_sums(
        self, sums: Sequence[jax.Array], exponent: jax.Array, dtype: jax.typing.DTypeLike
    ) -> jax.Array:
        """Returns the value of sums of digits, rounded once.

        Args:
            sums: The sums of each digit.
            exponent: The exponent of the grid, int32, of their shape.
            dtype: The dtype of the result.
        """
        return self.value_of_digits(_carried(sums, self.width), exponent, dtype)

    def value_of_digits(
        self, sums: Sequence[jax.Array], exponent: jax.Array, dtype: jax.typing.DTypeLike
    ) -> jax.Array:
        """Returns the value of sums of digits, which fit into a digit except for the first sum.

        Args:
            sums: The sums of each digit.
            exponent: The exponent of the grid, int32, of their shape.
            dtype: The dtype of the result.
        """
        whole = self._as_float64(sums, dtype)
        return times_power_of_two(
            whole, lax.sub(exponent, lax.full_like(exponent, self.width)), dtype
        )

    def _as_float64(self, digits: Sequence[jax.Array], dtype: jax.typing.DTypeLike) -> jax.Array:
        """Returns digits as one number in units of the first: nearest for float64, else odd."""
        first, *others = digits
        if not others:
            return first
        rest = lax.full_like(first, 0)
        for position, digit in enumerate(others, 1):
            unit = lax.full_like(digit, 2.0 ** (-self.width * position))
            rest = lax.add(rest, lax.mul(digit, unit))
        return lax.add(first, rest) if is_long(dtype) else _sum_rounded_to_odd(first, rest)


def times_power_of_two(
    whole: jax.Array, exponent: jax.Array, dtype: jax.typing.DTypeLike
) -> jax.Array:
    """Returns ``whole * 2**exponent``, rounded once to a dtype. Each zero is +0.

    Args:
        whole: float64, an integer or a multiple of 2**-64.
        exponent: int32, at least -1022.
        dtype: The dtype of the result. If it is not float64, the product in float64 must not
            underflow.
    """
    result = lax.mul(whole, arithmetic.power_of_two(exponent))
    if is_long(dtype):
        height = lax.add(arithmetic.exponent_above(lax.abs(whole)), exponent)
        is_small = lax.lt(height, lax.full_like(height, -1021))
        result = lax.select(is_small, lax.mul(whole, lax.full_like(whole, 0)), result)
    zero = lax.full_like(result, 0)
    return arithmetic.narrow(lax.select(lax.eq(whole, zero), zero, result), dtype)


def _carried(sums: Sequence[jax.Array], width: int) -> list[jax.Array]:
    """Returns sums of digits after carries: the excess of a digit is added to the one before."""
    digits = list(sums)
    for position in range(len(digits) - 1, 0, -1):
        digit = digits[position]
        unit = lax.full_like(digit, 2.0**width)
        over = arithmetic.nearest_integer(lax.mul(digit, lax.full_like(digit, 2.0**-width)))
        digits[position] = lax.sub(digit, lax.mul(over, unit))
        digits[position - 1] = lax.add(digits[position - 1], over)
    return digits


def _sum_rounded_to_odd(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a + b`` rounded to odd: if inexact, the neighbour of the sum whose last bit is 1.

    Rounding the result to a narrower dtype gives the same number as rounding the exact sum (Boldo
    and Melquiond 2008, doi:10.1109/TC.2007.70819). The error of the rounded sum is computed without
    error by TwoSum (Knuth, *The Art of Computer Programming* 2, section 4.2.2).
    """
    near = arithmetic.seal(lax.add(a, b))
    of_b = lax.sub(near, a)
    error = lax.add(lax.sub(a, lax.sub(near, of_b)), lax.sub(b, of_b))
    zero = lax.full_like(error, 0)
    raw = lax.bitcast_convert_type(near, np.int64)
    none, one = lax.full_like(raw, 0), lax.full_like(raw, 1)
    grows = lax.eq(lax.gt(error, zero), lax.gt(near, zero))
    is_even = lax.eq(lax.bitwise_and(raw, one), none)
    is_inexact = lax.bitwise_and(lax.ne(error, zero), lax.is_finite(near))
    step = lax.select(grows, one, lax.neg(one))
    odd = lax.add(raw, lax.select(lax.bitwise_and(is_even, is_inexact), step, none))
    return lax.bitcast_convert_type(odd, np.float64)
