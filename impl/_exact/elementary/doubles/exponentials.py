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
from typing import NamedTuple, TypeAlias

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


#: The relative errors of ``quick``. Its exp(r) - 1 has an error of 2**-62 of itself, and is at most
#: 2**-4.4.
_OF_EXPM1, _OF_EXP = 2.0**-61, 2.0**-65
#: Whether arguments are near a point, and the value there.
Near: TypeAlias = tuple[jax.Array, jax.Array]


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


def _powers_of(r: Pair, eighths: jax.Array, exact: bool) -> Powers:
    n = lax.floor(times(eighths, 0.125))
    root = eighth_root(lax.sub(eighths, times(n, 8.0)))
    power = times_pair(r, series(_EXP, r, 8)) if exact else _quick_power(r)
    return Powers(root, times_pair(root, power), n)


def _quick_power(r: Pair) -> Pair:
    """Returns exp(r) - 1 with a relative error of less than 2**-62: r + r**2 / 2 + r**3 / 6 ..."""
    square, of_square = two_product(r[0], r[0])
    more = polynomial([high for high, _ in _EXP[2:10]], r[0])
    more = product(product(square, r[0]), more)
    low = lax.add(times(of_square, 0.5), product(r[0], r[1]))
    high, rest = fast_two_sum(r[0], times(square, 0.5))
    return fast_two_sum(high, lax.add(rest, lax.add(lax.add(r[1], low), more)))


def powers(x: Pair, exact: bool) -> Powers:
    """Returns exp(x) of a pair from ``_LOW`` to ``_HIGH``."""
    eighths = nearest_integer(times(x[0], 8 * _LOG2_E))
    # The products with the first two parts of log(2) / 8 are exact, and so is the first difference.
    high, low, rest = (lax.mul(eighths, constant(eighths, part)) for part in data.LN2_EIGHTH)
    high, more = two_sum(seal(lax.sub(x[0], high)), lax.neg(low))
    high, middle = two_sum(high, x[1]) if exact else (high, x[1])
    r = fast_two_sum(high, lax.sub(seal(lax.add(more, middle)), seal(rest)))
    return _powers_of(r, eighths, exact)


def _powers(x: jax.Array, exact: bool, low: float = _LOW, high: float = _HIGH) -> Powers:
    x = lax.clamp(np.float64(low), x, np.float64(high))
    return powers((x, constant(x, 0)), exact)


def _exp(x: jax.Array, exact: bool) -> Scaled:
    found = _powers(x, exact)
    return found.sum(), found.n


def _exp2(x: jax.Array, exact: bool) -> Scaled:
    x = lax.clamp(np.float64(-1080), x, np.float64(1030))
    eighths = nearest_integer(times(x, 8.0))
    rest = lax.sub(x, times(eighths, 0.125))
    r = times_pair((rest, constant(x, 0)), pair(x, data.PAIR_LOG_2))
    found = _powers_of(r, eighths, exact)
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
    found = _powers(lax.neg(lax.abs(x)), exact)
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
    found = _powers(lax.abs(x), exact, high=711.0)
    power = _inverse(found.n)
    total = found.sum()
    inverse = quotient(pair(x, (1.0, 0.0)), total)
    return plus_pair(total, scaled_by(inverse, lax.mul(power, power))), plus(found.n, -1.0)


def _tanh(x: jax.Array, exact: bool) -> Scaled:
    magnitude = lax.abs(x)
    found = _powers(lax.add(magnitude, magnitude), exact, high=100.0)
    power = _inverse(found.n)
    below = plus_pair(found.sum(), (power, constant(x, 0)))
    return quotient(found.less(power), below), None


def _with_nan(x: jax.Array, result: jax.Array) -> jax.Array:
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


def _near_cosh(x: jax.Array) -> Near:
    square, error = two_product(x, times(x, 0.5))
    more = lax.add(error, times(product(square, square), 1 / 6))
    return is_below(lax.abs(x), _NEAR_COSH), first_terms(constant(x, 1), square, more)


def odd(x: jax.Array, result: jax.Array) -> jax.Array:
    """Returns the magnitude of a result with the sign of x, and x itself where it is tiny."""
    result = with_sign(lax.abs(result), x)
    return _with_nan(x, lax.select(is_below(lax.abs(x), _TINY), x, result))


#: The functions by the names of JAX's primitives.
FUNCTIONS: Mapping[str, Double] = {
    "cosh": of_pairs(_cosh, _with_nan, error=_OF_EXP, near=_near_cosh),
    "exp": of_pairs(_exp, _with_nan, error=_OF_EXP, near=_near_exp),
    "exp2": of_pairs(_exp2, _with_nan, error=_OF_EXP),
    "expm1": of_pairs(_expm1, odd, error=_OF_EXPM1, near=_near_expm1),
    "logistic": of_pairs(_logistic, _with_nan, error=_OF_EXP, near=_near_logistic),
    "sinh": of_pairs(_sinh, odd, error=_OF_EXPM1),
    "tanh": of_pairs(_tanh, odd, error=_OF_EXPM1),
}
