"""Engines: implementations of exact sums of products of integers. All give the same bits.

An engine splits the integers of each operand into *limbs* (float64) or *digits* (int8, bfloat16),
computes the products of parts with a matrix unit of the device, and adds these products as int64. A
part has so few bits that the unit rounds no sum. This is Ozaki splitting (Ozaki, Ogita, Oishi and
Rump 2012, doi:10.1007/s11075-011-9478-1); with digits of int8, it is the scheme of Ootomo, Ozaki
and Yokota (2024, arXiv:2306.11975)::

    integers                    left 300000, right 5000000
    limbs of 14 bits            left = 18 * 2**14 + 5088, right is one limb
    sum of products of limbs    (18 * 5000000) * 2**14 + 5088 * 5000000 = 1500000000000
    digits of 8 bits            left = 5 * 256**2 - 108 * 256 - 32
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.jax_internals.shardings import cut_as_the_operands
from impl._exact import arithmetic
from impl._exact.products import levels as grids

#: A float64 holds every integer of up to 53 bits.
FLOAT64_BITS = 53
#: The number of bits of a digit of the engines of digits; a digit is from -128 to 127.
_DIGIT = 8


class Product(Protocol):
    """A product, or a convolution, whose operands are integers."""

    @property
    def terms(self) -> int:
        """The number of terms of each sum."""

    @property
    def can_cut(self) -> bool:
        """Whether a sum may be cut into blocks."""

    def __call__(self, lhs: jax.Array, rhs: jax.Array, dtype: Any, limit: int) -> jax.Array:
        """Returns the exact sums, of ``dtype``, or of int64 if there are more terms than ``limit``.

        Args:
            lhs: The left operand, of a dtype that the unit takes.
            rhs: The right operand.
            dtype: The dtype in which the unit adds.
            limit: The number of terms whose sum that dtype holds. ``can_cut`` is false only for
                products that have no more.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Total:
    """Exact integers: ``high * 2**shift + low``, with ``0 <= low < 2**shift``.

    Attributes:
        high: int64, of finite terms alone; or float64 of all terms, where ``low`` is None.
        low: int64, or None for zero.
        shift: The bits of ``low``.
    """

    high: jax.Array
    low: jax.Array | None = None
    shift: int = 0


#: Takes the left and the right operand, their level, and the product.
Engine = Callable[[jax.Array, jax.Array, grids.Level, Product], Total]


def float64(lhs: jax.Array, rhs: jax.Array, level: grids.Level, product: Product) -> Total:
    """Adds products of limbs in float64, of one limb where that is exact.

    Raises:
        NotImplementedError: A sum that cannot be cut is too long.
    """
    width, lhs_limbs, rhs_limbs, limit = _limbs_of(level, product)
    if product.terms > limit and not product.can_cut:
        raise NotImplementedError(
            f"an exact convolution adds at most {limit:,} terms, not {product.terms:,}"
        )
    if lhs_limbs == 1 and product.terms <= limit:
        return Total(product(lhs, rhs, np.float64, limit))
    left = _limbs(arithmetic.finite_or_zero(lhs), width, lhs_limbs)
    right = _limbs(arithmetic.finite_or_zero(rhs), width, rhs_limbs)
    parts = [
        (width * (i + j), _as_int64(product(a, b, np.float64, limit)))
        for i, a in enumerate(left)
        for j, b in enumerate(right)
    ]
    return _total(parts, width if _is_wide(level) else 0)


