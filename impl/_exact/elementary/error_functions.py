"""erf, erfc and the inverse of erf.

Below 1, erf(x) / x is a polynomial of x**2. Above, erfc(x) * exp(x**2) is a polynomial of (x - 3) /
(x + 3), which maps [1, 10] to a short interval, as Shepherd and Laframboise (1981) map theirs. The
inverse of erf is x times a polynomial of w = -log(1 - x**2) below 5, and of sqrt(w) - 3 above
(Giles, *Approximating the erfinv function*, GPU Computing Gems Jade Edition, 2012).
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from impl._exact.arithmetic import product
from impl._exact.elementary import _coefficients as data
from impl._exact.elementary._words import (
    constant,
    has_sign,
    is_below,
    plus,
    polynomial,
    wide_quotient,
    wide_root,
    with_sign,
)
from impl._exact.elementary.exponentials import wide_exp
from impl._exact.elementary.logarithms import wide_log

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
