"""pow, integer_pow and cbrt.

x**y is exp(y * log(x)) in float64, which is accurate to about 2**-43 of itself. That rounds
correctly to 24 bits, except where x**y lies halfway between two float32, such as 4097**2 =
16785409. Such powers have at most 25 bits, so a result that is nearly a number of 25 bits becomes
that number.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact.arithmetic import narrow, nearest_integer, product, seal, widen
from impl._exact.elementary._words import (
    NARROW,
    constant,
    has_sign,
    is_below,
    require,
    rounded_once,
    wide_quotient,
    with_sign,
)
from impl._exact.elementary.exponentials import wide_exp
from impl._exact.elementary.logarithms import wide_log

_DOUBLE = np.dtype(np.float64)
#: The number of bits of the significand of a float32, and one more for the middle of two float32.
_SHORT_BITS = 25
#: The greatest error of a power, in units in the last place of float64.
_NEARLY = 1 << 10


def pow(x: jax.Array, y: jax.Array, **_: object) -> jax.Array:
    """Returns ``x`` to the power of ``y``, with the special values of IEEE 754.

    The error is at most 0.5001 units in the last place.

    Args:
        x: Any shape; float32, float16 or bfloat16.
        y: The same shape; the same dtype, or integers.

    Raises:
        TypeError: Another dtype.
    """
    if jnp.issubdtype(y.dtype, jnp.integer):
        dtype = require(NARROW, x)
        is_odd = lax.ne(lax.bitwise_and(y, lax.full_like(y, 1)), lax.full_like(y, 0))
        exponent = lax.convert_element_type(y, np.float64)
        whole = lax.full_like(is_odd, True)
        return narrow(_power(widen(x), exponent, whole, is_odd), dtype)
    return rounded_once(_wide_pow, x, y)


def _wide_pow(x: jax.Array, y: jax.Array) -> jax.Array:
    whole = lax.eq(nearest_integer(y), y)
    half = lax.mul(y, constant(y, 0.5))
    is_odd = lax.bitwise_and(whole, lax.ne(nearest_integer(half), half))
    return _power(x, y, whole, is_odd)


def _power(x: jax.Array, y: jax.Array, whole: jax.Array, is_odd: jax.Array) -> jax.Array:
    """Returns x**y of float64.

    Args:
        x: The base.
        y: The exponent.
        whole: Whether the exponent is an integer, or infinite.
        is_odd: Whether the exponent is an odd integer.
    """
    zero, one, infinity = constant(x, 0), constant(x, 1), constant(x, np.inf)
    magnitude = lax.abs(x)
    is_usual = lax.bitwise_and(lax.gt(magnitude, zero), lax.lt(magnitude, infinity))
    logarithm = wide_log(lax.select(is_usual, magnitude, one))
    # A product of infinity and log(1) = 0 would be NaN.
    bounded = lax.clamp(np.float64(-1e30), y, np.float64(1e30))
    result = _with_exact_values(wide_exp(product(logarithm, bounded)))
    # A power of zero or infinity is zero or infinity, by the signs of log(x) and y.
    grows = lax.eq(lax.gt(magnitude, one), lax.gt(y, zero))
    result = lax.select(is_usual, result, lax.select(grows, infinity, zero))
    is_negative = has_sign(x)
    result = lax.select(lax.bitwise_and(is_negative, is_odd), lax.neg(result), result)
    has_no_value = lax.bitwise_and(lax.lt(x, zero), lax.bitwise_not(whole))
    has_no_value = lax.bitwise_and(has_no_value, is_usual)
    is_nan = lax.bitwise_or(lax.ne(x, x), lax.ne(y, y))
    result = lax.select(lax.bitwise_or(has_no_value, is_nan), constant(x, np.nan), result)
    return lax.select(lax.bitwise_or(lax.eq(x, one), lax.eq(y, zero)), one, result)


def _with_exact_values(power: jax.Array) -> jax.Array:
    """Returns a float64, or the number of 25 bits that is nearly equal to it."""
    raw = lax.bitcast_convert_type(power, np.int64)
    lost = 53 - _SHORT_BITS
    half = lax.full_like(raw, 1 << (lost - 1))
    short = lax.bitwise_and(lax.add(raw, half), lax.full_like(raw, -1 << lost))
    is_near = lax.lt(lax.abs(lax.sub(raw, short)), lax.full_like(raw, _NEARLY))
    return lax.select(is_near, lax.bitcast_convert_type(short, np.float64), power)


def integer_pow(x: jax.Array, *, y: int, **_: object) -> jax.Array:
    """Returns ``x`` to the power of an integer, by squaring in float64.

    The error is at most 0.5 units in the last place, and 2**-29 more for each factor. In float64,
    the error is about half a unit for each factor.

    Args:
        x: Any shape; float32, float16, bfloat16 or float64.
        y: The exponent.

    Raises:
        TypeError: Another dtype.
    """
    dtype = require((*NARROW, _DOUBLE), x)
    if dtype == _DOUBLE:
        return _by_squaring(x, y)
    return rounded_once(lambda wide: _by_squaring(wide, y), x)


def _by_squaring(x: jax.Array, y: int) -> jax.Array:
    rest = abs(y)
    result = None
    while rest:
        if rest & 1:
            result = x if result is None else product(result, x)
        rest >>= 1
        if rest:
            x = product(x, x)
    if result is None:
        return constant(x, 1)
    return seal(result) if y > 0 else wide_quotient(constant(x, 1), result)


def cbrt(x: jax.Array, **_: object) -> jax.Array:
    """Returns the cube root, rounded once from float64.

    Args:
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    return rounded_once(_wide_cube_root, x)


def _wide_cube_root(x: jax.Array) -> jax.Array:
    magnitude = lax.abs(x)
    is_usual = lax.gt(magnitude, constant(x, 0))
    is_usual = lax.bitwise_and(is_usual, is_below(magnitude, np.inf))
    usual = lax.select(is_usual, magnitude, constant(x, 1))
    result = wide_exp(product(wide_log(usual), constant(x, 1 / 3)))
    return with_sign(lax.select(is_usual, result, magnitude), x)
