"""erf, erfc, the inverse of erf, lgamma and digamma.

Below 1, erf(x) / x is a polynomial of x**2. Above, erfc(x) * exp(x**2) is a polynomial of (x - 3) /
(x + 3), which maps [1, 10] to a short interval, as Shepherd and Laframboise (1981) map theirs. The
inverse of erf is x times a polynomial of w = -log(1 - x**2) below 5, and of sqrt(w) - 3 above
(Giles, *Approximating the erfinv function*, GPU Computing Gems Jade Edition, 2012).

The formulas of the gamma function have their numbers in the NIST *Digital Library of Mathematical
Functions* (https://dlmf.nist.gov). From 10 on, Stirling's series is accurate (5.11.1 and 5.11.2).
Smaller arguments are moved up by 10 with the recurrence (5.5.1 and 5.5.2), and negative ones are
reflected (5.5.3 and 5.5.4). Below 2.5, ``lgamma`` is a polynomial in the distance to 2, or to 1 and
0 by the recurrence::

    lgamma(3)       = Stirling(13) - log(3 * 4 * ... * 12) = log(2)
    lgamma(1.25)    = P(0.25) - log(1.25), with P(z) = lgamma(2 + z)
    lgamma(-0.5)    = log(pi) - log(0.5 * sin(0.5 * pi)) - lgamma(0.5)

The zeros of ``lgamma`` at 1 and 2 are exact. Near its other zeros, the absolute error is about
2**-48.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import nearest_integer, product, seal
from impl._exact.elementary._words import (
    constant,
    data,
    has_sign,
    is_below,
    plus,
    polynomial,
    times,
    wide_quotient,
    wide_root,
    with_sign,
)
from impl._exact.elementary.exponentials import wide_exp, wide_log
from impl._exact.elementary.powers import usual_base
from impl._exact.elementary.trigonometric import small_cos, small_sin

#: An argument above which erfc is below the least normal float32.
_LAST = 10.0
#: The value of -log(1 - x**2) from which the inverse of erf has another polynomial.
_TAIL = 5.0


def wide_erf(x: jax.Array) -> jax.Array:
    """Returns the error function."""
    magnitude = lax.abs(x)
    large = plus(lax.neg(_complement(magnitude)), 1)
    result = lax.select(is_below(magnitude, 1), _centre(magnitude), large)
    return with_sign(result, x)


def wide_erfc(x: jax.Array) -> jax.Array:
    """Returns 1 - erf(x)."""
    magnitude = lax.abs(x)
    large = _complement(magnitude)
    large = lax.select(has_sign(x), plus(lax.neg(large), 2), large)
    small = plus(lax.neg(with_sign(_centre(magnitude), x)), 1)
    return lax.select(is_below(magnitude, 1), small, large)


def _centre(x: jax.Array) -> jax.Array:
    """Returns erf for x from 0 to 1."""
    square = product(x, x)
    square = lax.select(is_below(x, 1), square, constant(x, 1))
    return product(x, polynomial(data.ERF, square))


def _complement(x: jax.Array) -> jax.Array:
    """Returns erfc for x from 1 on."""
    x = lax.clamp(np.float64(1), x, np.float64(_LAST))
    ratio = wide_quotient(plus(x, -3), plus(x, 3))
    # The square of a float32 is exact.
    return product(wide_exp(lax.neg(product(x, x))), polynomial(data.ERFCX, ratio))


def wide_erf_inv(x: jax.Array) -> jax.Array:
    """Returns the inverse of the error function.

    The result for 1 is infinity, for -1 it is minus infinity, and beyond it is NaN.
    """
    magnitude = lax.abs(x)
    one = constant(x, 1)
    is_inside = lax.lt(magnitude, one)
    inside = lax.select(is_inside, magnitude, constant(x, 0))
    depth = lax.neg(wide_log(product(plus(lax.neg(inside), 1), plus(inside, 1))))
    # An argument out of a polynomial's range is replaced by the limit, so that nothing overflows.
    is_central = is_below(depth, _TAIL)
    limit = constant(x, _TAIL)
    centre = polynomial(data.ERF_INV_CENTRE, lax.min(depth, limit))
    tail = polynomial(data.ERF_INV_TAIL, plus(wide_root(lax.max(depth, limit)), -3))
    result = product(inside, lax.select(is_central, centre, tail))
    beyond = lax.select(lax.eq(magnitude, one), constant(x, np.inf), constant(x, np.nan))
    return with_sign(lax.select(is_inside, result, beyond), x)


#: The coefficients of Stirling's series for lgamma and digamma, by powers of 1 / x**2.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DERIVATIVE = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
#: An argument below 10 is moved up by 10 steps.
_LARGE = 10
_HALF_LOG_OF_TURN = math.log(2 * math.pi) / 2


def wide_lgamma(x: jax.Array) -> jax.Array:
    """Returns the logarithm of the magnitude of the gamma function."""
    magnitude = usual_base(x)
    large = lax.ge(magnitude, constant(x, 2.5))
    above = lax.select(large, _large_lgamma(magnitude), _small_lgamma(magnitude))
    _, sine, _ = _half_turns(magnitude)
    below = wide_log(_unless(is_below(sine, 2.0**-500), product(magnitude, sine), 1))
    below = lax.sub(lax.sub(constant(x, math.log(math.pi)), below), above)
    return finished_lgamma(x, lax.select(is_below(x, 0), below, above))


def finished_lgamma(x: jax.Array, result: jax.Array) -> jax.Array:
    """Returns lgamma, of which ``result`` is the value where it is finite."""
    has_pole = lax.bitwise_and(lax.le(x, constant(x, 0)), lax.eq(nearest_integer(x), x))
    is_infinite = lax.eq(lax.abs(x), constant(x, np.inf))
    result = _unless(lax.bitwise_or(has_pole, is_infinite), result, np.inf)
    return _unless(lax.ne(x, x), result, np.nan)


def _unless(condition: jax.Array, value: jax.Array, otherwise: float) -> jax.Array:
    """Returns ``value``, with the number ``otherwise`` where a condition holds."""
    return lax.select(condition, constant(value, otherwise), value)


def _small_lgamma(x: jax.Array) -> jax.Array:
    """Returns lgamma below 2.5, by lgamma(x) = lgamma(x + 2) - log(x) - log(x + 1)."""
    has_one, has_two = is_below(x, 1.5), is_below(x, 0.5)
    x = _unless(lax.ge(x, constant(x, 2.5)), x, 2)
    z = lax.select(has_two, x, lax.select(has_one, plus(x, -1.0), plus(x, -2.0)))
    result = product(z, polynomial(data.LGAMMA, z))
    # 1 + z is exact unless x is small, and log(x) is then far greater.
    step = _unless(lax.bitwise_not(has_one), z, 0)
    result = lax.sub(result, seal(wide_log(plus(step, 1.0))))
    return lax.sub(result, seal(wide_log(_unless(lax.bitwise_not(has_two), x, 1))))


def _large_lgamma(x: jax.Array) -> jax.Array:
    """Returns lgamma from 2.5 on, by Stirling's series."""
    is_moved = is_below(x, _LARGE)
    moved = constant(x, 1)
    for i in range(_LARGE):
        moved = product(moved, _unless(lax.bitwise_not(is_moved), plus(x, float(i)), 1))
    x = lax.select(is_moved, plus(x, float(_LARGE)), x)
    log = seal(wide_log(x))
    result = lax.sub(product(plus(x, -0.5), log), x)
    result = lax.add(plus(result, _HALF_LOG_OF_TURN), wide_quotient(_series(_STIRLING, x), x))
    return lax.sub(result, seal(wide_log(moved)))


