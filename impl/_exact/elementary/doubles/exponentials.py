"""exp, exp2, expm1, logistic, sinh, cosh and tanh of float64.

x is n * log(2) + i / 8 * log(2) + r, so that exp(x) is 2**n * (root + more) with root = 2**(i / 8)
and more = root * (exp(r) - 1). Without a sum, ``more`` keeps its digits near 0. With t = expm1(x),
in units of 2**n, the hyperbolic functions are

    sinh(x)     (t + t / exp(x)) / 2
    cosh(x)     (exp(x) + 1 / exp(x)) / 2
    tanh(x)     t / (t + 2) for t = expm1(2 * x)
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TypeAlias

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import nearest_integer, power_of_two, product
from impl._exact.elementary._pairs import (
    Powers,
    choose,
    fast_two_sum,
    pair,
    plus_less,
    plus_pair,
    powers,
    powers_of,
    quotient,
    times_pair,
    two_product,
    with_zero,
)
from impl._exact.elementary._words import (
    constant,
    data,
    is_below,
    plus,
    times,
    with_sign,
)
from impl._exact.elementary.doubles._function import Double
from impl._exact.elementary.doubles._pairs import Scaled, first_terms, of_pairs, scaled_by

#: Bounds beyond which exp is infinite, or 0.
_HIGH, _LOW = 710.0, -746.0
#: A bound below which three terms of exp and expm1 have all digits that matter.
NEAR = 2.0**-45
#: The same bounds of logistic, and of cosh and cos.
_NEAR_LOGISTIC, _NEAR_COSH = 2.0**-24, 2.0**-22
#: A bound below which an odd function with the slope 1 at 0 is its argument.
_TINY = 2.0**-54


#: The relative errors of ``quick``. Its exp(r) - 1 has an error of 2**-62 of itself, and is at most
#: 2**-4.4.
_OF_EXPM1, _OF_EXP = 2.0**-61, 2.0**-65
#: Whether arguments are near a point, and the value there.
Near: TypeAlias = tuple[jax.Array, jax.Array]


def _powers(x: jax.Array, exact: bool, low: float = _LOW, high: float = _HIGH) -> Powers:
    x = lax.clamp(np.float64(low), x, np.float64(high))
    return powers(with_zero(x), exact)


def _exp(x: jax.Array, exact: bool) -> Scaled:
    found = _powers(x, exact)
    return found.sum(), found.n


def _exp2(x: jax.Array, exact: bool) -> Scaled:
    x = lax.clamp(np.float64(-1080), x, np.float64(1030))
    eighths = nearest_integer(times(x, 8.0))
    rest = lax.sub(x, times(eighths, 0.125))
    r = times_pair(with_zero(rest), pair(x, data.PAIR_LOG_2))
    found = powers_of(r, eighths, exact)
    return found.sum(), found.n


def _expm1(x: jax.Array, exact: bool) -> Scaled:
    found = _powers(x, exact, low=-100.0)
    return found.less(_inverse(found.n)), found.n


def _inverse(n: jax.Array) -> jax.Array:
    """Returns 2**-n, but not less than 2**-400, which a sum with 1 does not show."""
    n = lax.min(n, constant(n, 400))
    return power_of_two(lax.convert_element_type(lax.neg(n), np.int64))


def _logistic(x: jax.Array, exact: bool) -> Scaled:
    """Returns 1 / (1 + e) or e / (1 + e) for e = exp(-abs(x))."""
    found = _powers(lax.neg(lax.abs(x)), exact)
    power, zero = found.sum(), constant(x, 0)
    one = pair(x, (1.0, 0.0))
    is_negative = lax.lt(x, zero)
    above = choose(is_negative, power, one)
    below = plus_less(one, scaled_by(power, _inverse(lax.neg(found.n))))
    return quotient(above, below, exact), lax.select(is_negative, found.n, zero)


def _sinh(x: jax.Array, exact: bool) -> Scaled:
    found = _powers(lax.abs(x), exact, high=711.0)
    power = _inverse(found.n)
    more = found.less(power, fast_two_sum)
    inverse = quotient(more, found.sum(), exact)
    return plus_pair(more, scaled_by(inverse, power)), plus(found.n, -1.0)


def _cosh(x: jax.Array, exact: bool) -> Scaled:
    found = _powers(lax.abs(x), exact, high=711.0)
    power = _inverse(found.n)
    total = found.sum()
    inverse = quotient(pair(x, (1.0, 0.0)), total, exact)
    return plus_pair(total, scaled_by(inverse, lax.mul(power, power))), plus(found.n, -1.0)


def _tanh(x: jax.Array, exact: bool) -> Scaled:
    magnitude = lax.abs(x)
    twice = lax.min(lax.add(magnitude, magnitude), constant(x, 100.0))
    found = powers(with_zero(twice), exact)
    power = power_of_two(lax.convert_element_type(lax.neg(found.n), np.int64))
    below = plus_less(found.sum(), with_zero(power), exact)
    return quotient(found.less(power, fast_two_sum), below, exact), None


def with_nan(x: jax.Array, result: jax.Array) -> jax.Array:
    """Returns a result, or NaN where x is one."""
    return lax.select(lax.ne(x, x), constant(x, np.nan), result)


def _near_exp(x: jax.Array) -> Near:
    square = product(x, times(x, 0.5))
    return is_below(lax.abs(x), NEAR), first_terms(constant(x, 1), x, square)


def _near_expm1(x: jax.Array) -> Near:
    square, error = two_product(x, times(x, 0.5))
    terms = first_terms(x, square, lax.add(error, product(square, times(x, 1 / 3))))
    return is_below(lax.abs(x), NEAR), terms


def _near_logistic(x: jax.Array) -> Near:
    cube = times(product(product(x, x), x), -1 / 48)
    terms = first_terms(constant(x, 0.5), times(x, 0.25), cube)
    return is_below(lax.abs(x), _NEAR_LOGISTIC), terms


def near_one(x: jax.Array, half: float) -> Near:
    """Returns cosh(x) near 0 for 1/2, and cos(x) for -1/2: 1 + x**2 / 2 + x**4 / 24."""
    square, error = two_product(x, times(x, half))
    more = lax.add(error, times(product(square, square), 1 / 6))
    return is_below(lax.abs(x), _NEAR_COSH), first_terms(constant(x, 1), square, more)


def odd(x: jax.Array, result: jax.Array) -> jax.Array:
    """Returns the magnitude of a result with the sign of x, and x itself where it is tiny."""
    result = with_sign(lax.abs(result), x)
    return with_nan(x, lax.select(is_below(lax.abs(x), _TINY), x, result))


#: The functions by the names of JAX's primitives.
FUNCTIONS: Mapping[str, Double] = {
    "cosh": of_pairs(_cosh, with_nan, error=_OF_EXP, near=functools.partial(near_one, half=0.5)),
    "exp": of_pairs(_exp, with_nan, error=_OF_EXP, near=_near_exp),
    "exp2": of_pairs(_exp2, with_nan, error=_OF_EXP),
    "expm1": of_pairs(_expm1, odd, error=_OF_EXPM1, near=_near_expm1),
    "logistic": of_pairs(_logistic, with_nan, error=_OF_EXP, near=_near_logistic),
    "sinh": of_pairs(_sinh, odd, error=_OF_EXPM1),
    "tanh": of_pairs(_tanh, odd, error=_OF_EXPM1),
}
