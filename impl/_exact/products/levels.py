"""The grids on which products of matrices are exact: powers of two, and bits of precision.

The technique is Ozaki splitting (Ozaki, Ogita, Oishi and Rump 2012,
doi:10.1007/s11075-011-9478-1): factors become integers of so few bits that a library adds their
products without error, in any order. The order ``exact_product`` of the spec states the rule.
Each contracted index k has a *scale*, the power of two above its right factors. The scale moves
from the right factor into the left one, so that a zero term changes no grid: a[i, k] * b[k, j] is
(a[i, k] * scale[k]) * (b[k, j] / scale[k]). Each row of the scaled left factor has one *unit*::

    a, b                3.0 0.001, 5.0 1000.0          the result is 3.0 * 5.0 + 0.001 * 1000.0
    scales              8, 1024                        from b
    right integers      5242880, 8192000               5.0 / 8 and 1000.0 / 1024, in units of 2**-23
    scaled a            24.0, 1.024                    M is 32
    left integers       805306368, 34359740            in units of M / 2**30
    result              805306368 * 5242880 + 34359740 * 8192000, in units of 2**-48: 16.0
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

from impl._exact import arithmetic
from impl._exact.arithmetic import finite_or_zero

#: A power of two below all products of float32.
_LEAST = 2.0**-513
#: The number of bits of the significand of a float64, and the bias of its exponent.
_SIGNIFICAND, _BIAS = 52, 1023
#: The bits to which magnitudes are rounded up before they are added.
_MAGNITUDE = 14


@dataclasses.dataclass(frozen=True)
class Level:
    """A level of precision: the integers to which the factors of a product are rounded.

    Let M be the power of two above the greatest magnitude of a row of the left factor, and S the
    one above the sum of its magnitudes. The row's unit is ``min(S / 2**total, M / 2**least)``, but
    not below ``M / 2**row``. So the magnitudes of the row's integers add up to at most 2**total, or
    each integer has at most ``least`` bits. ``engines`` derives exact sums from this.

    Attributes:
        column: The bits of the integers of the right factor.
        row: The greatest number of bits of the integers of the left factor.
        least: The bits that integers of the left factor may have, whatever their sum is.
        total: The bits of the sum of a row's integers, if the integers have more than ``least``.
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
    spare = math.ceil(math.log2(terms))
    if is_highest(precision):
        return Level(29, 30, min(27, 47 - spare), 38)
    if all(jnp.dtype(dtype).itemsize <= 2 for dtype in dtypes):
        return Level(14, 14, 14, 14)
    return Level(23, 30, min(17, 39 - spare), 30)


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
    """Returns the greatest powers of two that are not above the greatest magnitudes along axes.

    Args:
        value: Any shape, float32. Subnormals, infinities and NaNs count as zero.
        axes: The axes; the result has the other axes.
        scales: The factors of elements, applied first: powers of two, or zero, float64.

    Returns:
        float64; 0 for zeros alone.
    """
    # A maximum of floats that are not NaN is the same in every order.
    magnitude = _magnitude(value) if scales is None else _scaled(value, scales)
    greatest = _power(lax.reduce_max(magnitude, tuple(axes)))
    return lax.convert_element_type(greatest, np.float64)


def magnitudes(value: jax.Array, scales: jax.Array, row_power: jax.Array) -> jax.Array:
    """Returns integers above scaled magnitudes, and zero for zeros, as float64.

    Sums of these integers are exact. An integer is at least 2 above the magnitude, since a factor
    may grow when it is rounded, and once more when its limb is.

    Args:
        value: Any shape, float32.
        scales: The factor of each element: a power of two, or zero, float64.
        row_power: The powers of two below the rows' greatest magnitudes, of the same shape.
    """
    unit = reciprocal(_not_zero(row_power), _MAGNITUDE - 1)
    magnitude = lax.mul(_scaled(value, scales), unit)
    above = lax.add(lax.floor(magnitude), lax.full_like(magnitude, 3))
    zero = lax.full_like(magnitude, 0)
    return lax.select(lax.gt(magnitude, zero), above, zero)


