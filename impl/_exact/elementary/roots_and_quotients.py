"""sqrt, rsqrt and division."""

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
#: The quotient is first rounded to so many bits, so that its product with a float32 is exact.
_QUOTIENT_BITS = 29


def sqrt(x: jax.Array, **_: object) -> jax.Array:
    """Returns the square root, rounded to nearest. That of -0 is -0.

    Args:
        x: Any shape; float32, float16, bfloat16 or float64.

    Raises:
        TypeError: Another dtype.
    """
    dtype = require((*NARROW, _DOUBLE), x)
    return wide_root(x) if dtype == _DOUBLE else rounded_once(wide_root, x)


def rsqrt(x: jax.Array, **_: object) -> jax.Array:
    """Returns 1 / sqrt(x). That of a zero is infinity with its sign.

    Args:
        x: Any shape; float32, float16 or bfloat16, rounded to nearest, or float64, where the root
            and the quotient are rounded each.

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
    """Returns what rounds to at most 24 bits as the quotient does, of operands of 24 bits.

    XLA may multiply by the reciprocal instead of dividing, with two roundings. Here the quotient is
    rounded to few bits, and the sign of the remainder, whose product is exact, adds one last bit.
    """
    near = wide_quotient(a, b)
    raw = lax.bitcast_convert_type(near, np.int64)
    lost = 53 - _QUOTIENT_BITS
    half = lax.full_like(raw, 1 << (lost - 1))
    raw = lax.bitwise_and(lax.add(raw, half), lax.full_like(raw, -1 << lost))
    short = lax.bitcast_convert_type(raw, np.float64)
    rest = lax.sub(a, lax.mul(short, b))
    # A quotient whose magnitude is too small has a rest of the sign of a.
    step = lax.convert_element_type(lax.mul(lax.sign(rest), lax.sign(a)), np.int64)
    mended = lax.bitcast_convert_type(lax.add(raw, step), np.float64)
    usual = lax.bitwise_and(lax.is_finite(near), lax.is_finite(rest))
    usual = lax.bitwise_and(usual, lax.gt(lax.abs(near), constant(near, 0)))
    return lax.select(usual, mended, near)
