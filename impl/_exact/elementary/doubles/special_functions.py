"""erf, erfc, the inverse of erf, lgamma and digamma of float64.

Below 1, erf(x) is x times a polynomial, and above, erfc(x) is exp(-x**2) times another one. A step
of Halley makes the inverse of erf of a value with 39 bits::

    y - t / (1 + t * y)        with t = (erf(y) - x) / erf'(y)

The gamma function has the formulas of ``elementary.special_functions``, and polynomials instead of
Stirling's series. Near the zeros of negative arguments, the absolute errors of lgamma and digamma
are small, not the relative ones. The zero of digamma between 1 and 2 is a factor.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import nearest_integer, power_of_two, product, two_sum
from impl._exact.elementary._pairs import (
    Pair,
    choose,
    negative,
    pair,
    plus_less,
    plus_pair,
    powers,
    quotient,
    times_pair,
    two_product,
    with_zero,
)
from impl._exact.elementary._words import (
    constant,
    data,
    has_sign,
    is_below,
    plus,
    times,
    wide_root,
    with_sign,
)
from impl._exact.elementary.doubles._function import Double
from impl._exact.elementary.doubles._pairs import Scaled, of_pairs, scaled_by
from impl._exact.elementary.doubles._pieces import by_table, tables
from impl._exact.elementary.doubles.exponentials import with_nan
from impl._exact.elementary.doubles.logarithms import logarithm
from impl._exact.elementary.doubles.trigonometric import sine_or_cosine
from impl._exact.elementary.exponentials import wide_log
from impl._exact.elementary.powers import usual_base
from impl._exact.elementary.special_functions import finished_digamma, finished_lgamma

#: An argument of erfc whose result is subnormal.
_LAST = 27.25
#: A magnitude below which numbers are multiplied by 2**400, so that no part of one is subnormal.
_LEAST, _RAISE = 2.0**-500, 400
#: A magnitude beyond which lgamma is divided by 2**400, and inverses do not matter.
_GREAT = 2.0**600
#: A magnitude below which 1 + x counts as 1.
_TINY = 2.0**-110
#: The errors of the quick ways: of erf and its inverse, and of the other functions.
_OF_ERF, _ERROR = 2.0**-62, 2.0**-60
#: The number from which lgamma and digamma have Stirling's formulas.
_LARGE, _LARGE_OF_DIGAMMA = 2.5, 2.0


def _raised(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns x * 2**-n and n, which is not 0 for numbers below ``_LEAST``."""
    is_least = is_below(x, _LEAST)
    raised = lax.mul(x, constant(x, 2.0**_RAISE))
    n = lax.select(is_least, constant(x, -_RAISE), constant(x, 0))
    return lax.select(is_least, raised, x), n


class _Error(NamedTuple):
    """The error function of x, from 0 to ``_LAST``.

    Attributes:
        is_small: Whether x is below 1.
        small: erf(x), if x is below 1.
        large: erfc(x) = large * 2**n, otherwise.
        power: exp(-x**2) = power * 2**n.
        n: An integer, as float64.
    """

    is_small: jax.Array
    small: Pair
    large: Pair
    power: Pair
    n: jax.Array

    def complement(self) -> Pair:
        """Returns erfc(x) from 1 on, as exactly as a sum with 1 needs it."""
        scale = lax.max(self.n, constant(self.n, -200))
        scale = power_of_two(lax.convert_element_type(scale, np.int64))
        return scaled_by(self.large, scale)


def _error(x: jax.Array, exact: bool) -> _Error:
    is_small = is_below(x, 1)
    square, one = two_product(x, x), constant(x, 1)
    ratio = quotient(two_sum(x, lax.neg(one)), two_sum(x, constant(x, 3)), exact)
    less = plus_pair(square, with_zero(lax.neg(one)))
    factor = by_table("ERF", choose(is_small, less, ratio), exact)
    found = powers(negative(square), exact)
    power = found.sum()
    small, large = (times_pair(each, factor, exact) for each in (with_zero(x), power))
    return _Error(is_small, small, large, power, found.n)


def _erf(x: jax.Array, exact: bool) -> Scaled:
    magnitude = lax.min(lax.abs(x), constant(x, _LAST))
    magnitude, n = _raised(magnitude) if exact else (magnitude, None)
    found = _error(magnitude, exact)
    large = plus_less(pair(x, (1.0, 0.0)), negative(found.complement()), exact)
    return choose(found.is_small, found.small, large), n


