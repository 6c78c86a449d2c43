"""Products of matrices of float64 by products of int8, for devices whose float64 is slow or absent.

The technique is the splitting of Ozaki et al. (2012, doi:10.1007/s11075-011-9478-1) with integers
(Ootomo, Ozaki and Yokota 2024, doi:10.1177/10943420241239588). A row of the left factor and a
column of the right factor are whole multiples of one unit each, 2**-53 times the power of two of
the greatest element, below 2**54. Seven digits of base 256, from -128 to 127, hold such a number.
The digits i of a row and j of a column belong to the power 256**(12 - i - j)::

    row                   1.5, 2**-30
    in units of 2**-53    3 * 2**52, 2**23
    digits                [48, 0, 0, 0, 0, 0, 0] and [0, 0, 0, 1, -128, 0, 0]

A product of int8 adds the products of digits with one sum i + j, without error, in int32. Eight of
these suffice: the digits that are left out weigh less than 2**-57 of the norms.

*Error.* Rounding a factor changes each element by half a unit at most, so K terms by sqrt(K) u
times the norms of both factors, with u = 2**-53, by Cauchy and Schwarz. Digits that are left out
change the sum by K u / 20, and combining the sums rounds twice. From K = 8 on, this is less than
the K u that a chain of K roundings of float64 may have, on which the callers rely. Fewer terms are
added one by one.

*Without error.* Callers also rely on float64 to add multiples of g without error, while the product
of the norms is at most 2**53 g (``impl._exact.nearest.last_bits``). Let the last bit of a row be
2**-m of the power of two of its greatest element, and 2**-n for the column. The norms are not below
these elements, so m + n is at most 53. Then no digit is left out: the last digits of both have
i + j <= 7. The sum is a multiple of 2**13 units of the last digits, and so are both halves of it,
so float64 has all bits of the halves and of the sum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from impl._soft_float64 import arithmetic, ordering, reductions, words
from impl._soft_float64.words import full, left

#: The number of digits, of bits of a digit, and of the greatest sum i + j that counts.
_DIGITS, _BITS, _LAST = 7, 8, 7
#: The bits of a number in units: a digit of 6 bits and six of 8 bits.
_LENGTH = 54
#: The least number of terms for products of digits, and the greatest of a sum in int32.
_FEW, _MOST = 8, 1 << 13

#: The contracted dimensions of both operands, and the batch dimensions.
_Numbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def dot_general(
    lhs: jax.Array, rhs: jax.Array, *, dimension_numbers: _Numbers, **_: Any
) -> jax.Array:
    """Returns words of products of matrices.

    Args:
        lhs: Words.
        rhs: Words.
        dimension_numbers: As ``jax.lax.dot_general`` has them.
    """
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = dimension_numbers
    factors = _with_terms_last(lhs, lhs_sum, lhs_batch), _with_terms_last(rhs, rhs_sum, rhs_batch)
    # A program has the products of equal shapes once, as a function that it calls.
    result: jax.Array = _called(*factors, batch=len(lhs_batch))
    return result


def _with_terms_last(value: jax.Array, summed: Sequence[int], batch: Sequence[int]) -> jax.Array:
    """Returns a factor with the batch dimensions first, and the contracted ones as one, last."""
    free = [d for d in range(value.ndim) if d not in {*summed, *batch}]
    value = lax.transpose(value, (*batch, *free, *summed))
    kept = len(batch) + len(free)
    return lax.reshape(value, (*value.shape[:kept], math.prod(value.shape[kept:])))


def _sums(lhs: jax.Array, rhs: jax.Array, batch: int) -> jax.Array:
    """Returns words of products of factors with ``batch`` common dimensions and the terms last."""
    terms = lhs.shape[-1]
    spread = _Spread(lhs.shape[:-1], rhs.shape[:-1], batch)
    if terms < _FEW:
        total = lax.full(spread.shape, np.uint64(0))
        for k in range(terms):
            of_lhs, of_rhs = (
                lax.index_in_dim(each, k, each.ndim - 1, keepdims=False) for each in (lhs, rhs)
            )
            one = arithmetic.multiply(spread.of_lhs(of_lhs), spread.of_rhs(of_rhs))
            total = arithmetic.add(total, one) if k else one
        return total
    if terms > _MOST:
        sums = _sums(_in_blocks(lhs), _in_blocks(rhs), batch + 1)
        return reductions.reduced(arithmetic.add, sums, np.uint64(0), (0,))
    return _by_digits(lhs, rhs, spread)


def _in_blocks(value: jax.Array) -> jax.Array:
    """Returns a factor in blocks of terms, with the blocks as its first dimension."""
    blocks = -(-value.shape[-1] // _MOST)
    missing = blocks * _MOST - value.shape[-1]
    value = lax.pad(value, np.uint64(0), [(0, 0, 0)] * (value.ndim - 1) + [(0, missing, 0)])
    value = lax.reshape(value, (*value.shape[:-1], blocks, _MOST))
    return lax.transpose(value, (value.ndim - 2, *range(value.ndim - 2), value.ndim - 1))


_called = jax.jit(_sums, static_argnames="batch")


@dataclasses.dataclass(frozen=True)
class _Spread:
    """Broadcasts a value of each row of the left factor, or column of the right, to the result.

    Attributes:
        lhs: The shape of the left factor, without its terms.
        rhs: The shape of the right factor, without its terms.
        batch: The number of common first dimensions.
    """

    lhs: Sequence[int]
    rhs: Sequence[int]
    batch: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (*self.lhs, *self.rhs[self.batch :])

    def of_lhs(self, value: jax.Array) -> jax.Array:
        """Broadcasts a value of each row."""
        return lax.broadcast_in_dim(value, self.shape, range(len(self.lhs)))

    def of_rhs(self, value: jax.Array) -> jax.Array:
        """Broadcasts a value of each column."""
        first = len(self.lhs)
        free = range(first, first + len(self.rhs) - self.batch)
        return lax.broadcast_in_dim(value, self.shape, (*range(self.batch), *free))

    def product(self, lhs: Sequence[jax.Array], rhs: Sequence[jax.Array]) -> jax.Array:
        """Returns sums of products of pairs of int8 arrays with the terms last, int32."""
        left_, right_ = (lax.concatenate(list(each), each[0].ndim - 1) for each in (lhs, rhs))
        dims = ([left_.ndim - 1], [right_.ndim - 1])
        batch = list(range(self.batch)), list(range(self.batch))
        return lax.dot_general(
            left_, right_, (dims, batch), preferred_element_type=np.dtype(np.int32)
        )


def _by_digits(lhs: jax.Array, rhs: jax.Array, spread: _Spread) -> jax.Array:
    """Returns words of products, by eight products of digits."""
    (of_lhs, lhs_power), (of_rhs, rhs_power) = _digits(lhs), _digits(rhs)
    sums = []
    for place in range(_LAST + 1):
        which = range(max(0, place - _DIGITS + 1), min(_DIGITS - 1, place) + 1)
        one = spread.product([of_lhs[i] for i in which], [of_rhs[place - i] for i in which])
        sums.append(lax.convert_element_type(one, np.int64))
    power = lax.add(spread.of_lhs(lhs_power), spread.of_rhs(rhs_power))
    # The last sum of each half has the weight of digits i + j = 3, and 7.
    high, low = (
        _scaled(_joined(part), power, _BITS * (2 * _DIGITS - 2 - last))
        for part, last in ((sums[:4], 3), (sums[4:], 7))
    )
    total = arithmetic.add(high, low)
    has_others = lax.bitwise_or(*(_any(lax.bitwise_not(words.is_finite(x))) for x in (lhs, rhs)))
    with_others: jax.Array = lax.cond(
        has_others, lambda: _with_infinities(lhs, rhs, total, spread), lambda: total
    )
    return with_others


def _any(condition: jax.Array) -> jax.Array:
    return lax.reduce_or(condition, tuple(range(condition.ndim)))


def _digits(value: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    """Returns the digits of rows, the greatest first, and the power of two of the units of rows.

    Args:
        value: Words, the terms last. Infinities and NaNs count as zeros.

    Returns:
        int8 arrays of the shape of ``value``, and int64 without the last dimension.
    """
    value = lax.select(words.is_finite(value), value, full(value, 0))
    power = words.exponent(value)
    top = lax.reduce_max(power, (value.ndim - 1,))
    apart = lax.sub(lax.broadcast_in_dim(top, value.shape, range(value.ndim - 1)), power)
    apart = lax.convert_element_type(lax.min(apart, full(apart, 63)), np.uint64)
    half = words.right(lax.shift_left(full(value, 1), apart), 1)
    size = lax.add(left(words.significand(value), _LENGTH - 53), half)
    rest = lax.convert_element_type(lax.shift_right_logical(size, apart), np.int64)
    rest = lax.select(ordering.is_signed(value), lax.neg(rest), rest)
    digits = []
    middle = full(rest, 1 << (_BITS - 1))
    for _ in range(_DIGITS):
        shifted = lax.add(rest, middle)
        digit = lax.sub(words.masked(shifted, (1 << _BITS) - 1), middle)
        digits.append(lax.convert_element_type(digit, np.int8))
        rest = lax.shift_right_arithmetic(shifted, full(rest, _BITS))
    return digits[::-1], lax.sub(top, full(top, 1023 + _LENGTH - 1))


def _joined(sums: Sequence[jax.Array]) -> jax.Array:
    """Returns sums with the weights 256**3, 256**2, 256 and 1, added without error, int64."""
    joined = sums[0]
    for each in sums[1:]:
        joined = lax.add(left(joined, _BITS), each)
    return joined


def _scaled(value: jax.Array, power: jax.Array, more: int) -> jax.Array:
    """Returns words of ``value * 2**(power + more)``, rounded once.

    Args:
        value: int64.
        power: int64, of its shape.
        more: A further power of two.
    """
    is_negative = lax.lt(value, full(value, 0))
    size = lax.convert_element_type(lax.abs(value), np.uint64)
    return words.packed(
        left(words.bit(is_negative, size), 63), lax.add(power, full(power, 1086 + more)), size
    )


def _with_infinities(
    lhs: jax.Array, rhs: jax.Array, total: jax.Array, spread: _Spread
) -> jax.Array:
    """Returns products with the results of infinities and NaNs, as IEEE 754 has them.

    A term is infinite if one factor is and the other one is not a zero; it is NaN if a factor is
    NaN, or one is infinite and the other a zero. Infinite terms of both signs add up to NaN.
    """
    kinds = [_Kinds.of(each) for each in (lhs, rhs)]
    one, other = kinds
    # The terms of two infinities are counted twice, and once off.
    signed = spread.product(
        [one.infinity, one.sign, lax.neg(one.infinity)],
        [other.sign, other.infinity, other.infinity],
    )
    one_size, other_size = lax.abs(one.infinity), lax.abs(other.infinity)
    infinite = spread.product(
        [one_size, lax.abs(one.sign), lax.neg(one_size)],
        [lax.abs(other.sign), other_size, other_size],
    )
    nans = spread.product(
        [one.nan, full(one.nan, 1), one_size, one.zero],
        [full(other.nan, 1), other.nan, other.zero, other_size],
    )
    none = full(infinite, 0)
    infinity = full(total, words.INFINITY)
    result = lax.select(lax.eq(infinite, none), total, full(total, words.NAN))
    is_positive = lax.bitwise_and(lax.gt(infinite, none), lax.eq(signed, infinite))
    is_negative = lax.bitwise_and(lax.gt(infinite, none), lax.eq(signed, lax.neg(infinite)))
    result = lax.select(is_positive, infinity, result)
    result = lax.select(is_negative, arithmetic.negative(infinity), result)
    return lax.select(lax.gt(nans, none), full(total, words.NAN), result)


@dataclasses.dataclass(frozen=True)
class _Kinds:
    """The kinds of words, as int8 arrays of 0 and 1, or of -1, 0 and 1.

    Attributes:
        sign: The sign of a number or an infinity; 0 for a zero or a NaN.
        infinity: The sign of an infinity; else 0.
        nan: 1 for a NaN.
        zero: 1 for a zero.
    """

    sign: jax.Array
    infinity: jax.Array
    nan: jax.Array
    zero: jax.Array

    @classmethod
    def of(cls, value: jax.Array) -> _Kinds:
        zero, nan = words.is_zero(words.significand(value)), words.is_nan(value)
        positive = lax.full_like(zero, 1, np.int8)
        sign = lax.select(ordering.is_signed(value), lax.neg(positive), positive)
        none = full(sign, 0)
        sign = lax.select(lax.bitwise_or(zero, nan), none, sign)
        is_number = lax.bitwise_or(words.is_finite(value), nan)
        infinity = lax.select(is_number, none, sign)
        return cls(sign, infinity, *(lax.convert_element_type(x, np.int8) for x in (nan, zero)))
