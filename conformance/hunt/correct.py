"""Elementary functions by mpmath, rounded once to a float.

A float64 is too short to tell whether a value near the middle of two float32 was rounded to the
nearer one. For example, near 0 the logistic function is less than the middle between two float32 by
x**3 / 48::

    rounded_once("logistic", np.float32([3 * 2.0**-23]))    [0.5 + 2.0**-24], [True]
"""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import mpmath as mp
import numpy as np

from conformance.hunt.program import Array
from conformance.lab.elementary import reference
from spec import oracles

#: The functions, by the names of tokens. The gamma functions have signed infinities at their poles.
FUNCTIONS = frozenset(reference.REFERENCES) - {"lgamma", "digamma"}


def rounded_once(name: str, arguments: Array) -> tuple[Array, Array]:
    """Returns the nearest floats to the values of a function, as float64.

    Args:
        name: A name of ``FUNCTIONS``.
        arguments: float16, bfloat16 or float32. Of float64, the guarantee rounds each step.

    Returns:
        The floats, and where they hold: not where the argument is infinite or no number, nor where
        the value is not a real number, or is too small for a normal number.
    """
    wide = arguments.astype(np.float64)
    values, holds = np.zeros(wide.shape), np.zeros(wide.shape, bool)
    if arguments.dtype == np.float64:
        return values, holds
    least = 2 * float(ml_dtypes.finfo(arguments.dtype).smallest_normal)
    for index in map(tuple, np.argwhere(np.isfinite(wide))):
        try:
            exact = reference.exact_value(name, float(wide[index]))
        except (ValueError, ZeroDivisionError):
            continue
        if isinstance(exact, mp.mpf) and mp.isfinite(exact) and abs(exact) > least:
            number = Fraction(int(exact.man)) * Fraction(2) ** int(exact.exp)
            number = -number if exact < 0 else number
            values[index], holds[index] = oracles.rounded_once(number, arguments.dtype), True
    return values, holds
