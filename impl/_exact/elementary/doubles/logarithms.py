"""log, log1p, log2, asinh, acosh and atanh of float64.

log(a) is k * log(2) - log(c) + log(1 + f) with a = 2**k * m and 1 + f = c * m, where c is the
number of a table for which c * m is near 1. With y = f / (2 + f), log(1 + f) is
2 * (y + y**3 / 3 + ...). Where a is near 1, f is a - 1, which its caller knows better: u. So

    log1p(x)    u = x
    asinh(x)    u = x + x**2 / (1 + s)              with s = sqrt(1 + x**2)
    acosh(x)    u = x - 1 + sqrt((x - 1) * (x + 1))
    atanh(x)    u = 2 * x / (1 - x), and half of the logarithm
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import power_of_two, product, seal, two_sum
from impl._exact.elementary._pairs import (
    Pair,
    choose,
    factor_to_one,
    fast_two_sum,
    log_of_ratio,
    pair,
    plus_less,
    plus_pair,
    quotient,
    times_pair,
    two_product,
    with_zero,
)
from impl._exact.elementary._words import constant, is_below, plus, times
from impl._exact.elementary.doubles._function import Double
from impl._exact.elementary.doubles._pairs import Scaled, first_terms, of_pairs, root, scaled_by
from impl._exact.elementary.doubles.exponentials import NEAR, Near, odd
from impl._exact.elementary.exponentials import parts
from impl._exact.elementary.roots_and_quotients import div

#: The error of ``quick``: products for the terms after 2 * y, which are at most 2**-12 of the sum.
_ERROR = 2.0**-62
#: A number from which on asinh(x) and acosh(x) are log(2 * x).
_FAR = 2.0**55


def logarithm(
    a: tuple[jax.Array, jax.Array | None],
    u: Pair,
    exact: bool,
    *,
    doublings: jax.Array | None = None,
) -> Pair:
    """Returns log(a) of a positive pair, or of one number, or log(2**n * a) for n ``doublings``.

    u is a - 1, if a is near 1. The error is less than 2**-100 of the result.
    """
    k, m = parts(a[0])
    number = lax.convert_element_type(k, np.float64)
    c, of_factor = factor_to_one(m)
    high, low = two_product(c, m)
    if a[1] is not None:
        # Where the exponent is greater, a has no second part.
        scale = power_of_two(lax.neg(lax.min(k, lax.full_like(k, 1000))))
        low = seal(lax.add(low, product(c, lax.mul(a[1], scale))))
    f = fast_two_sum(plus(high, -1.0), low)
    is_near = lax.bitwise_and(lax.eq(k, lax.full_like(k, 0)), lax.eq(c, constant(c, 1)))
    f = choose(is_near, u, f)
    below = plus_less(pair(m, (2.0, 0.0)), f, exact)
    if doublings is not None:
        number = lax.add(number, doublings)
    return log_of_ratio(quotient(f, below, exact), number, of_factor, 4 if exact else 0)


def _plain(value: Pair) -> Scaled:
    return value, None


def _usual(x: jax.Array, is_usual: jax.Array, value: float = 1.0) -> jax.Array:
    return lax.select(is_usual, x, constant(x, value))


def _log(x: jax.Array, exact: bool) -> Scaled:
    is_usual = lax.bitwise_and(lax.gt(x, constant(x, 0)), is_below(x, np.inf))
    x = _usual(x, is_usual)
    return _plain(logarithm((x, None), with_zero(plus(x, -1.0)), exact))


def _one_more(u: Pair) -> Pair:
    """Returns 1 + u."""
    return plus_pair(pair(u[0], (1.0, 0.0)), u)


def _log1p(x: jax.Array, exact: bool) -> Scaled:
    is_usual = lax.bitwise_and(lax.gt(x, constant(x, -1)), is_below(x, np.inf))
    x = _usual(x, is_usual)
    u = with_zero(x)
    return _plain(logarithm(_one_more(u), u, exact))


def _far(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns arguments below ``_FAR``, and whether they are so."""
    is_usual = is_below(x, _FAR)
    return _usual(x, is_usual, 2.0), is_usual