def _limbs_of(level: grids.Level, product: Product) -> tuple[int, int, int, int]:
    """Returns the bits of a limb, the limbs of both operands, and the most terms of an exact sum.

    A float64 adds integers exactly up to 2**53. ``level.column`` is 29 if the level is wide, and
    at most 23 otherwise. The integers of a row either add up to at most 2**total (38, or 30) or
    have at most ``least`` bits (27, or 17). A low limb is at most 2**(width - 1).
    """
    if _is_wide(level):
        if product.terms <= 1 << 11 or product.can_cut:
            # Low limbs: 2**13 * 2**29 * 2**11 terms = 2**53.
            # High limbs, of a bounded sum: 2**38 / 2**14 * 2**29 = 2**53, for any number of terms.
            # High limbs, of 27 bits: 2**(27 - 14) * 2**29 * 2**11 terms = 2**53.
            # So the right operand needs no second limb.
            return 14, 2, 1, 1 << 11
        # Right limbs are at most 2**13 and 2**(29 - 14): 2**13 * 2**15 * 2**22 terms = 2**50.
        return 14, 2, 2, 1 << 22
    # One limb: 2**30 * 2**23 = 2**53 for a bounded sum, or 2**least * 2**column * terms.
    limit = 1 << max(FLOAT64_BITS - level.column - level.least, 13)
    if product.terms <= limit or product.can_cut:
        return 0, 1, 1, limit
    # Low limbs: 2**8 * 2**23 * 2**22 terms = 2**53; high limbs of 17 bits likewise.
    return 9, 2, 1, 1 << 22


def int8(lhs: jax.Array, rhs: jax.Array, level: grids.Level, product: Product) -> Total:
    """Adds products of digits in int32, as integer tensor cores do.

    A sum is at most 2**14 * 2**16 terms = 2**30.
    """
    return _by_digits(lhs, rhs, level, product, np.int8, np.int32, limit=1 << 16)


def bfloat16(lhs: jax.Array, rhs: jax.Array, level: grids.Level, product: Product) -> Total:
    """Adds products of digits in float32, as tensor cores do.

    A sum is at most 2**14 * 2**9 terms = 2**23, so that a unit which truncates below 24 bits
    truncates nothing.
    """
    return _by_digits(lhs, rhs, level, product, jnp.bfloat16, np.float32, limit=1 << 9)


#: The engines, by name.
ENGINES: Mapping[str, Engine] = MappingProxyType(
    {"float64": float64, "int8": int8, "bfloat16": bfloat16}
)
#: The engines of each platform for products of matrices: first for operands and results of at most
#: 16 bits, second for all others. A convolution takes float64, since XLA cannot add it in blocks.
CHOICE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "cpu": ("float64", "float64"),
        "cuda": ("bfloat16", "float64"),
        "rocm": ("bfloat16", "float64"),
        "tpu": ("bfloat16", "bfloat16"),
    }
)


def plain_product(lhs: jax.Array, rhs: jax.Array, numbers: Any, dtype: Any) -> jax.Array:
    """Returns a library's product of parts, in the dtype in which it adds, which is exact.

    float64 asks for the highest precision. Digits and signs are exact in every precision.
    """
    return cut_as_the_operands(
        lax.dot_general(
            lhs,
            rhs,
            numbers,
            precision=lax.Precision.HIGHEST if dtype == np.float64 else None,
            preferred_element_type=jnp.dtype(dtype),
        )
    )


def rounded(total: Total, unit: jax.Array | None, dtype: Any) -> jax.Array:
    """Returns ``total * unit``, rounded once to ``dtype``. A total of zero gives +0.

    Args:
        total: The integers.
        unit: A power of two, float64, of the same shape; None for 1.
        dtype: float16, bfloat16, float32 or float64.
    """
    if total.high.dtype == np.float64:
        value = total.high
    else:
        value = _as_float64(total, is_wide=jnp.dtype(dtype) == np.float64)
    # A library may give -0 for a sum of one term, and +0 for the same sum in another shape.
    zero = lax.full_like(value, 0)
    value = lax.select(lax.eq(value, zero), zero, value)
    return arithmetic.narrow(value if unit is None else lax.mul(value, unit), dtype)


def _limbs(value: jax.Array, width: int, count: int) -> list[jax.Array]:
    """Returns one limb, or the low and the high one: ``value == low + high * 2**width``."""
    if count == 1:
        return [value]
    unit = lax.full_like(value, 2.0**width)
    high = arithmetic.nearest_integer(lax.mul(value, lax.full_like(value, 2.0**-width)))
    return [lax.sub(value, lax.mul(high, unit)), high]