def _erfc(x: jax.Array, exact: bool) -> Scaled:
    found = _error(lax.min(lax.abs(x), constant(x, _LAST)), exact)
    is_negative, one = has_sign(x), pair(x, (1.0, 0.0))
    small = choose(is_negative, found.small, negative(found.small))
    two = plus_less(pair(x, (2.0, 0.0)), negative(found.complement()), exact)
    large = choose(is_negative, two, found.large)
    is_scaled = lax.bitwise_not(lax.bitwise_or(is_negative, found.is_small))
    n = lax.select(is_scaled, found.n, constant(x, 0))
    return choose(found.is_small, plus_less(one, small, exact), large), n


def _erf_inv(x: jax.Array, exact: bool) -> Scaled:
    m = lax.min(lax.abs(x), constant(x, 1 - 2.0**-53))
    m, n = _raised(m) if exact else (m, None)
    rest = two_sum(constant(m, 1), lax.neg(m))
    depth = wide_root(lax.neg(wide_log(product(rest[0], plus(m, 1)))))
    y = product(m, by_table("ERF_INV", with_zero(depth), exact)[0])
    found = _error(y, exact)
    # The difference is divided by 2**found.n.
    scale = power_of_two(lax.convert_element_type(lax.neg(found.n), np.int64))
    small = scaled_by(plus_pair(found.small, with_zero(lax.neg(m))), scale)
    large = plus_pair(scaled_by(rest, scale), negative(found.large))
    difference = choose(found.is_small, small, large)
    step = quotient(times_pair(difference, pair(x, data.PAIR_HALF_ROOT_PI)), found.power, exact)
    second = product(step[0], y)
    more = product(product(step[0], second), plus(lax.neg(second), 1))
    return plus_pair(with_zero(y), negative(plus_pair(step, with_zero(lax.neg(more))))), n


def _finish_erf(x: jax.Array, result: jax.Array) -> jax.Array:
    result = with_sign(lax.abs(result), x)
    return with_nan(x, lax.select(lax.eq(x, constant(x, 0)), x, result))


def _finish_erfc(x: jax.Array, result: jax.Array) -> jax.Array:
    return with_nan(x, lax.select(lax.ge(x, constant(x, _LAST)), constant(x, 0), result))


def _finish_erf_inv(x: jax.Array, result: jax.Array) -> jax.Array:
    magnitude, one = lax.abs(x), constant(x, 1)
    result = lax.select(lax.eq(magnitude, one), constant(x, np.inf), result)
    return _finish_erf(x, lax.select(lax.gt(magnitude, one), constant(x, np.nan), result))


def _fraction(x: jax.Array) -> jax.Array:
    """Returns the distance from the nearest integer to x, from -1/2 to 1/2."""
    return lax.sub(x, nearest_integer(x))


def _half_turns(x: jax.Array, exact: bool) -> tuple[Pair, Pair]:
    """Returns sin(pi * x) and cos(pi * x) as magnitudes; 1 for the sine of an integer."""
    fraction = lax.abs(_fraction(x))
    rest = lax.sub(constant(x, 0.5), fraction)
    is_near = is_below(fraction, 0.25)
    angle = times_pair(with_zero(lax.select(is_near, fraction, rest)), pair(x, data.PAIR_PI))
    sine = sine_or_cosine(angle, lax.bitwise_not(is_near), exact)
    cosine = sine_or_cosine(angle, is_near, exact)
    return choose(lax.eq(fraction, constant(x, 0)), cosine, sine), cosine