def row_unit(row_power: jax.Array, sums: Callable[[], jax.Array], level: Level) -> jax.Array:
    """Returns the factors that make integers of rows: powers of two, float64.

    Args:
        row_power: The powers of two below the rows' greatest magnitudes.
        sums: Returns the greatest sums of ``magnitudes``.
        level: The level.
    """
    row_power = _not_zero(row_power)
    if level.row == level.least:
        return reciprocal(row_power, level.least - 1)
    # A row without a finite number has the sum 0. Its unit does not matter.
    above = sums()
    above = _power(lax.max(above, lax.full_like(above, 1)))
    by_sum = reciprocal(above, _MAGNITUDE + level.total - 1)
    by_sum = lax.max(by_sum, lax.full_like(by_sum, 2.0**level.least))
    by_sum = lax.min(by_sum, lax.full_like(by_sum, 2.0**level.row))
    return lax.mul(reciprocal(row_power, -1), by_sum)


def column_unit(column_power: jax.Array, level: Level) -> jax.Array:
    """Returns the factors that make integers of columns: powers of two, float64.

    Args:
        column_power: The powers of two below the columns' greatest magnitudes.
        level: The level.
    """
    return reciprocal(_not_zero(column_power), level.column - 1)


def product_unit(row_unit: jax.Array, level: Level) -> jax.Array:
    """Returns the unit of the products of integers: a power of two, float64.

    Args:
        row_unit: ``row_unit`` of the row of each product.
        level: The level.
    """
    return reciprocal(row_unit, 1 - level.column)


def integers(value: jax.Array, *scales: jax.Array) -> jax.Array:
    """Returns the nearest integers of scaled elements, as float64.

    Args:
        value: Any shape, float32. Subnormals count as zero; infinities and NaNs stay.
        scales: Powers of two, or zero, float64, of the same shape.
    """
    return arithmetic.nearest_integer(functools.reduce(lax.mul, scales, arithmetic.widen(value)))


def reciprocal(power: jax.Array, exponent: int = 0) -> jax.Array:
    """Returns ``2**exponent / power`` of powers of two, float64, where that is a normal number."""
    raw = lax.bitcast_convert_type(power, np.int64)
    one = lax.full_like(raw, (2 * _BIAS + exponent) << _SIGNIFICAND)
    return lax.bitcast_convert_type(lax.sub(one, raw), np.float64)


def _power(magnitude: jax.Array) -> jax.Array:
    """Returns the greatest power of two not above each magnitude; 0 for zero and subnormals."""
    word = np.dtype(f"int{8 * magnitude.dtype.itemsize}")
    raw = lax.bitcast_convert_type(magnitude, word)
    infinity = lax.bitcast_convert_type(lax.full_like(magnitude, np.inf), word)
    return lax.bitcast_convert_type(lax.bitwise_and(raw, infinity), magnitude.dtype)


def _not_zero(power: jax.Array) -> jax.Array:
    """Returns a power of two; for 0, a power of two below all products of float32."""
    return lax.max(power, lax.full_like(power, _LEAST))


def special_factor(value: jax.Array) -> jax.Array:
    """Returns the sign of each float, and infinities and NaNs as they are, as float32.

    A sum of products of these factors is infinite or NaN where the sum of products of the elements
    is, and is the same in every order.
    """
    sign = lax.convert_element_type(lax.sign(finite_or_zero(value)), np.float32)
    return lax.select(_is_special(value), lax.convert_element_type(value, np.float32), sign)


def with_specials(result: jax.Array, sums: jax.Array) -> jax.Array:
    """Returns ``sums`` where they are infinite or NaN, and ``result`` elsewhere."""
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
    """Returns the magnitudes of float32, and zeros for infinities and NaNs."""
    return lax.abs(finite_or_zero(value))


def _scaled(value: jax.Array, scales: jax.Array) -> jax.Array:
    """Returns the magnitudes of float32, times scales, as float64."""
    return lax.mul(arithmetic.widen(_magnitude(value)), scales)
