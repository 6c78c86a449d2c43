"""sqrt, rsqrt and division.

A root of float64 with 53 bits rounds to 24 bits as the exact root does, since 53 >= 2 * 24 + 2
(Figueroa 1995, *When is double rounding innocuous?*). So does a quotient, also where XLA multiplies
by a reciprocal, which changes the last two bits of a float64: of operands with 24 bits, no quotient
is nearer to the middle between two float32 than 2**-50 of itself. The remainder corrects the last
bits of a quotient of float64.
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
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    return rounded_once(lambda x: wide_quotient(constant(x, 1), wide_root(x)), x)


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
    return rounded_once(lax.div, a, b)
