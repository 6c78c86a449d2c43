"""The grids on which products are exact: their exponents, and the number of their bits.

A factor of a product is rounded to an integer of some bits, in units of a power of two: one for
each index that is added over, which moves from the right factor into the left one, and one for
each row of the left factor. So a term of zero changes no grid. The order ``exact_product`` states
the rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import spec
from impl._exact import arithmetic

#: The bits of an integer that float64 holds, and of the sums of coarse and of fine products.
FLOAT64_BITS = 53
_COARSE_SUM, _FINE_SUM = 62, 76
#: The exponent of no number. The sum of two is an int32, and is below that of every product.
ABSENT = -(2**20)
#: A float32 has 23 bits of fraction, 8 of exponent, and this bias of an exponent above it.
_FRACTION, _SPECIAL, _BIAS = 23, 255, 126


def bits_of(terms: int, dtypes: Sequence[Any], precision: Any) -> int:
    """Returns the bits of the integers that the factors of a product are rounded to.

    Args:
        terms: The number of terms of a sum, at least 1.
        dtypes: The dtypes of both operands and of the result.
        precision: The precision of the equation, as ``jax.lax`` has it.
    """
    parameters = spec.load().orders["exact_product"].parameters
    log = math.ceil(math.log2(terms))
    if is_highest(precision):
        return min(parameters["fine"], (_FINE_SUM - log) // 2)
    most = (_COARSE_SUM - log) // 2
    if all(jnp.dtype(dtype).itemsize <= 2 for dtype in dtypes):
        return min(parameters["narrow"], most)
    bits = max(parameters["least"], (FLOAT64_BITS - log) // 2)
    return min(parameters["coarse"], bits, most)


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
    """Returns whether any element of float32 arrays is infinite or NaN, as a scalar."""
    found = [lax.reduce_max(_field(value), tuple(range(value.ndim))) for value in values]
    greatest = lax.max(*found) if len(found) == 2 else found[0]
    return lax.eq(greatest, np.int32(_SPECIAL))


def exponents(value: jax.Array, add: jax.Array | int = 0) -> jax.Array:
    """Returns an int32 for each element: the least e for which ``abs(element) < 2**e``.

    Args:
        value: Any shape, float32.
        add: What is added to each exponent; int32.

    Returns:
        The shape of ``value``. What is zero, subnormal, infinite or NaN is ABSENT, and so is what
        ``add`` makes absent, or less.
    """
    field = _field(value)
    result = lax.add(field, lax.sub(_like(field, add), lax.full_like(field, _BIAS)))
    return lax.select(_is_usual(field), result, lax.full_like(field, ABSENT))


def integers(value: jax.Array, *scales: jax.Array) -> jax.Array:
    """Returns the nearest integers of scaled elements, as float64. Zero for what is not finite.

    Args:
        value: Any shape, float32.
        scales: Powers of two, float64, of the same shape.
    """
    usual = lax.select(_is_usual(_field(value)), value, lax.full_like(value, 0))
    result = lax.convert_element_type(usual, np.float64)
    for scale in scales:
        result = lax.mul(result, scale)
    return arithmetic.nearest_integer(result)


def scale(exponent: jax.Array) -> jax.Array:
    """Returns 2 to the power of an int32, as float64, and 0 where it is absent."""
    is_absent = lax.lt(exponent, lax.full_like(exponent, arithmetic.MIN_EXPONENT))
    known = lax.select(is_absent, lax.full_like(exponent, 0), exponent)
    result = arithmetic.power_of_two(known)
    return lax.select(is_absent, lax.full_like(result, 0), result)


def special_factor(value: jax.Array) -> jax.Array:
    """Returns the sign of each element as float32, and infinities and NaNs as they are.

    A sum of products of these is finite, infinite or NaN as that of the elements is, and the same
    in every order.
    """
    field = _field(value)
    sign = lax.select(_is_usual(field), lax.sign(value), lax.full_like(value, 0))
    return lax.select(lax.eq(field, lax.full_like(field, _SPECIAL)), value, sign)


def spread(value: jax.Array, shape: Sequence[int], where: Mapping[int, int]) -> jax.Array:
    """Broadcasts an array to ``shape``, dimension d of it becoming dimension ``where[d]``."""
    order = sorted(range(value.ndim), key=lambda d: where[d])
    moved = lax.transpose(value, order)
    return lax.broadcast_in_dim(moved, tuple(shape), tuple(where[d] for d in order))


def _field(value: jax.Array) -> jax.Array:
    """Returns the field of the exponent of each float32: 0 for zeros, 255 for specials."""
    raw = lax.bitcast_convert_type(value, np.int32)
    shifted = lax.shift_right_logical(raw, lax.full_like(raw, _FRACTION))
    return lax.bitwise_and(shifted, lax.full_like(raw, _SPECIAL))


def _is_usual(field: jax.Array) -> jax.Array:
    some = lax.gt(field, lax.full_like(field, 0))
    return lax.bitwise_and(some, lax.lt(field, lax.full_like(field, _SPECIAL)))


def _like(field: jax.Array, value: jax.Array | int) -> jax.Array:
    return lax.full_like(field, value) if isinstance(value, int) else value
