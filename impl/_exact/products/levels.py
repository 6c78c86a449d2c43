"""The grids on which products are exact: their exponents, and the number of their bits.

A factor of a product is rounded to an integer of some bits, in units of a power of two: one for
each index that is added over, which moves from the right factor into the left one, and one for
each row of the left factor. So a term of zero changes no grid. The order ``exact_product`` states
the rule.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import spec
from impl._exact import arithmetic
from impl._exact.arithmetic import finite_or_zero

#: A power of two below all products of float32.
_LEAST = 2.0**-513
#: The bits of the significand of a float64, and what its exponent has added.
_SIGNIFICAND, _BIAS = 52, 1023
#: The bits to which magnitudes are rounded up before they are added.
_MAGNITUDE = 14


@dataclasses.dataclass(frozen=True)
class Level:
    """A level of precision: the integers to which the factors of a product are rounded.

    A row of the left factor has a greatest magnitude M and a greatest sum S of magnitudes. Its unit
    is ``min(S / 2**total, M / 2**least)``, but not below ``M / 2**row``. So its integers times
    those of a column add up to 2**(total + column) at most, or they have ``least`` bits.

    Attributes:
        column: The bits of the integers of the right factor.
        row: The most bits of the integers of the left factor.
        least: Bits that the integers of the left factor may have in any case.
        total: The bits of the sum of the integers of a row, if there are more than ``least``.
    """

    column: int
    row: int
    least: int
    total: int


def level_of(terms: int, dtypes: Sequence[Any], precision: Any) -> Level:
    """Returns the level of a product.

    Args:
        terms: The number of terms of a sum, at least 1.
        dtypes: The dtypes of both operands and of the result.
        precision: The precision of the equation, as ``jax.lax`` has it.
    """
    bits = spec.load().orders["exact_product"].parameters
    spare = math.ceil(math.log2(terms))
    if is_highest(precision):
        return Level(bits["fine"], bits["row"], min(27, 47 - spare), 38)
    if all(jnp.dtype(dtype).itemsize <= 2 for dtype in dtypes):
        return Level(bits["narrow"], bits["narrow"], bits["narrow"], bits["narrow"])
    return Level(bits["coarse"], bits["row"], min(17, 39 - spare), 30)


def is_highest(precision: Any) -> bool:
    """Returns whether an equation asks for the highest precision of either operand."""
    both = precision if isinstance(precision, tuple) else (precision,)
    return lax.Precision.HIGHEST in both or "highest" in both


def factor(value: jax.Array) -> jax.Array:
    """Returns a factor as float32, without a change of its value.

    Args:
        value: Any shape: a float of 32 bits or fewer, an integer of 16 bits or fewer, or bool.

    Raises:
        TypeError: float32 does not hold every value of the dtype.
    """
    dtype = value.dtype
    if dtype == np.float32:
        return value
    is_float = jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4
    is_integer = jnp.issubdtype(dtype, jnp.integer) and dtype.itemsize < 4
    if not is_float and not is_integer and dtype != np.bool_:
        raise TypeError(f"an exact product takes floats of 32 bits or fewer, not {dtype}")
    return lax.convert_element_type(value, np.float32)


def has_special(*values: jax.Array) -> jax.Array:
    """Returns whether any element of floats is infinite or NaN, as a scalar."""
    found = [special_along(value, tuple(range(value.ndim))) for value in values]
    return functools.reduce(lax.bitwise_or, found)


def special_along(value: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Returns whether any element along some axes is infinite or NaN."""
    # A CPU has a fast maximum of floats, and none of bools.
    one = lax.full(value.shape, 1, np.float32)
    found = lax.select(_is_special(value), one, lax.full_like(one, 0))
    greatest = lax.reduce_max(found, tuple(axes))
    return lax.gt(greatest, lax.full_like(greatest, 0))


def power_below(
    value: jax.Array, axes: Sequence[int], scales: jax.Array | None = None
) -> jax.Array:
    """Returns the greatest powers of two that no largest magnitude along some axes is below.

    Args:
        value: Any shape, float32. What is subnormal, infinite or NaN counts as zero.
        axes: The axes; the result has the others.
        scales: What each element is multiplied by first: powers of two, or zero, float64.

    Returns:
        float64; 0 for zeros alone.
    """
    # A maximum of floats that are not NaN is the same in every order.
    magnitude = _magnitude(value) if scales is None else _scaled(value, scales)
    greatest = _power(lax.reduce_max(magnitude, tuple(axes)))
    return lax.convert_element_type(greatest, np.float64)


def magnitudes(value: jax.Array, scales: jax.Array, row: jax.Array) -> jax.Array:
    """Returns integers above scaled magnitudes, and zero for zeros, as float64.

    Their sums are exact. An integer is at least 2 above the magnitude, since a factor may grow
    where it, and then its limb, is rounded.

    Args:
        value: Any shape, float32.
        scales: What each element is multiplied by: powers of two, or zero, float64.
        row: The power of two below the rows' greatest magnitudes, of the same shape.
    """
    unit = reciprocal(_not_zero(row), _MAGNITUDE - 1)
    magnitude = lax.mul(_scaled(value, scales), unit)
    above = lax.add(lax.floor(magnitude), lax.full_like(magnitude, 3))
    zero = lax.full_like(magnitude, 0)
    return lax.select(lax.gt(magnitude, zero), above, zero)


