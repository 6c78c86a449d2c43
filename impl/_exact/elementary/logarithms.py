"""log, log1p and log2.

log(x) is k * log(2) + log(m) with x = 2**k * m and m from sqrt(1/2) to sqrt(2). As in
``exponentials``, log(2) is a sum of two parts, the first of which has an exact product with k (Cody
and Waite 1980). With f = m - 1, log(m) is f - f**2 / 2 + f**3 * polynomial(f)::

    x = 10      k = 3, m = 1.25, f = 0.25, log(10) = 3 * log(2) + 0.22314... = 2.30258...
"""

from __future__ import annotations

import math

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import narrow, product, seal
from impl._exact.elementary._exceptions import mended
from impl._exact.elementary._words import (
    NARROW,
    Wide,
    constant,
    data,
    is_below,
    plus,
    polynomial,
    require,
)
from impl._exact.elementary.roots_and_quotients import div

_TINY = 2.0**-126
_TINY_DOUBLE = 2.0**-1022


def log(x: jax.Array, **_: object) -> jax.Array:
    """Returns the natural logarithm of ``x``.

    Sums of the float64 use products that are not sealed: the exhaustive test proves that no float32
    depends on their contraction.

    Args:
        x: Any shape; float32, float16 or bfloat16, or float64, with an error of less than 2 units
            in the last place.

    Raises:
        TypeError: Another dtype.
    """
    if x.dtype == np.float64:
        return seal(_with_special_values(wide_log(x), x, _TINY_DOUBLE))
    dtype = require(NARROW, x)
    x = lax.convert_element_type(x, np.float32)
    k, m = parts(x)
    f = lax.convert_element_type(plus(m, -1.0), np.float64)
    y = _of_parts(f, lax.convert_element_type(k, np.float64), product=lax.mul)
    if dtype != np.float32:
        return _with_special_values(narrow(y, dtype), x, _TINY)
    y = mended("log", lax.convert_element_type(y, dtype), x)
    return seal(_with_special_values(y, x, _TINY))


def _with_special_values(y: jax.Array, x: jax.Array, tiny: float) -> jax.Array:
    """Returns the results ``y`` of log, replaced where log is infinite or NaN."""
    y = lax.select(is_below(x, np.inf), y, lax.convert_element_type(x, y.dtype))
    is_zero = lax.gt(x, constant(x, -tiny))
    otherwise = lax.select(is_zero, constant(y, -np.inf), constant(y, np.nan))
    return lax.select(lax.ge(x, constant(x, tiny)), y, otherwise)


def parts(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns k and m with x = 2**k * m and m from sqrt(1/2) to sqrt(2), for normal x."""
    info = np.finfo(x.dtype)
    word = np.dtype(f"int{info.bits}")
    raw = lax.bitcast_convert_type(x, word)
    low = int(np.sqrt(np.array(0.5, x.dtype)).view(word))
    fraction = lax.full_like(raw, info.nmant)
    k = lax.shift_right_arithmetic(lax.sub(raw, lax.full_like(raw, low)), fraction)
    m = lax.bitcast_convert_type(lax.sub(raw, lax.shift_left(k, fraction)), x.dtype)
    return k, m


def _of_parts(f: jax.Array, k: jax.Array, *, product: Wide = product) -> jax.Array:
    """Returns log(2**k * (1 + f)) for f from sqrt(1/2) - 1 to sqrt(2) - 1."""
    square = product(f, f)
    y = lax.sub(f, lax.mul(square, constant(f, 0.5)))
    more = product(product(square, f), polynomial(data.LOG, f, product=product))
    # The products with k are exact.
    more = lax.add(more, lax.mul(k, constant(k, data.LN2_LOW)))
    return lax.add(lax.mul(k, constant(k, data.LN2_HIGH)), lax.add(y, more))


def wide_log(x: jax.Array) -> jax.Array:
    """Returns the logarithm of a positive, finite float64."""
    k, m = parts(x)
    return _of_parts(plus(m, -1.0), lax.convert_element_type(k, np.float64))


def wide_log1p(x: jax.Array, *, product: Wide = product) -> jax.Array:
    """Returns log(1 + x) of float64, with its special values, unless x is near -1."""
    k, m = parts(plus(x, 1.0))
    # For small x, 1 + x is rounded. Then k is 0, and f is x itself.
    f = lax.select(lax.eq(k, lax.full_like(k, 0)), x, plus(m, -1.0))
    y = _of_parts(f, lax.convert_element_type(k, np.float64), product=product)
    y = lax.select(is_below(x, np.inf), y, x)
    y = lax.select(lax.eq(x, constant(x, -1)), constant(y, -np.inf), y)
    y = lax.select(is_below(x, -1), constant(y, np.nan), y)
    return lax.select(lax.eq(x, constant(x, 0)), x, y)


def log2(x: jax.Array, **_: object) -> jax.Array:
    """Returns log(x) / log(2), of which both are rounded to the dtype first.

    ``jnp.log2`` consists of these operations before jax 0.12, so each jax gives the same bits.

    Args:
        x: Any shape; float32, float16 or bfloat16, or float64, with the error of ``log``.

    Raises:
        TypeError: Another dtype.
    """
    return div(log(x), constant(x, math.log(2)))
