"""exp, exp2 and expm1.

exp(x) is 2**n * exp(r) with x = n * log(2) + r, by the reduction of Cody and Waite (*Software
Manual for the Elementary Functions*, 1980): log(2) is a sum of a high part, whose product with n is
exact, and a low part. exp(r) is 1 + r + r**2 * polynomial(r)::

    x = 10      n = 14, r = 10 - 14 * log(2) = 0.2959..., exp(10) = 2**14 * 1.3444... = 22026.46...
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import narrow, nearest_integer, power_of_two, product, seal
from impl._exact.elementary import _coefficients as data
from impl._exact.elementary._words import (
    NARROW,
    Wide,
    constant,
    integer_in_last_bits,
    is_below,
    plus,
    polynomial,
    require,
)

_LOG2_E = 1.4426950408889634
#: An argument above which exp is infinite in float32.
_HIGH = 88.8
#: The least float32 of which exp is not subnormal.
_LOW = float.fromhex("-0x1.5d589ep+6")
#: The least float64 of which exp is not subnormal.
_LOW_DOUBLE = float.fromhex("-0x1.6232bdd7abcd2p+9")


def exp(x: jax.Array, **_: object) -> jax.Array:
    """Returns e**x.

    Sums of the float64 use products that are not sealed: the exhaustive test proves that no float32
    depends on their contraction.

    Args:
        x: Any shape; float32, float16 or bfloat16, or float64, with an error of less than 2 units
            in the last place.

    Raises:
        TypeError: Another dtype.
    """
    if x.dtype == np.float64:
        return _exp_of_double(x)
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


def _exp_of_double(x: jax.Array) -> jax.Array:
    """Returns e**x of float64. 2**n may be out of range, so it is applied in two parts."""
    n, r = reduce(lax.clamp(np.float64(-750), x, np.float64(750)))
    half = nearest_integer(lax.mul(n, constant(n, 0.5)))
    y = lax.mul(lax.add(plus(r, 1.0), more(r)), power_of_two(integer_in_last_bits(half)))
    y = lax.mul(y, power_of_two(integer_in_last_bits(lax.sub(n, half))))
    return seal(lax.select(is_below(x, _LOW_DOUBLE), constant(y, 0), y))


def wide_exp2(x: jax.Array) -> jax.Array:
    """Returns 2**x."""
    x = lax.clamp(np.float64(-200), x, np.float64(200))
    n = nearest_integer(x)
    f = lax.sub(x, n)
    return lax.mul(
        plus(product(f, polynomial(data.EXP2, f)), 1.0), power_of_two(integer_in_last_bits(n))
    )