def row_unit(row: jax.Array, sums: Callable[[], jax.Array], level: Level) -> jax.Array:
    """Returns what rows are multiplied by to become integers: powers of two, float64.

    Args:
        row: The powers of two below the rows' greatest magnitudes.
        sums: Returns the greatest sums of ``magnitudes``.
        level: The level.
    """
    row = _not_zero(row)
    if level.row == level.least:
        return reciprocal(row, level.least - 1)
    # A row without a finite number has no sum, and any unit will do.
    above = sums()
    above = _power(lax.max(above, lax.full_like(above, 1)))
    by_sum = reciprocal(above, _MAGNITUDE + level.total - 1)
    by_sum = lax.max(by_sum, lax.full_like(by_sum, 2.0**level.least))
    by_sum = lax.min(by_sum, lax.full_like(by_sum, 2.0**level.row))
    return lax.mul(reciprocal(row, -1), by_sum)


def column_unit(column: jax.Array, level: Level) -> jax.Array:
    """Returns what columns are multiplied by to become integers: powers of two, float64.

    Args:
        column: The powers of two below the columns' greatest magnitudes.
        level: The level.
    """
    return reciprocal(_not_zero(column), level.column - 1)


def product_unit(row: jax.Array, level: Level) -> jax.Array:
    """Returns the unit of the products of integers: a power of two, float64.

    Args:
        row: ``row_unit`` of each product, where the scales of an index were powers below.
        level: The level.
    """
    return reciprocal(row, 1 - level.column)


def integers(value: jax.Array, *scales: jax.Array) -> jax.Array:
    """Returns the nearest integers of scaled elements, as float64.

    Args:
        value: Any shape, float32. A subnormal number counts as zero; what is infinite or NaN stays.
        scales: Powers of two, or zero, float64, of the same shape.
    """
    return arithmetic.nearest_integer(functools.reduce(lax.mul, scales, arithmetic.widen(value)))


def reciprocal(power: jax.Array, exponent: int = 0) -> jax.Array:
    """Returns ``2**exponent / power`` of powers of two, float64, where that is a normal number."""
    raw = lax.bitcast_convert_type(power, np.int64)
    one = lax.full_like(raw, (2 * _BIAS + exponent) << _SIGNIFICAND)
    return lax.bitcast_convert_type(lax.sub(one, raw), np.float64)


def _power(magnitude: jax.Array) -> jax.Array:
    """Returns the greatest power of two that no magnitude is below; 0 for zero and subnormals."""
    word = np.dtype(f"int{8 * magnitude.dtype.itemsize}")
    raw = lax.bitcast_convert_type(magnitude, word)
    infinity = lax.bitcast_convert_type(lax.full_like(magnitude, np.inf), word)
    return lax.bitcast_convert_type(lax.bitwise_and(raw, infinity), magnitude.dtype)


def _not_zero(power: jax.Array) -> jax.Array:
    """Returns a power of two, and for 0 one that is below those of all products."""
    return lax.max(power, lax.full_like(power, _LEAST))


def special_factor(value: jax.Array) -> jax.Array:
    """Returns the sign of each float, and infinities and NaNs as they are, as float32.

    A sum of products of these is finite, infinite or NaN as that of the elements is, and the same
    in every order.
    """
    sign = lax.convert_element_type(lax.sign(finite_or_zero(value)), np.float32)
    return lax.select(_is_special(value), lax.convert_element_type(value, np.float32), sign)


def with_specials(result: jax.Array, sums: jax.Array) -> jax.Array:
    """Returns ``reduction`` where these are infinite or NaN, and ``result`` elsewhere."""
    special = lax.convert_element_type(sums, result.dtype)
    return lax.select(lax.is_finite(sums), result, special)


def spread(value: jax.Array, shape: Sequence[int], where: Mapping[int, int]) -> jax.Array:
    """Broadcasts an array to ``shape``, dimension d of it becoming dimension ``where[d]``."""
    order = sorted(range(value.ndim), key=lambda d: where[d])
    moved = lax.transpose(value, order)
    return lax.broadcast_in_dim(moved, tuple(shape), tuple(where[d] for d in order))


def _is_special(value: jax.Array) -> jax.Array:
    return lax.bitwise_not(lax.is_finite(value))


def _magnitude(value: jax.Array) -> jax.Array:
    """Returns the magnitudes of float32, and zeros for what is infinite or NaN."""
    return lax.abs(finite_or_zero(value))


def _scaled(value: jax.Array, scales: jax.Array) -> jax.Array:
    """Returns the magnitudes of float32, times scales, as float64."""
    return lax.mul(arithmetic.widen(_magnitude(value)), scales)