def _of_usual(u: Pair, x: jax.Array, is_usual: jax.Array, exact: bool) -> Scaled:
    """Returns log(1 + u) of usual arguments, and log(2 * x) of others, which may be infinite."""
    zero, one = constant(x, 0), constant(x, 1)
    a = choose(is_usual, _one_more(u), with_zero(_usual(x, is_below(x, np.inf))))
    return _plain(logarithm(a, u, exact, doublings=lax.select(is_usual, zero, one)))


def _asinh(x: jax.Array, exact: bool) -> Scaled:
    magnitude = lax.abs(x)
    usual, is_usual = _far(magnitude)
    square = two_product(usual, usual)
    below = _one_more(root(_one_more(square)))
    u = plus_pair(with_zero(usual), quotient(square, below, exact))
    return _of_usual(u, magnitude, is_usual, exact)


def _acosh(x: jax.Array, exact: bool) -> Scaled:
    x = _usual(x, lax.gt(x, constant(x, 1)), 2.0)
    usual, is_usual = _far(x)
    one = constant(x, 1)
    above = two_sum(usual, lax.neg(one))
    u = plus_pair(above, root(times_pair(above, two_sum(usual, one))))
    return _of_usual(u, x, is_usual, exact)


def _atanh(x: jax.Array, exact: bool) -> Scaled:
    magnitude = lax.abs(x)
    x = _usual(magnitude, is_below(magnitude, 1.0), 0.5)
    u = quotient(with_zero(lax.add(x, x)), two_sum(constant(x, 1), lax.neg(x)), exact)
    return scaled_by(logarithm(_one_more(u), u, exact), constant(x, 0.5)), None


def _finish(x: jax.Array, result: jax.Array, least: float, at_least: float = -np.inf) -> jax.Array:
    """Returns a logarithm with its special values, such as ``at_least`` for the least argument."""
    result = lax.select(is_below(x, np.inf), result, x)
    result = lax.select(lax.eq(x, constant(x, least)), constant(x, at_least), result)
    return lax.select(lax.ge(x, constant(x, least)), result, constant(x, np.nan))


def _near(f: jax.Array) -> Near:
    """Returns log(1 + f) near 0."""
    square, error = two_product(f, times(f, -0.5))
    more = lax.add(error, product(square, times(f, -2 / 3)))
    return is_below(lax.abs(f), NEAR), first_terms(f, square, more)


def _finish_log(x: jax.Array, result: jax.Array) -> jax.Array:
    return _finish(x, result, 0.0)


def _finish_log1p(x: jax.Array, result: jax.Array) -> jax.Array:
    return _finish(x, odd(x, result), -1.0)


def _finish_asinh(x: jax.Array, result: jax.Array) -> jax.Array:
    return odd(x, lax.select(is_below(lax.abs(x), np.inf), result, x))


def _finish_acosh(x: jax.Array, result: jax.Array) -> jax.Array:
    return _finish(x, result, 1.0, 0.0)


def _finish_atanh(x: jax.Array, result: jax.Array) -> jax.Array:
    magnitude = lax.abs(x)
    result = lax.select(lax.eq(magnitude, constant(x, 1)), constant(x, np.inf), result)
    is_beyond = lax.gt(magnitude, constant(x, 1))
    return odd(x, lax.select(is_beyond, constant(x, np.nan), result))


def _near_one(x: jax.Array) -> Near:
    return _near(plus(x, -1.0))


def _finish_log2(x: jax.Array, result: jax.Array) -> jax.Array:
    """Returns log(x) / log(2), both rounded first, as ``jnp.log2`` does before jax 0.12."""
    return div(_finish_log(x, result), constant(x, math.log(2)))


#: The functions by the names of JAX's primitives.
FUNCTIONS: Mapping[str, Double] = {
    "acosh": of_pairs(_acosh, _finish_acosh, error=_ERROR),
    "asinh": of_pairs(_asinh, _finish_asinh, error=_ERROR),
    "atanh": of_pairs(_atanh, _finish_atanh, error=_ERROR),
    "log": of_pairs(_log, _finish_log, error=_ERROR, near=_near_one),
    "log1p": of_pairs(_log1p, _finish_log1p, error=_ERROR, near=_near),
    "log2": of_pairs(_log, _finish_log2, error=_ERROR, near=_near_one),
}
