"""The oracle of running products."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from spec.oracles._numerics import Array
from spec.oracles.nearest import flushed, rounded_once


def doubling(factors: Array) -> Array:
    """Returns the running products along the first axis, of the shape and dtype of ``factors``."""
    # The exponents have no limit. Zeros, infinities and NaNs have the exponent 0.
    significand, exponent = np.frexp(flushed(factors))
    distance = 1
    while distance < len(factors):
        with np.errstate(invalid="ignore"):
            products = significand[distance:] * significand[:-distance]
        significand[distance:], more = np.frexp(products)
        exponent[distance:] = exponent[distance:] + exponent[:-distance] + more
        distance *= 2
    out = np.zeros_like(factors)
    for at in np.ndindex(factors.shape):
        value = float(significand[at])
        if math.isfinite(value):
            exact = Fraction(value) * Fraction(2) ** int(exponent[at])
            value = math.copysign(rounded_once(exact, factors.dtype), value)
        out[at] = value
    return out
