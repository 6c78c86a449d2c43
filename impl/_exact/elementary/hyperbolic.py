"""tanh, logistic, sinh, cosh, and the inverse hyperbolic functions.

They are formulas of e**x - 1 and log(1 + x), which lose no bits near 0: tanh(x) = t / (t + 2) for t
= expm1(2 x), and asinh(x) = log1p(x + x**2 / (1 + sqrt(1 + x**2))).
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import product
from impl._exact.elementary._exceptions import mended
from impl._exact.elementary._words import (
    constant,
    is_below,
    plus,
    rounded_once,
    wide_quotient,
    wide_root,
    with_sign,
)
from impl._exact.elementary.exponentials import wide_exp, wide_expm1
from impl._exact.elementary.logarithms import wide_log1p

#: A bound below which logistic(x) is nearly 1/2 + x/4, which is often the middle of two float32.
_SMALL = 2.0**-15
#: 1/4, but a little less. The product with a float32 is exact.
_SLOPE = 0.25 * (1 - 2.0**-27)


def tanh(x: jax.Array, **_: object) -> jax.Array:
    """Returns the hyperbolic tangent, rounded once from float64.

    Args:
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    return rounded_once(_wide_tanh, x)


def _wide_tanh(x: jax.Array) -> jax.Array:
    magnitude = lax.abs(x)
    more = wide_expm1(lax.add(magnitude, magnitude))
    return with_sign(wide_quotient(more, plus(more, 2.0)), x)


def logistic(x: jax.Array, **_: object) -> jax.Array:
    """Returns 1 / (1 + e**-x), rounded once from float64.

    The products are not sealed: the exhaustive test proves that no result depends on them.

    Args:
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    return mended("logistic", rounded_once(_wide_logistic, x), x)


def _wide_logistic(x: jax.Array) -> jax.Array:
    power = wide_exp(lax.neg(x), product=lax.mul)
    result = wide_quotient(constant(x, 1), plus(power, 1))
    # Near 0 the value is closer to 1/2 than 1/2 + x/4 is, by less than a float64 tells.
    near = plus(lax.mul(x, constant(x, _SLOPE)), 0.5)
    return lax.select(is_below(lax.abs(x), _SMALL), near, result)


def sinh(x: jax.Array, **_: object) -> jax.Array:
    """Returns the hyperbolic sine, rounded once from float64.

    Args:
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    return mended("sinh", rounded_once(_wide_sinh, x), x)


def _wide_sinh(x: jax.Array) -> jax.Array:
    more = wide_expm1(lax.abs(x))
    twice = lax.add(more, wide_quotient(more, plus(more, 1)))
    return with_sign(lax.mul(twice, constant(x, 0.5)), x)


def cosh(x: jax.Array, **_: object) -> jax.Array:
    """Returns the hyperbolic cosine, rounded once from float64.

    Args:
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    return rounded_once(_wide_cosh, x)


def _wide_cosh(x: jax.Array) -> jax.Array:
    power = wide_exp(lax.abs(x))
    return lax.mul(lax.add(power, wide_quotient(constant(x, 1), power)), constant(x, 0.5))


def asinh(x: jax.Array, **_: object) -> jax.Array:
    """Returns the inverse hyperbolic sine, rounded once from float64.

    Args:
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    return mended("asinh", rounded_once(_wide_asinh, x), x)


def _wide_asinh(x: jax.Array) -> jax.Array:
    magnitude = lax.abs(x)
    is_finite = is_below(magnitude, np.inf)
    usual = lax.select(is_finite, magnitude, constant(x, 1))
    square = product(usual, usual)
    more = wide_quotient(square, plus(wide_root(plus(square, 1)), 1))
    result = wide_log1p(lax.add(usual, more))
    return with_sign(lax.select(is_finite, result, magnitude), x)


def acosh(x: jax.Array, **_: object) -> jax.Array:
    """Returns the inverse hyperbolic cosine, rounded once from float64. Below 1 it is NaN.

    Args:
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    return mended("acosh", rounded_once(_wide_acosh, x), x)


def _wide_acosh(x: jax.Array) -> jax.Array:
    above = plus(x, -1)
    result = wide_log1p(lax.add(above, wide_root(product(above, plus(x, 1)))))
    return lax.select(is_below(x, 1), constant(x, np.nan), result)


def atanh(x: jax.Array, **_: object) -> jax.Array:
    """Returns the inverse hyperbolic tangent, rounded once from float64.

    The result for 1 is infinity, for -1 it is minus infinity, and beyond it is NaN.

    Args:
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    return rounded_once(_wide_atanh, x)


def _wide_atanh(x: jax.Array) -> jax.Array:
    magnitude = lax.abs(x)
    rest = plus(lax.neg(magnitude), 1)
    result = lax.mul(
        wide_log1p(wide_quotient(lax.add(magnitude, magnitude), rest)), constant(x, 0.5)
    )
    result = lax.select(lax.gt(magnitude, constant(x, 1)), constant(x, np.nan), result)
    return with_sign(result, x)