def _series(terms: Sequence[float], x: jax.Array) -> jax.Array:
    """Returns a sum of powers of 1 / x**2, from 0 on."""
    inverse = wide_quotient(constant(x, 1), x)
    return seal(polynomial(terms, product(inverse, inverse)))


def _half_turns(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the distance of x to the nearest integer, and its sinpi and cospi as magnitudes.

    x is a float64 of 24 bits, not negative.
    """
    nearest = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    fraction = lax.abs(lax.sub(x, nearest))
    rest = lax.sub(constant(x, 0.5), fraction)
    is_near = is_below(fraction, 0.25)
    angle = times(lax.select(is_near, fraction, rest), math.pi)
    sine, cosine = seal(small_sin(angle)), seal(small_cos(angle))
    return (
        lax.sub(x, nearest),
        lax.select(is_near, sine, cosine),
        lax.select(is_near, cosine, sine),
    )


def wide_digamma(x: jax.Array) -> jax.Array:
    """Returns the derivative of ``lgamma``. For a zero it is -infinity, as in jax 0.12."""
    magnitude = usual_base(x)
    above = _positive_digamma(magnitude)
    fraction, sine, cosine = _half_turns(magnitude)
    slope = times(wide_quotient(cosine, _unless(lax.eq(sine, constant(x, 0)), sine, 1)), math.pi)
    slope = lax.select(is_below(fraction, 0), lax.neg(slope), slope)
    below = lax.add(lax.add(above, wide_quotient(constant(x, 1), magnitude)), slope)
    return finished_digamma(x, lax.select(is_below(x, 0), below, above))


def finished_digamma(x: jax.Array, result: jax.Array) -> jax.Array:
    """Returns digamma, of which ``result`` is the value where it has a finite one."""
    has_no_value = lax.bitwise_and(is_below(x, 0), lax.eq(nearest_integer(x), x))
    result = _unless(lax.bitwise_or(has_no_value, lax.ne(x, x)), result, np.nan)
    result = _unless(lax.eq(x, constant(x, 0)), result, -np.inf)
    return _unless(lax.eq(x, constant(x, np.inf)), result, np.inf)


def _positive_digamma(x: jax.Array) -> jax.Array:
    """Returns digamma(x + 10) less the inverse of each step, or Stirling's series at once."""
    is_moved = is_below(x, _LARGE)
    above, below = constant(x, 0), constant(x, 1)
    for i in range(_LARGE):
        step = _unless(lax.bitwise_not(is_moved), plus(x, float(i)), 1)
        above, below = lax.add(product(above, step), below), product(below, step)
    # The sum of the inverses as one fraction.
    inverses = _unless(lax.bitwise_not(is_moved), wide_quotient(above, below), 0)
    x = lax.select(is_moved, plus(x, float(_LARGE)), x)
    inverse = wide_quotient(constant(x, 1), x)
    series = product(product(inverse, inverse), _series(_DERIVATIVE, x))
    result = lax.sub(lax.sub(seal(wide_log(x)), times(inverse, 0.5)), series)
    return lax.sub(result, inverses)
