"""exp, exp2, expm1, log, log1p, log2, and the hyperbolic functions with their inverses.

exp(x) is 2**n * exp(r) with x = n * log(2) + r, by the reduction of Cody and Waite (*Software
Manual for the Elementary Functions*, 1980): log(2) is a sum of a high part, whose product with n is
exact, and a low part. exp(r) is 1 + r + r**2 * polynomial(r)::

    x = 10      n = 14, r = 10 - 14 * log(2) = 0.2959..., exp(10) = 2**14 * 1.3444... = 22026.46...

log(x) is k * log(2) + log(m) with x = 2**k * m and m from sqrt(1/2) to sqrt(2). With f = m - 1,
log(m) is f - f**2 / 2 + f**3 * polynomial(f)::

    x = 10      k = 3, m = 1.25, f = 0.25, log(10) = 3 * log(2) + 0.22314... = 2.30258...

The hyperbolic functions are formulas of e**x - 1 and log(1 + x), which lose no bits near 0: tanh(x)
= t / (t + 2) for t = expm1(2 x), and asinh(x) = log1p(x + x**2 / (1 + sqrt(1 + x**2))).
"""

from __future__ import annotations

import math

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import narrow, nearest_integer, power_of_two, product, seal
from impl._exact.elementary._words import (
    NARROW,
    Wide,
    constant,
    data,
    integer_in_last_bits,
    is_below,
    mended,
    plus,
    polynomial,
    require,
    wide_quotient,
    wide_root,
    with_sign,
)
from impl._exact.elementary.roots_and_quotients import div

_LOG2_E = 1.4426950408889634
#: An argument above which exp is infinite in float32.
_HIGH = 88.8
#: The least float32 of which exp is not subnormal.
_LOW = float.fromhex("-0x1.5d589ep+6")


def exp(x: jax.Array, **_: object) -> jax.Array:
    """Returns e**x.

    Sums of the float64 use products that are not sealed: the exhaustive test proves that no float32
    depends on their contraction.

    Args:
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    dtype = require(NARROW, x)
    x = lax.convert_element_type(x, np.float32)
    n, r = reduce(lax.convert_element_type(x, np.float64))
    y = lax.add(plus(r, 1.0), more(r, product=lax.mul))
    # The exponent of y is increased by n. Results out of range are replaced below.
    raw = lax.bitcast_convert_type(y, np.int64)
    shift = lax.full_like(raw, 52)
    raw = lax.add(raw, lax.shift_left(integer_in_last_bits(n), shift))
    y = lax.bitcast_convert_type(raw, np.float64)
    if dtype != np.float32:
        return _in_range(narrow(y, dtype), x)
    return seal(_in_range(lax.convert_element_type(y, dtype), x))


def _in_range(y: jax.Array, x: jax.Array) -> jax.Array:
    """Returns the results ``y`` of exp, replaced where exp overflows, underflows or is NaN."""
    beyond = plus(x, np.inf)  # infinity or NaN
    if y.dtype != x.dtype:  # XLA for an A100 would narrow the sum to a fused multiply-add.
        beyond = lax.select(lax.ne(x, x), constant(y, np.nan), constant(y, np.inf))
    y = lax.select(lax.le(x, constant(x, _HIGH)), y, beyond)
    return lax.select(is_below(x, _LOW), constant(y, 0), y)


def reduce(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns n and r with x = n * log(2) + r and abs(r) <= log(2) / 2; n is an integer."""
    n = nearest_integer(lax.mul(x, constant(x, _LOG2_E)))
    # Both products are exact for abs(n) < 2048.
    r = lax.sub(x, lax.mul(n, constant(n, data.LN2_HIGH)))
    return n, lax.sub(r, lax.mul(n, constant(n, data.LN2_LOW)))


def more(r: jax.Array, *, product: Wide = product) -> jax.Array:
    """Returns exp(r) - 1 - r for abs(r) <= log(2) / 2."""
    return product(product(r, r), polynomial(data.EXP, r, product=product))


def wide_exp(x: jax.Array, *, product: Wide = product) -> jax.Array:
    """Returns e**x of float64, with x clamped to -700 and 700."""
    n, r = reduce(lax.clamp(np.float64(-700), x, np.float64(700)))
    return lax.mul(
        lax.add(plus(r, 1.0), more(r, product=product)), power_of_two(integer_in_last_bits(n))
    )


def wide_expm1(x: jax.Array) -> jax.Array:
    """Returns e**x - 1 of float64, with x clamped to -700 and 700."""
    n, r = reduce(lax.clamp(np.float64(-700), x, np.float64(700)))
    scale = power_of_two(integer_in_last_bits(n))
    # The product with a power of two is exact.
    result = lax.add(lax.mul(lax.add(r, more(r)), scale), plus(scale, -1.0))
    return lax.select(lax.eq(x, constant(x, 0)), x, result)


def wide_exp2(x: jax.Array) -> jax.Array:
    """Returns 2**x."""
    x = lax.clamp(np.float64(-200), x, np.float64(200))
    n = nearest_integer(x)
    f = lax.sub(x, n)
    return lax.mul(
        plus(product(f, polynomial(data.EXP2, f)), 1.0), power_of_two(integer_in_last_bits(n))
    )


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


_TINY = 2.0**-126


def log(x: jax.Array, **_: object) -> jax.Array:
    """Returns the natural logarithm of ``x``.

    Sums of the float64 use products that are not sealed: the exhaustive test proves that no float32
    depends on their contraction.

    Args:
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    dtype = require(NARROW, x)
    x = lax.convert_element_type(x, np.float32)
    k, m = parts(x)
    f = lax.convert_element_type(plus(m, -1.0), np.float64)
    y = _of_parts(f, lax.convert_element_type(k, np.float64), product=lax.mul)
    if dtype != np.float32:
        return _with_special_values(narrow(y, dtype), x)
    y = mended("log", lax.convert_element_type(y, dtype), x)
    return seal(_with_special_values(y, x))


def _with_special_values(y: jax.Array, x: jax.Array) -> jax.Array:
    """Returns the results ``y`` of log, replaced where log is infinite or NaN."""
    y = lax.select(is_below(x, np.inf), y, lax.convert_element_type(x, y.dtype))
    is_zero = lax.gt(x, constant(x, -_TINY))
    otherwise = lax.select(is_zero, constant(y, -np.inf), constant(y, np.nan))
    return lax.select(lax.ge(x, constant(x, _TINY)), y, otherwise)


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
        x: Any shape; float32, float16 or bfloat16.

    Raises:
        TypeError: Another dtype.
    """
    return div(log(x), constant(x, math.log(2)))
