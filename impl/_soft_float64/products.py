"""Products of matrices of float64 by products of int8, for devices whose float64 is slow or absent.

The technique is the splitting of Ozaki et al. (2012, doi:10.1007/s11075-011-9478-1) with integers
(Ootomo, Ozaki and Yokota 2024, doi:10.1177/10943420241239588). Let A be the power of two of the
greatest element of a row of the left factor, and B the one of a column of the right one. A row is
rounded to whole multiples of a unit, and D digits of base 256 hold a multiple. Digit i counts units
of ``A 2**(-5 - 8 i)``. It is from -128 to 127, and digit 0 is from -64 to 64::

    row                   1.5, 2**-30                   A = 1
    in units of 2**-45    3 * 2**44, 2**15              D = 6
    digits                [48, 0, 0, 0, 0, 0] and [0, 0, 0, 1, -128, 0]

The digits i of a row and j of a column belong to the *slot* i + j, whose unit is A B times
2**(-10 - 8 (i + j)). A product of int8 adds the products of the digits of one slot in int32,
without error. The slots 0 to D - 1 are computed, by D (D + 1) / 2 products of int8. All others are
left out.

*How many digits.* ``digits_for`` takes as many as the rounding asks for: the fewest that leave
about one in a thousand of results in doubt, if the factors are normal numbers::

    float32 to float32        6 digits, 21 products of int8; of more than 1,024 terms 7 digits, 28
    bfloat16 to float32       5 digits, 15 products
    bfloat16 to bfloat16      4 digits, 10 products
    to float64                8 digits, 36 products

The bits of a result do not depend on the number. The bound of the error decides which results are
in doubt (``impl._exact.nearest.interval``).

*Bound of the error.* Let a row have K elements. The change by its rounding is one more digit, D. It
is a part of at most one half of the last unit, so at most 128 of its own units. Then the row is the
sum of its digits 0 to D, without error. So is a column. The product lacks ::

    sum over i from 0 to D of    digit i of the row  times  the digits D - i to D of the column

Let the norm of digit i of the row be at most n_i of its units, and the norm of digit j of the
column at most m_j. These norms are computed, and rounded up to integers. For digit D, each element
that was changed counts as 128. By the triangle inequality, the norm of the digits j to D of the
column is at most t_j units of digit j, with t_D = m_D and t_j = m_j + t_(j+1) / 256. By Cauchy and
Schwarz, the missing sum is at most the *excess* ::

    A B 2**(-10 - 8 D) (n_0 t_D + n_1 t_(D-1) + ... + n_D t_0)

For at most 2**13 terms a norm is at most 11,586, and the norm of digit 0 at most 5,793. A tail is
at most 11,632, and that from digit 0 on at most 5,839. So the sum is below 8 * 11,632**2 < 2**31,
and int32 holds it. Where all that is left out is zero, the excess is zero: small integers, ones and
zeros, and bfloat16 of similar magnitudes have few digits that are not zero.

*Roundings.* Of at most 2**13 terms, slot s > 0 is at most 2**13 (2 * 2**13 + (s - 1) 2**14), which
is s 2**27, and slot 0 at most 2**25. In units of the last slot, five slots are below 2**58.
int64 holds them, and float64 rounds them once. More slots are two parts, of which the second one
has the last four. The first part is below 2**50 of its units. The second one, from slot s on, is
below (s + 1) 2**51. With up to 7 digits, both are below 2**53, so float64 has all bits of them, and
rounds their sum once. With 8 digits, float64 may also round the second part, by one unit. If all
slots together and the second part are below 2**53 units of the last slot, nothing is rounded.
Otherwise the excess has as many units as float64 may round, so it bounds the whole error. Blocks of
2**13 terms are added in float64, with a rounding each. Fewer than eight terms are added one by one.

*Without error.* If nothing is left out or rounded, the excess is 0, which decides ties.
Where float64 adds sums of blocks, callers rely on it to add multiples of g without error, while the
product of the norms is at most 2**53 g (``impl._exact.nearest.repair``). That holds for sums of
blocks whose excess is 0.

*All bits.* ``dot_general`` takes 8 digits, for callers that know no excess. The sum has nine
products of norms and tails, each at most 2**15 K, so the excess is at most 2**(15 + 3.2 - 74) K
times the norms, or K u / 7. From K = 8 on, that and two roundings are less than the K roundings
that a chain of float64 may have.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import fence
from impl._exact.products import doubles
from impl._exact.products.dot_general import Approximation, Bits
from impl._exact.products.layout import DimensionNumbers
from impl._soft_float64 import arithmetic, reductions, words
from impl._soft_float64.words import full, left

#: The number of bits of a digit, and the least and the greatest number of digits.
_BITS, _FEWEST_DIGITS, _MOST_DIGITS = 8, 2, 8
#: The weight of slot 0 is A B times two to the minus this.
_FIRST = 10
#: The number of slots that one part holds, and of the second part of more slots.
_JOINED, _SECOND = 5, 4
#: The least number of terms for products of digits, and the greatest of a sum in int32.
_FEW, _MOST = 8, 1 << 13
#: The bias of the exponent of float64.
_BIAS = 1023

_DOUBLE, _WORD = np.dtype(np.float64), np.dtype(np.uint64)


def dot_general(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    dimension_numbers: DimensionNumbers,
    precision: Any = None,
    **_: Any,
) -> jax.Array:
    """Returns products of matrices, float64 or words; a library's bound holds for their errors.

    Raises:
        TypeError: They may have no error.
    """
    if is_exact(precision):
        raise TypeError("the engine integers, which has no float64, has no product of float64")
    return _product(lhs, rhs, dimension_numbers, _MOST_DIGITS).total


def is_exact(precision: Any) -> bool:
    """Returns whether products of this precision are products of slices, without an error."""
    return precision in (doubles.PRECISION, (doubles.PRECISION,) * 2)


def approximate(
    lhs: jax.Array, rhs: jax.Array, numbers: DimensionNumbers, bits: Bits
) -> Approximation:
    """Returns products of float64, as ``approximation.Product`` does, added in float64."""
    terms = math.prod(lhs.shape[axis] for axis in numbers[0][0])
    return _product(lhs, rhs, numbers, digits_for(bits, terms))


def approximate_by_words(
    lhs: jax.Array, rhs: jax.Array, numbers: DimensionNumbers, bits: Bits
) -> Approximation:
    """Returns products of float64, as ``approximate`` does, without any operation of float64."""
    lhs, rhs = (lax.bitcast_convert_type(each, _WORD) for each in (lhs, rhs))
    found = approximate(lhs, rhs, numbers, bits)
    return found.each(lambda value: lax.bitcast_convert_type(value, _DOUBLE))


def digits_for(bits: Bits, terms: int) -> int:
    """Returns the number of digits that leaves about one in a thousand of results in doubt.

    Of K normal numbers of b bits, rounded to p bits, about 2**(9 + p - 8 D) sqrt(K) are in doubt
    for D digits: the excess has the norms of the digits near D / 2. If such a digit is below the
    last bit of most numbers, its norm is smaller, and 2**(4 D - 2 - b) times fewer are in doubt.
    These are estimates, which fit measurements for 64 to 8,192 terms; no bit depends on them.

    Args:
        bits: The bits of the factors and of the result.
        terms: The number of terms of a sum.
    """
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS):
        below = max(0.0, 4 * digits - 2 - sum(bits.factors) / 2)
        if 8 * digits + below >= bits.result + 19 + math.log2(max(terms, 1)) / 2:
            return digits
    return _MOST_DIGITS


def _product(
    lhs: jax.Array, rhs: jax.Array, numbers: DimensionNumbers, digits: int
) -> Approximation:
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = numbers
    factors = _with_terms_last(lhs, lhs_sum, lhs_batch), _with_terms_last(rhs, rhs_sum, rhs_batch)
    # A program has the products of equal shapes once, as a function that it calls.
    total, excess = _called(*factors, batch=len(lhs_batch), digits=digits)
    terms = factors[0].shape[-1]
    # The excess has the roundings of products of digits, but not the roundings of sums of blocks.
    roundings = terms if terms < _FEW else -(-terms // _MOST) - 1
    return Approximation(total, excess, roundings)


def _with_terms_last(value: jax.Array, summed: Sequence[int], batch: Sequence[int]) -> jax.Array:
    """Returns a factor with the batch dimensions first, and the contracted ones as one, last."""
    free = [d for d in range(value.ndim) if d not in {*summed, *batch}]
    order = (*batch, *free, *summed)
    if order != tuple(range(value.ndim)):
        # Without a fence, XLA would move the elements in each operation that reads them.
        value = fence(lax.transpose(value, order))
    outer = len(batch) + len(free)
    return lax.reshape(value, (*value.shape[:outer], math.prod(value.shape[outer:])))


def _sums(
    lhs: jax.Array, rhs: jax.Array, batch: int, digits: int
) -> tuple[jax.Array, jax.Array | None]:
    """Returns products of factors with ``batch`` common dimensions and the terms last.

    Returns:
        The products, and their excess; None for no excess.
    """
    terms = lhs.shape[-1]
    spread = _Spread(lhs.shape[:-1], rhs.shape[:-1], batch)
    numbers = _FLOATS if lhs.dtype == _DOUBLE else _WORDS
    if terms < _FEW:
        total = lax.full(spread.shape, 0, lhs.dtype)
        for k in range(terms):
            of_lhs, of_rhs = (
                lax.index_in_dim(each, k, each.ndim - 1, keepdims=False) for each in (lhs, rhs)
            )
            one = numbers.multiply(spread.of_lhs(of_lhs), spread.of_rhs(of_rhs))
            total = numbers.add(total, one) if k else one
        return total, None
    if terms > _MOST:
        sums, excess = _sums(_in_blocks(lhs), _in_blocks(rhs), batch + 1, digits)
        return numbers.sum(sums), None if excess is None else numbers.sum(excess)
    return _by_digits(lhs, rhs, spread, digits)


def _in_blocks(value: jax.Array) -> jax.Array:
    """Returns a factor in blocks of terms, with the blocks as its first dimension."""
    blocks = -(-value.shape[-1] // _MOST)
    missing = blocks * _MOST - value.shape[-1]
    zero = np.array(0, value.dtype)
    value = lax.pad(value, zero, [(0, 0, 0)] * (value.ndim - 1) + [(0, missing, 0)])
    value = lax.reshape(value, (*value.shape[:-1], blocks, _MOST))
    return lax.transpose(value, (value.ndim - 2, *range(value.ndim - 2), value.ndim - 1))


_called = jax.jit(_sums, static_argnames=("batch", "digits"))


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

    def product(self, lhs: jax.Array, rhs: jax.Array, dtype: Any) -> jax.Array:
        """Returns sums of products of arrays with the terms last."""
        dims = ([lhs.ndim - 1], [rhs.ndim - 1])
        batch = list(range(self.batch)), list(range(self.batch))
        return lax.dot_general(lhs, rhs, (dims, batch), preferred_element_type=np.dtype(dtype))


class _Words:
    """Arithmetic of float64 on words."""

    multiply = staticmethod(arithmetic.multiply)
    add = staticmethod(arithmetic.add)

    @staticmethod
    def sum(value: jax.Array) -> jax.Array:
        """Returns sums over the first dimension."""
        return reductions.reduced(arithmetic.add, value, np.uint64(0), (0,))

    @staticmethod
    def of_parts(first: jax.Array | None, second: jax.Array, power: jax.Array) -> jax.Array:
        """Returns ``(first * 2**32 + second) * 2**power``, where parts and sum are rounded.

        All are int64; the first may be None for 0, and the power has the bias of float64.
        """
        power = lax.add(power, full(power, 1086 - _BIAS))

        def scaled(value: jax.Array, power: jax.Array) -> jax.Array:
            is_negative = lax.lt(value, full(value, 0))
            size = lax.convert_element_type(lax.abs(value), np.uint64)
            return words.packed(left(words.bit(is_negative, size), 63), power, size)

        found = scaled(second, power)
        if first is None:
            return found
        return arithmetic.add(scaled(first, lax.add(power, full(power, _BITS * _SECOND))), found)

    @staticmethod
    def of_other(value: jax.Array) -> jax.Array:
        """Returns float32 that are infinite or NaN."""
        return arithmetic.to_word(value)


class _Floats:
    """Arithmetic of float64, as ``_Words`` has it. A unit below all float64 counts as 0."""

    multiply = staticmethod(lax.mul)
    add = staticmethod(lax.add)

    @staticmethod
    def sum(value: jax.Array) -> jax.Array:
        return lax.reduce_sum(value, (0,))

    @staticmethod
    def of_parts(first: jax.Array | None, second: jax.Array, power: jax.Array) -> jax.Array:
        power = lax.clamp(np.int64(0), power, np.int64(2046))
        found = lax.convert_element_type(second, _DOUBLE)
        if first is not None:
            more = lax.convert_element_type(first, _DOUBLE)
            found = lax.add(lax.mul(more, lax.full_like(more, 2.0 ** (_BITS * _SECOND))), found)
        return lax.mul(found, lax.bitcast_convert_type(left(power, 52), _DOUBLE))

    @staticmethod
    def of_other(value: jax.Array) -> jax.Array:
        return lax.convert_element_type(value, _DOUBLE)


_WORDS, _FLOATS = _Words(), _Floats()


def _by_digits(
    lhs: jax.Array, rhs: jax.Array, spread: _Spread, digits: int
) -> tuple[jax.Array, jax.Array]:
    """Returns products, by products of digits, and their excess."""
    numbers = _FLOATS if lhs.dtype == _DOUBLE else _WORDS
    if lhs.dtype == _DOUBLE:
        lhs, rhs = (lax.bitcast_convert_type(each, _WORD) for each in (lhs, rhs))
    # The digits of a slot are neighbours, if the digits of one factor stand in the opposite order.
    one, other = _Digits.of(lhs, digits), _Digits.of(rhs, digits, is_reversed=True)
    terms, slots = lhs.shape[-1], []
    for slot in range(digits):
        size = (slot + 1) * terms
        pair = _part(one.line, 0, size), _part(other.line, (digits + 1) * terms - size, size)
        slots.append(lax.convert_element_type(spread.product(*pair, np.int32), np.int64))
    power = lax.add(spread.of_lhs(one.top), spread.of_rhs(other.top))
    power = lax.add(power, full(power, -_FIRST - _BITS * (digits - 1) - _BIAS))
    first = _joined(slots[:-_SECOND]) if digits > _JOINED else None
    second = _joined(slots if first is None else slots[-_SECOND:])
    total = numbers.of_parts(first, second, power)
    # A unit of the last slot is 256 of those that the left out parts are counted in.
    left_out = lax.convert_element_type(_left_out(one, other, spread), np.int64)
    left_out = words.right(lax.add(left_out, full(left_out, (1 << _BITS) - 1)), _BITS)
    excess = lax.add(left_out, _rounding(first, second))
    excess = numbers.of_parts(None, excess, power)
    others = _not_finite(lhs, rhs, spread)
    return lax.select(lax.is_finite(others), total, numbers.of_other(others)), excess


def _part(value: jax.Array, start: int, size: int) -> jax.Array:
    """Returns some elements of the last dimension."""
    return lax.slice_in_dim(value, start, start + size, axis=value.ndim - 1)


@dataclasses.dataclass(frozen=True)
class _Digits:
    """The digits of rows.

    Attributes:
        line: The digits one after the other in the last dimension, int8.
        norms: Bounds of the norms of the digits of each row, and of one more digit for what
            rounding changed; int32 arrays without the terms.
        top: The biased exponent of the greatest element of each row, int64.
    """

    line: jax.Array
    norms: Sequence[jax.Array]
    top: jax.Array

    @classmethod
    def of(cls, value: jax.Array, count: int, *, is_reversed: bool = False) -> _Digits:
        """Splits rows into digits.

        Args:
            value: Words, the terms last. Infinities and NaNs count as zeros.
            count: The number of digits.
            is_reversed: Whether the greatest digits come last in the line, and not first.
        """
        value = lax.select(words.is_finite(value), value, full(value, 0))
        power = words.exponent(value)
        top = lax.reduce_max(power, (value.ndim - 1,))
        apart = lax.sub(lax.broadcast_in_dim(top, value.shape, range(value.ndim - 1)), power)
        # A significand has 53 bits; all bits of a greatest one become bits of the digits.
        length = _BITS * count - 2
        more = max(length - 53, 0)
        apart = lax.add(apart, full(apart, 53 + more - length))
        apart = lax.convert_element_type(lax.min(apart, full(apart, 63)), np.uint64)
        half = words.right(lax.shift_left(full(value, 1), apart), 1)
        size = left(words.significand(value), more)
        rest = lax.shift_right_logical(lax.add(size, half), apart)
        is_changed = lax.ne(lax.shift_left(rest, apart), size)
        rest = lax.convert_element_type(rest, np.int64)
        rest = lax.select(arithmetic.is_signed(value), lax.neg(rest), rest)
        # The last digit stands for what rounding changed, with the greatest magnitude of a digit.
        digits = [lax.neg(left(lax.convert_element_type(is_changed, np.int8), _BITS - 1))]
        middle = full(rest, 1 << (_BITS - 1))
        for _ in range(count):
            shifted = lax.add(rest, middle)
            digit = lax.sub(words.masked(shifted, (1 << _BITS) - 1), middle)
            digits.append(lax.convert_element_type(digit, np.int8))
            rest = lax.shift_right_arithmetic(shifted, full(rest, _BITS))
        digits = digits if is_reversed else digits[::-1]
        # Without a fence, XLA would compute the digits again for each slot.
        line = fence(lax.concatenate(digits, value.ndim - 1))
        each = lax.convert_element_type(
            lax.reshape(line, (*value.shape[:-1], count + 1, value.shape[-1])), np.int32
        )
        squares = lax.reduce_sum(lax.mul(each, each), (value.ndim,))
        roots = _root(squares)
        norms = [
            lax.index_in_dim(roots, i, value.ndim - 1, keepdims=False) for i in range(count + 1)
        ]
        return cls(line, norms[::-1] if is_reversed else norms, top)

    def tails(self) -> list[jax.Array]:
        """Returns bounds of the norms of what follows from each digit on, in its units, int32."""
        tails = [self.norms[-1]]
        for norm in self.norms[-2::-1]:
            above = words.right(lax.add(tails[-1], full(norm, (1 << _BITS) - 1)), _BITS)
            tails.append(lax.add(norm, above))
        return tails[::-1]


@jax.jit
def _root(square: jax.Array) -> jax.Array:
    """Returns the square root of int32 below 2**28, rounded up, bit by bit."""
    root = full(square, 0)
    for bit in range(13, -1, -1):
        more = lax.bitwise_or(root, full(root, 1 << bit))
        root = lax.select(lax.le(lax.mul(more, more), square), more, root)
    return lax.add(root, words.bit(lax.lt(lax.mul(root, root), square), root))


def _left_out(one: _Digits, other: _Digits, spread: _Spread) -> jax.Array:
    """Returns bounds of what the products of digits leave out, in units of slot D, int32."""
    total = lax.full(spread.shape, 0, np.int32)
    for norm, tail in zip(one.norms, other.tails()[::-1], strict=True):
        total = lax.add(total, lax.mul(spread.of_lhs(norm), spread.of_rhs(tail)))
    return total


def _rounding(first: jax.Array | None, second: jax.Array) -> jax.Array:
    """Returns bounds of what float64 rounds of a sum of two parts, in units of the second one.

    The parts are int64; the first may be None.
    """
    if first is None:
        size, is_exact = lax.abs(second), _has_53_bits(second)
        most = lax.add(words.right(size, 53), full(size, 1))
    else:
        # The sum is below 2**32 units of the first part, plus 2**54. The second part may be rounded
        # too, by one unit.
        size = lax.abs(first)
        most = lax.add(words.right(size, 53 - _BITS * _SECOND), full(size, 5))
        whole = lax.add(left(first, _BITS * _SECOND), second)
        is_exact = lax.bitwise_and(_has_53_bits(whole), _has_53_bits(second))
        is_exact = lax.bitwise_and(is_exact, lax.lt(size, full(size, 1 << 30)))
    return lax.select(is_exact, full(size, 0), most)


def _has_53_bits(value: jax.Array) -> jax.Array:
    """Returns where int64 are below 2**53, so that float64 has all bits of them."""
    return lax.lt(lax.abs(value), full(value, 1 << 53))


def _joined(sums: Sequence[jax.Array]) -> jax.Array:
    """Returns sums with the weights 256**(n - 1), ..., 256 and 1, added without error, int64."""
    joined = sums[0]
    for each in sums[1:]:
        joined = lax.add(left(joined, _BITS), each)
    return joined


def _not_finite(lhs: jax.Array, rhs: jax.Array, spread: _Spread) -> jax.Array:
    """Returns products that are infinite or NaN where the products of the factors are, float32.

    The factors are replaced by their signs, zeros, infinities and NaNs. IEEE 754 says which sums of
    their products are infinities or NaNs, and no other sum is above the number of terms.
    """

    def kind(value: jax.Array) -> jax.Array:
        # A GPU without units for bfloat16 negates by a fused multiply-add, so these are its bits.
        one = lax.full_like(value, 0x3F80, np.uint16)
        size = lax.select(words.is_zero(words.significand(value)), full(one, 0), one)
        size = lax.select(words.is_finite(value), size, full(one, 0x7F80))
        size = lax.select(words.is_nan(value), full(one, 0x7FC0), size)
        sign = left(words.bit(arithmetic.is_signed(value), one), 15)
        return lax.bitcast_convert_type(lax.bitwise_or(sign, size), jnp.bfloat16)

    return spread.product(kind(lhs), kind(rhs), np.float32)