def _lgamma(x: jax.Array, exact: bool) -> Scaled:
    m, one = usual_base(x), pair(x, (1.0, 0.0))
    is_large = lax.ge(m, constant(x, _LARGE))
    is_reflected = is_below(x, -0.5)
    # The magnitude of a number that is reflected is 1/2 or more.
    has_one, has_two = is_below(m, 1.5), is_below(lax.select(is_reflected, m, x), 0.5)
    small = lax.select(has_one, plus(m, -1.0), plus(m, -2.0))
    small = lax.select(has_two, with_sign(m, x), small)
    inverse = quotient(one, with_zero(lax.min(m, constant(x, _GREAT))), exact)
    argument = plus_pair(pair(x, (0.5, 0.0)), inverse)
    found = by_table("LGAMMA", choose(is_large, argument, with_zero(small)), exact)
    next_one = times_pair(with_zero(m), two_sum(constant(x, 1), small))
    has_next = lax.bitwise_and(has_two, lax.ge(m, constant(x, _TINY)))
    product_of = choose(has_next, next_one, with_zero(m))
    product_of = choose(lax.bitwise_or(is_large, has_one), product_of, one)
    log = logarithm(product_of, with_zero(plus(product_of[0], -1.0)), exact)
    above = plus_pair(times_pair(with_zero(small), found), negative(log))
    # A great result is divided, so that no part of it overflows.
    is_great = lax.ge(m, constant(x, _GREAT))
    scale = lax.select(is_great, constant(x, 2.0**-_RAISE), constant(x, 1))
    large = plus_pair(pair(x, data.PAIR_STIRLING), times_pair(inverse, found))
    slope = scaled_by(two_sum(m, constant(x, -0.5)), scale)
    main = times_pair(slope, plus_pair(log, pair(x, (-1.0, 0.0))))
    large = plus_pair(main, scaled_by(large, scale))
    above = choose(is_large, large, above)
    n = lax.select(is_great, constant(x, _RAISE), constant(x, 0))
    sine, _ = _half_turns(m, exact)
    below = times_pair(with_zero(m), times_pair(sine, pair(x, data.PAIR_1_PI)))
    below = choose(is_reflected, below, one)
    below = logarithm(below, plus_pair(below, pair(x, (-1.0, 0.0))), exact)
    below = negative(plus_pair(below, above))
    return choose(is_reflected, below, above), n


def _digamma(x: jax.Array, exact: bool) -> Scaled:
    m, n = _raised(usual_base(x))
    is_small, is_below_one = is_below(m, _LARGE_OF_DIGAMMA), is_below(m, 1)
    inverse = quotient(pair(x, (1.0, 0.0)), with_zero(lax.min(m, constant(x, _GREAT))), exact)
    more = lax.select(is_below_one, m, plus(m, -1.0))
    argument = choose(is_small, with_zero(more), plus_pair(pair(x, (1.0, 0.0)), inverse))
    found = by_table("DIGAMMA", argument, exact)
    first, second, third = (constant(x, -part) for part in tables()["ZERO_OF_DIGAMMA"])
    small = times_pair(plus_pair(two_sum(more, first), (second, third)), found)
    half = constant(x, 0.5)
    large = plus_pair(scaled_by(inverse, half), times_pair(times_pair(inverse, inverse), found))
    log = logarithm(with_zero(m), with_zero(plus(m, -1.0)), exact)
    result = choose(is_small, small, plus_pair(log, negative(large)))
    opposite = choose(is_below_one, negative(inverse), pair(x, (0.0, 0.0)))
    sine, cosine = _half_turns(m, exact)
    slope = times_pair(quotient(cosine, sine, exact), pair(x, data.PAIR_PI))
    slope = choose(is_below(_fraction(m), 0), negative(slope), slope)
    slope = choose(is_below_one, slope, plus_pair(slope, inverse))
    return plus_pair(choose(is_below(x, 0), slope, opposite), result), lax.neg(n)


def _error_of_sum(x: jax.Array, value: jax.Array, *, least: float, most: float) -> jax.Array:
    """Returns the error of the quick way. Below ``least``, a value is a sum of greater terms."""
    m = lax.min(lax.abs(x), constant(x, _GREAT))
    terms = plus(product(m, lax.min(times(m, 1 / 7), constant(x, most))), 1.0)
    terms = lax.select(lax.ge(x, constant(x, least)), constant(x, 0), terms)
    return times(lax.add(lax.abs(value), terms), _ERROR)


def _error_of_erf(x: jax.Array, value: jax.Array) -> jax.Array:
    """Returns the error of the quick way, which does not do for numbers below ``_LEAST``."""
    one = constant(x, 1)
    return product(value, lax.select(is_below(lax.abs(x), _LEAST), one, constant(x, _OF_ERF)))


_of_sum = functools.partial(functools.partial, _error_of_sum)
#: The functions by the names of JAX's primitives.
FUNCTIONS: Mapping[str, Double] = {
    "digamma": of_pairs(_digamma, finished_digamma, error=_of_sum(least=0.0, most=1.0)),
    "erf": of_pairs(_erf, _finish_erf, error=_error_of_erf),
    "erf_inv": of_pairs(_erf_inv, _finish_erf_inv, error=_error_of_erf),
    "erfc": of_pairs(_erfc, _finish_erfc, error=_ERROR),
    "lgamma": of_pairs(_lgamma, finished_lgamma, error=_of_sum(least=-0.5, most=40.0)),
}
