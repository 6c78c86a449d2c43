"""exp, exp2, expm1, logistic, sinh, cosh and tanh of float64.

x is n * log(2) + i / 8 * log(2) + r, so that exp(x) is 2**n * (root + more) with root = 2**(i / 8)
and more = root * (exp(r) - 1). Without a sum, ``more`` keeps its digits near 0. With t = expm1(x),
in units of 2**n, the hyperbolic functions are

    sinh(x)     (t + t / exp(x)) / 2
    cosh(x)     (exp(x) + 1 / exp(x)) / 2
    tanh(x)     t / (t + 2) for t = expm1(2 * x)
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import factorial
from typing import NamedTuple

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import nearest_integer, power_of_two, product, seal, two_sum
from impl._exact.elementary._pairs import (
    Pair,
    choose,
    eighth_root,
    fast_two_sum,
    pair,
    plus_pair,
    times_pair,
    two_product,
)
from impl._exact.elementary._words import (
    constant,
    data,
    is_below,
    plus,
    polynomial,
    times,
    with_sign,
)
from impl._exact.elementary.doubles._function import Double
from impl._exact.elementary.doubles._pairs import (
    Scaled,
    as_pair,
    first_terms,
    of_pairs,
    quotient,
    scaled_by,
    series,
)

#: The coefficients of (exp(x) - 1) / x.
_EXP = [as_pair(Fraction(1, factorial(k + 1))) for k in range(15)]
_LOG2_E = 1.4426950408889634
#: Bounds beyond which exp is infinite, or 0.
_HIGH, _LOW = 710.0, -746.0
#: A bound below which three terms of exp and expm1 have all digits that matter.
NEAR = 2.0**-45
#: The same bounds of logistic and cosh.
_NEAR_LOGISTIC, _NEAR_COSH = 2.0**-24, 2.0**-22
#: A bound below which an odd function with the slope 1 at 0 is its argument.
_TINY = 2.0**-54


class Powers(NamedTuple):
    """exp(x) as 2**n * (root + more).

    Attributes:
        root: 2**(i / 8).
        more: root * (exp(r) - 1), with a small relative error.
        n: An integer, as float64.
    """

    root: Pair
    more: Pair
    n: jax.Array

    def sum(self) -> Pair:
        """Returns root + more."""
        return plus_pair(self.root, self.more)

    def less(self, power: jax.Array) -> Pair:
        """Returns root + more, less a power of two."""
        high, low = two_sum(self.root[0], lax.neg(power))
        return plus_pair(fast_two_sum(high, seal(lax.add(low, self.root[1]))), self.more)


def _powers_of(r: Pair, eighths: jax.Array, exact: bool, *, is_sum: bool = False) -> Powers:
    """Returns powers. Of a sum, fewer digits of its smaller part suffice if it is not exact."""
    n = lax.floor(times(eighths, 0.125))
    root = eighth_root(lax.sub(eighths, times(n, 8.0)))
    if exact:
        power = times_pair(r, series(_EXP, r, 8))
    elif not is_sum:
        power = times_pair(r, series(_EXP[:10], r, 2))
    else:  # An error of 2**-61 of the sum: 4.1 roundings of r**2 / 2, which is at most 2**-10.
        square = product(r[0], r[0])
        tail = polynomial([high for high, _ in _EXP[1:9]], r[0])
        power = fast_two_sum(r[0], seal(lax.add(r[1], product(square, tail))))
    return Powers(root, times_pair(root, power), n)


def powers(x: Pair, exact: bool, *, is_sum: bool = False) -> Powers:
    """Returns exp(x) of a pair from ``_LOW`` to ``_HIGH``."""
    eighths = nearest_integer(times(x[0], 8 * _LOG2_E))
    # The products with the first two parts of log(2) / 8 are exact, and so is the first difference.
    high, low, rest = (lax.mul(eighths, constant(eighths, part)) for part in data.LN2_EIGHTH)
    high, more = two_sum(seal(lax.sub(x[0], high)), lax.neg(low))
    high, middle = two_sum(high, x[1]) if exact else (high, x[1])
    r = fast_two_sum(high, lax.sub(seal(lax.add(more, middle)), seal(rest)))
    return _powers_of(r, eighths, exact, is_sum=is_sum)


def _powers(
    x: jax.Array, exact: bool, low: float = _LOW, high: float = _HIGH, *, is_sum: bool = False
) -> Powers:
    x = lax.clamp(np.float64(low), x, np.float64(high))
    return powers((x, constant(x, 0)), exact, is_sum=is_sum)


def _exp(x: jax.Array, exact: bool) -> Scaled:
    found = _powers(x, exact, is_sum=True)
    return found.sum(), found.n


def _exp2(x: jax.Array, exact: bool) -> Scaled:
    x = lax.clamp(np.float64(-1080), x, np.float64(1030))
    eighths = nearest_integer(times(x, 8.0))
    rest = lax.sub(x, times(eighths, 0.125))
    r = times_pair((rest, constant(x, 0)), pair(x, data.PAIR_LOG_2))
    found = _powers_of(r, eighths, exact, is_sum=True)
    return found.sum(), found.n


def _expm1(x: jax.Array, exact: bool) -> Scaled:
    found = _powers(x, exact, low=-100.0)
    return found.less(_inverse(found.n)), found.n


def _inverse(n: jax.Array) -> jax.Array:
    """Returns 2**-n, but not less than 2**-400, which does not matter beside 1."""
    n = lax.min(n, constant(n, 400))
    return power_of_two(lax.convert_element_type(lax.neg(n), np.int64))


def _logistic(x: jax.Array, exact: bool) -> Scaled:
    """Returns 1 / (1 + e) or e / (1 + e) for e = exp(-abs(x))."""
    found = _powers(lax.neg(lax.abs(x)), exact, is_sum=True)
    power, zero = found.sum(), constant(x, 0)
    one = pair(x, (1.0, 0.0))
    is_negative = lax.lt(x, zero)
    above = choose(is_negative, power, one)
    below = plus_pair(one, scaled_by(power, _inverse(lax.neg(found.n))))
    return quotient(above, below), lax.select(is_negative, found.n, zero)


def _sinh(x: jax.Array, exact: bool) -> Scaled:
    found = _powers(lax.abs(x), exact, high=711.0)
    power = _inverse(found.n)
    more = found.less(power)
    return plus_pair(more, scaled_by(quotient(more, found.sum()), power)), plus(found.n, -1.0)


def _cosh(x: jax.Array, exact: bool) -> Scaled:
    found = _powers(lax.abs(x), exact, high=711.0, is_sum=True)
    power = _inverse(found.n)
    total = found.sum()
    inverse = quotient(pair(x, (1.0, 0.0)), total)
    return plus_pair(total, scaled_by(inverse, lax.mul(power, power))), plus(found.n, -1.0)


def _tanh(x: jax.Array, exact: bool) -> Scaled:
    magnitude = lax.abs(x)
    found = _powers(lax.add(magnitude, magnitude), exact, high=100.0)
    power = _inverse(found.n)
    below = plus_pair(found.sum(), (power, constant(x, 0)))
    return quotient(found.less(power), below), constant(x, 0)


def _with_nan(x: jax.Array, result: jax.Array) -> jax.Array:
    return lax.select(lax.ne(x, x), constant(x, np.nan), result)


def _near(x: jax.Array, result: jax.Array, bound: float, terms: jax.Array) -> jax.Array:
    """Returns a result, or the sum of first terms of a series where abs(x) is below a bound."""
    return _with_nan(x, lax.select(is_below(lax.abs(x), bound), terms, result))


def _finish_exp(x: jax.Array, result: jax.Array) -> jax.Array:
    square = product(x, times(x, 0.5))
    return _near(x, result, NEAR, first_terms(constant(x, 1), x, square))


def _finish_expm1(x: jax.Array, result: jax.Array) -> jax.Array:
    square, error = two_product(x, times(x, 0.5))
    terms = first_terms(x, square, lax.add(error, product(square, times(x, 1 / 3))))
    return odd(x, _near(x, result, NEAR, terms))


def _finish_logistic(x: jax.Array, result: jax.Array) -> jax.Array:
    quarter = times(x, 0.25)
    cube = times(product(product(x, x), x), -1 / 48)
    return _near(x, result, _NEAR_LOGISTIC, first_terms(constant(x, 0.5), quarter, cube))


def _finish_cosh(x: jax.Array, result: jax.Array) -> jax.Array:
    square, error = two_product(x, times(x, 0.5))
    more = lax.add(error, times(product(square, square), 1 / 6))
    return _near(x, result, _NEAR_COSH, first_terms(constant(x, 1), square, more))


def odd(x: jax.Array, result: jax.Array) -> jax.Array:
    """Returns the magnitude of a result with the sign of x, and x itself where it is tiny."""
    result = with_sign(lax.abs(result), x)
    return _with_nan(x, lax.select(is_below(lax.abs(x), _TINY), x, result))


#: The functions by the names of JAX's primitives. ``quick`` computes exp(r) - 1 with an error below
#: 2**-62.8 of itself, and exp(x) with one below 2**-67.
FUNCTIONS: Mapping[str, Double] = {
    "cosh": of_pairs(_cosh, _finish_cosh, error=2.0**-60),
    "exp": of_pairs(_exp, _finish_exp, error=2.0**-60),
    "exp2": of_pairs(_exp2, _with_nan, error=2.0**-60),
    "expm1": of_pairs(_expm1, _finish_expm1, error=2.0**-62),
    "logistic": of_pairs(_logistic, _finish_logistic, error=2.0**-60),
    "sinh": of_pairs(_sinh, odd, error=2.0**-62),
    "tanh": of_pairs(_tanh, odd, error=2.0**-62),
}