def _digits(value: jax.Array, count: int, dtype: Any) -> list[jax.Array]:
    """Returns the digits of integers, from the last to the first, each from -128 to 127."""
    rest = lax.convert_element_type(value, np.int32)
    half, mask = lax.full_like(rest, 1 << (_DIGIT - 1)), lax.full_like(rest, (1 << _DIGIT) - 1)
    digits = []
    for _ in range(count - 1):
        digit = lax.sub(lax.bitwise_and(lax.add(rest, half), mask), half)
        rest = lax.shift_right_arithmetic(lax.sub(rest, digit), lax.full_like(rest, _DIGIT))
        digits.append(digit)
    return [lax.convert_element_type(digit, dtype) for digit in [*digits, rest]]


def _by_digits(
    lhs: jax.Array,
    rhs: jax.Array,
    level: grids.Level,
    product: Product,
    dtype: Any,
    accumulator: Any,
    *,
    limit: int,
) -> Total:
    if product.terms > limit and not product.can_cut:
        return float64(lhs, rhs, level, product)
    left, right = (
        _digits(arithmetic.finite_or_zero(value), _digits_of(bits), dtype)
        for value, bits in ((lhs, level.row), (rhs, level.column))
    )
    parts = [
        (_DIGIT * (i + j), _as_int64(product(a, b, accumulator, limit)))
        for i, a in enumerate(left)
        for j, b in enumerate(right)
    ]
    return _total(parts, 2 * _DIGIT if _is_wide(level) else 0)


def _digits_of(bits: int) -> int:
    """Returns the least number of digits that hold every integer up to 2**bits."""
    return (bits + 1) // _DIGIT + 1


def _is_wide(level: grids.Level) -> bool:
    """Returns whether int64 does not hold every sum."""
    return level.total + level.column > FLOAT64_BITS


def _as_int64(value: jax.Array) -> jax.Array:
    return lax.convert_element_type(value, np.int64)


def _total(parts: list[tuple[int, jax.Array]], shift: int) -> Total:
    """Adds ``value * 2**exponent`` over parts. Intermediate overflow is harmless: int64 wraps."""
    high = _shifted_sum([(by - shift, part) for by, part in parts if by >= shift])
    if shift == 0:
        return Total(high)
    low = _shifted_sum([(by, part) for by, part in parts if by < shift])
    carry = lax.shift_right_arithmetic(low, lax.full_like(low, shift))
    low = lax.bitwise_and(low, lax.full_like(low, (1 << shift) - 1))
    return Total(lax.add(high, carry), low, shift)


def _shifted_sum(parts: list[tuple[int, jax.Array]]) -> jax.Array:
    terms = [lax.shift_left(part, lax.full_like(part, by)) for by, part in parts]
    return functools.reduce(lax.add, terms)


def _as_float64(total: Total, *, is_wide: bool) -> jax.Array:
    """Returns integers as float64: the nearest if ``is_wide``, and otherwise rounded to odd.

    A value that is rounded to odd, to 26 bits or more, and then to 24 bits or fewer, is the value
    that one rounding gives (Boldo and Melquiond 2008, doi:10.1109/TC.2007.70819).
    """
    high, shift = total.high, total.shift
    low = lax.full_like(high, 0) if total.low is None else total.low
    cut = lax.full_like(high, 11)
    top = lax.shift_right_arithmetic(high, cut)
    middle = lax.sub(high, lax.shift_left(top, cut))
    bottom = lax.add(lax.shift_left(middle, lax.full_like(high, shift)), low)
    if is_wide:
        return _nearest(top, bottom, 11 + shift)
    sticky = lax.convert_element_type(lax.ne(bottom, lax.full_like(bottom, 0)), np.int64)
    odd = _nearest(lax.bitwise_or(top, sticky), lax.full_like(top, 0), 11 + shift)
    is_small = lax.lt(lax.abs(top), lax.full_like(top, 1 << 26))
    return lax.select(is_small, _nearest(top, bottom, 11 + shift), odd)


def _nearest(high: jax.Array, low: jax.Array, shift: int) -> jax.Array:
    """Returns ``high * 2**shift + low``, rounded once, of integers that float64 holds."""
    wide = lax.convert_element_type(high, np.float64)
    wide = lax.mul(wide, lax.full_like(wide, 2.0**shift))
    return lax.add(wide, lax.convert_element_type(low, np.float64))
