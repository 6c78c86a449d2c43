"""sqrt, rsqrt and division.

A root of float64 with 53 bits rounds to 24 bits as the exact root does, since 53 >= 2 * 24 + 2
(Figueroa 1995, *When is double rounding innocuous?*). A quotient would too, but XLA may compute it
by a reciprocal, with two roundings, so its last bits are corrected by the remainder.
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from impl._core import numerics
from impl._exact.elementary._words import (
    NARROW,
    constant,
    require,
    rounded_once,
    wide_quotient,
    wide_root,
)

_DOUBLE = np.dtype(np.float64)
#: The number of bits of the first quotient, whose product with a float32 is exact in float64.
_QUOTIENT_BITS = 29


def sqrt(x: jax.Array, **_: object) -> jax.Array:
    """Returns the square root, rounded to nearest. The root of -0 is -0.

    Args:
        x: Any shape; float32, float16, bfloat16 or float64.

    Raises:
        TypeError: Another dtype.
    """
    dtype = require((*NARROW, _DOUBLE), x)
    return wide_root(x) if dtype == _DOUBLE else rounded_once(wide_root, x)


def rsqrt(x: jax.Array, **_: object) -> jax.Array:
    """Returns 1 / sqrt(x). For a zero it is infinity with the sign of the zero.

    Args:
        x: Any shape; float32, float16 or bfloat16, rounded to nearest, or float64, with one
        rounding
            of the root and one of the quotient.

    Raises:
        TypeError: Another dtype.
    """
    dtype = require((*NARROW, _DOUBLE), x)
    return _inverse_root(x) if dtype == _DOUBLE else rounded_once(_inverse_root, x)


def _inverse_root(x: jax.Array) -> jax.Array:
    return wide_quotient(constant(x, 1), wide_root(x))


def div(a: jax.Array, b: jax.Array, **_: object) -> jax.Array:
    """Returns ``a / b``, rounded to nearest.

    Args:
        a: Any shape; float32, float16, bfloat16 or float64.
        b: The same shape and dtype.

    Raises:
        TypeError: Another dtype, or several.
    """
    if require((*NARROW, _DOUBLE), a, b) == _DOUBLE:
        return numerics.quotient(a, b)
    return rounded_once(_quotient_of_narrow, a, b)


def _quotient_of_narrow(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns a number that rounds to 24 bits or fewer as ``a / b`` does, for operands of 24 bits.

    The device's quotient is rounded to 29 bits. The product of that with ``b`` is exact, so that
    the sign of the remainder is right. It moves the last of 53 bits, as a sticky bit does.
    """
    near = wide_quotient(a, b)
    raw = lax.bitcast_convert_type(near, np.int64)
    lost = 53 - _QUOTIENT_BITS
    half = lax.full_like(raw, 1 << (lost - 1))
    raw = lax.bitwise_and(lax.add(raw, half), lax.full_like(raw, -1 << lost))
    short = lax.bitcast_convert_type(raw, np.float64)
    rest = lax.sub(a, lax.mul(short, b))
    # Where the magnitude of the quotient is too small, the remainder has the sign of a.
    step = lax.convert_element_type(lax.mul(lax.sign(rest), lax.sign(a)), np.int64)
    mended = lax.bitcast_convert_type(lax.add(raw, step), np.float64)
    usual = lax.bitwise_and(lax.is_finite(near), lax.is_finite(rest))
    usual = lax.bitwise_and(usual, lax.gt(lax.abs(near), constant(near, 0)))
    return lax.select(usual, mended, near)
