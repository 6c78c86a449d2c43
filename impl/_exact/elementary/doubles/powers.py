"""pow, integer_pow, cbrt and rsqrt of float64.

x**y is exp(y * log(x)). The error of the logarithm counts as often as y * log(x) is great, which is
at most 745, so a power has a relative error below 2**-92 only. A power that is the middle of two
float64 has 54 bits, so a result that is nearly such a number becomes that number.

An integer power multiplies its base by itself. A root is a root of float64 and the rest that its
square or cube leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact.arithmetic import (
    flushed_float64,
    nearest_integer,
    power_of_two,
    product,
    seal,
    two_sum,
)
from impl._exact.elementary._pairs import (
    Pair,
    fast_two_sum,
    pair,
    powers,
    quotient,
    reciprocal,
    short,
    times_pair,
    two_product,
    with_zero,
)
from impl._exact.elementary._words import constant, is_below, plus, times, wide_root, with_sign
from impl._exact.elementary.doubles._function import Double
from impl._exact.elementary.doubles._pairs import Scaled, of_pairs, quick_results, rounded, scaled
from impl._exact.elementary.doubles.logarithms import logarithm
from impl._exact.elementary.exponentials import parts
from impl._exact.elementary.powers import (
    by_squaring,
    finished_power,
    finished_root,
    near_root,
    parity,
    usual_base,
)
from impl._exact.elementary.roots_and_quotients import div

#: A power and its exponent of two.
_Factor: TypeAlias = tuple[Pair, jax.Array]
#: An exponent beyond which a power of a number that is not 1 is 0 or infinity.
_FAR = 2.0**70
#: A logarithm of a power beyond which that is 0 or infinity.
_LIMIT = 750.0
#: The bits of half a unit in the last place, and the error that it may have.
_HALF_BITS, _NEARLY = 20, 2.0**-88
#: The relative error of ``quick`` for a logarithm of 1 of the power, and one more for its exp.
_OF_LOG, _OF_EXP = 2.0**-62, 2.0**-65


def _exponent(y: jax.Array) -> tuple[Pair, jax.Array, jax.Array]:
    """Returns an exponent as a pair, and whether it is an integer, and an odd one."""
    if not jnp.issubdtype(y.dtype, jnp.integer):
        y = flushed_float64(y)
        return (lax.clamp(np.float64(-_FAR), y, np.float64(_FAR)), constant(y, 0)), *parity(y)
    low = lax.bitwise_and(y, lax.full_like(y, 0xFFFF))
    high = lax.convert_element_type(lax.sub(y, low), np.float64)
    is_odd = lax.ne(lax.bitwise_and(y, lax.full_like(y, 1)), lax.full_like(y, 0))
    whole = lax.full_like(is_odd, True)
    return two_sum(high, lax.convert_element_type(low, np.float64)), whole, is_odd


def _logarithm_of_power(x: jax.Array, y: Pair, exact: bool) -> Pair:
    high, low = times_pair(logarithm((x, None), with_zero(plus(x, -1.0)), exact), y)
    low = lax.select(is_below(lax.abs(high), _LIMIT), low, constant(x, 0))
    return lax.clamp(np.float64(-_LIMIT), high, np.float64(_LIMIT)), low


def _pow(x: jax.Array, y: jax.Array, **_: object) -> jax.Array:
    """Returns x**y. y is float64, or integers."""
    x = flushed_float64(x)
    exponent, whole, is_odd = _exponent(y)
    found = powers(_logarithm_of_power(usual_base(x), exponent, True), True)
    power = _with_exact_half(found.sum(), exponent[0])
    return finished_power(x, exponent[0], whole, is_odd, rounded(power, found.n))


def _quick_pow(x: jax.Array, y: jax.Array, **_: object) -> tuple[jax.Array, jax.Array]:
    x = flushed_float64(x)
    exponent, whole, is_odd = _exponent(y)
    logarithm_of_power = _logarithm_of_power(usual_base(x), exponent, False)
    found = powers(logarithm_of_power, False)
    power = found.sum()
    error = plus(times(lax.abs(logarithm_of_power[0]), _OF_LOG), _OF_EXP)

    def finish(end: jax.Array) -> jax.Array:
        return finished_power(x, exponent[0], whole, is_odd, scaled(end, found.n))

    return quick_results(power, product(power[0], error), finish)


def _with_exact_half(power: Pair, y: jax.Array) -> Pair:
    """Returns a power, or the middle of two float64 that it is nearly equal to.

    Only multiples of 1/64 have powers of 54 bits: of a base of 53 bits that is a power of two, or
    of odd numbers.
    """
    scaled_exponent = times(y, 64.0)
    may_be_exact = lax.eq(nearest_integer(scaled_exponent), scaled_exponent)
    half = short(power[1], _HALF_BITS)
    is_exact = is_below(lax.abs(lax.sub(power[1], half)), _NEARLY)
    return power[0], lax.select(lax.bitwise_and(is_exact, may_be_exact), half, power[1])


def _times(a: _Factor, b: _Factor) -> _Factor:
    high, low = times_pair(a[0], b[0])
    k, m = parts(high)
    n = lax.add(lax.add(a[1], b[1]), lax.convert_element_type(k, np.float64))
    return (m, lax.mul(low, power_of_two(lax.neg(k)))), n


def _integer_pow(x: jax.Array, *, y: int, **_: object) -> jax.Array:
    """Returns x to the power of an integer, with a relative error of less than abs(y) * 2**-98."""
    x = flushed_float64(x)
    one = constant(x, 1)
    if y in (0, -1):
        return div(one, x) if y else one
    k, m = parts(usual_base(x))
    factor = with_zero(m), lax.convert_element_type(k, np.float64)
    power, n = by_squaring(factor, abs(y), _times)
    if y < 0:
        power, n = quotient(pair(x, (1.0, 0.0)), power), lax.neg(n)
    is_odd = lax.full_like(lax.eq(x, x), bool(y % 2))
    whole = lax.full_like(is_odd, True)
    return finished_power(x, constant(x, y), whole, is_odd, rounded(power, n))


def _cbrt(x: jax.Array, _: bool) -> Scaled:
    near, more, third, m = near_root(x, lambda a, b: product(a, reciprocal(b)))
    near = lax.add(near, more)
    square, of_square = two_product(near, near)
    cube, of_cube = two_product(square, near)
    rest = lax.sub(lax.sub(lax.sub(m, cube), of_cube), product(of_square, near))
    return fast_two_sum(near, product(seal(rest), reciprocal(times(square, 3.0)))), third


def _rsqrt(x: jax.Array, _: bool) -> Scaled:
    k, m = parts(usual_base(x))
    half = lax.shift_right_arithmetic(k, lax.full_like(k, 1))
    m = lax.mul(m, power_of_two(lax.sub(k, lax.add(half, half))))
    near = reciprocal(wide_root(m))
    square, of_square = two_product(near, near)
    one, of_one = two_product(m, square)
    rest = lax.sub(plus(lax.neg(one), 1.0), of_one)
    rest = seal(lax.sub(rest, product(m, of_square)))
    # 1 / sqrt(1 - rest) is 1 + rest / 2 + 3 / 8 * rest**2.
    more = product(product(near, rest), plus(times(rest, 0.375), 0.5))
    return fast_two_sum(near, more), lax.neg(lax.convert_element_type(half, np.float64))


def _finish_rsqrt(x: jax.Array, result: jax.Array) -> jax.Array:
    zero, infinity = constant(x, 0), constant(x, np.inf)
    result = lax.select(is_below(x, np.inf), result, zero)
    result = lax.select(lax.eq(x, zero), with_sign(infinity, x), result)
    return lax.select(lax.ge(x, zero), result, constant(x, np.nan))


#: The functions by the names of JAX's primitives.
FUNCTIONS: Mapping[str, Double] = {
    "cbrt": of_pairs(_cbrt, finished_root),
    "integer_pow": Double(_integer_pow),
    "pow": Double(_pow, _quick_pow),
    "rsqrt": of_pairs(_rsqrt, _finish_rsqrt),
}
