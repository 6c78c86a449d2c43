"""tanh, logistic, sinh, cosh, and the inverse hyperbolic functions.

They are formulas of e**x - 1 and log(1 + x), which lose no bits near 0: tanh(x) = t / (t + 2) for t
= expm1(2 x), and asinh(x) = log1p(x + x**2 / (1 + sqrt(1 + x**2))).
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import product
from impl._exact.elementary._words import (
    constant,
    is_below,
    plus,
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


def wide_tanh(x: jax.Array) -> jax.Array:
    """Returns the hyperbolic tangent."""
    magnitude = lax.abs(x)
    more = wide_expm1(lax.add(magnitude, magnitude))
    return with_sign(wide_quotient(more, plus(more, 2.0)), x)


def wide_logistic(x: jax.Array) -> jax.Array:
    """Returns 1 / (1 + e**-x).

    The products are not sealed: the exhaustive test proves that no result depends on them.
    """
    power = wide_exp(lax.neg(x), product=lax.mul)
    result = wide_quotient(constant(x, 1), plus(power, 1))
    # Near 0 the value is closer to 1/2 than 1/2 + x/4 is, by less than a float64 tells.
    near = plus(lax.mul(x, constant(x, _SLOPE)), 0.5)
    return lax.select(is_below(lax.abs(x), _SMALL), near, result)


def wide_sinh(x: jax.Array) -> jax.Array:
    """Returns the hyperbolic sine."""
    more = wide_expm1(lax.abs(x))
    twice = lax.add(more, wide_quotient(more, plus(more, 1)))
    return with_sign(lax.mul(twice, constant(x, 0.5)), x)


def wide_cosh(x: jax.Array) -> jax.Array:
    """Returns the hyperbolic cosine."""
    power = wide_exp(lax.abs(x))
    return lax.mul(lax.add(power, wide_quotient(constant(x, 1), power)), constant(x, 0.5))


def wide_asinh(x: jax.Array) -> jax.Array:
    """Returns the inverse hyperbolic sine."""
    magnitude = lax.abs(x)
    is_finite = is_below(magnitude, np.inf)
    usual = lax.select(is_finite, magnitude, constant(x, 1))
    square = product(usual, usual)
    more = wide_quotient(square, plus(wide_root(plus(square, 1)), 1))
    result = wide_log1p(lax.add(usual, more))
    return with_sign(lax.select(is_finite, result, magnitude), x)


def wide_acosh(x: jax.Array) -> jax.Array:
    """Returns the inverse hyperbolic cosine. Below 1 it is NaN."""
    above = plus(x, -1)
    result = wide_log1p(lax.add(above, wide_root(product(above, plus(x, 1)))))
    return lax.select(is_below(x, 1), constant(x, np.nan), result)


def wide_atanh(x: jax.Array) -> jax.Array:
    """Returns the inverse hyperbolic tangent.

    The result for 1 is infinity, for -1 it is minus infinity, and beyond it is NaN.
    """
    magnitude = lax.abs(x)
    rest = plus(lax.neg(magnitude), 1)
    result = lax.mul(
        wide_log1p(wide_quotient(lax.add(magnitude, magnitude), rest)), constant(x, 0.5)
    )
    result = lax.select(lax.gt(magnitude, constant(x, 1)), constant(x, np.nan), result)
    return with_sign(result, x)
