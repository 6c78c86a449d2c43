"""Elementary functions with 120 decimal digits, rounded once to a float.

A float64 is too short to tell whether a value near the middle of two float32 was rounded to the
nearer one. Python's decimals are correctly rounded, and as long as they need to be. For example,
near 0 the logistic function is less than the middle between two float32 by x**3 / 48::

    rounded_once("logistic", np.float32([3 * 2.0**-23]))    [0.5 + 2.0**-24], [True]
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np

from conformance.hunt.program import Array
from spec import oracles

_CONTEXT = decimal.Context(prec=120, Emax=10**6, Emin=-(10**6))
#: Greater arguments are left to float64.
_MOST = 400.0


def _sinh(x: Decimal) -> Decimal:
    return (x.exp() - (-x).exp()) / 2


def _cosh(x: Decimal) -> Decimal:
    return (x.exp() + (-x).exp()) / 2


#: The functions, by the names of tokens. One that is not defined for an argument raises an error.
FUNCTIONS: dict[str, Callable[[Decimal], Decimal]] = {
    "acosh": lambda x: (x + (x * x - 1).sqrt()).ln(),
    "asinh": lambda x: (abs(x) + (x * x + 1).sqrt()).ln().copy_sign(x),
    "atanh": lambda x: ((1 + x) / (1 - x)).ln() / 2,
    "cbrt": lambda x: (abs(x).ln() / 3).exp().copy_sign(x),
    "cosh": _cosh,
    "exp": lambda x: x.exp(),
    "exp2": lambda x: (x * Decimal(2).ln()).exp(),
    "expm1": lambda x: x.exp() - 1,
    "log": lambda x: x.ln(),
    "log1p": lambda x: (1 + x).ln(),
    "logistic": lambda x: 1 / (1 + (-x).exp()),
    "rsqrt": lambda x: 1 / x.sqrt(),
    "sinh": _sinh,
    "sqrt": lambda x: x.sqrt(),
    "tanh": lambda x: _sinh(x) / _cosh(x),
}


def rounded_once(name: str, arguments: Array) -> tuple[Array, Array]:
    """Returns the nearest floats to the values of a function, as float64.

    Args:
        name: A name of ``FUNCTIONS``.
        arguments: float16, bfloat16 or float32. Of float64, the guarantee rounds each step.

    Returns:
        The floats, and where they hold: not where the argument is great or no number, nor where
        the value is too small for a normal number.
    """
    wide = arguments.astype(np.float64)
    values, holds = np.zeros(wide.shape), np.zeros(wide.shape, bool)
    if arguments.dtype == np.float64:
        return values, holds
    least = 2 * float(ml_dtypes.finfo(arguments.dtype).smallest_normal)
    with decimal.localcontext(_CONTEXT):
        for index in np.argwhere(np.abs(wide) < _MOST):
            place = tuple(index)
            try:
                exact = FUNCTIONS[name](Decimal(float(wide[place])))
            except decimal.DecimalException:
                continue
            if exact.is_finite() and abs(exact) > least:
                values[place] = oracles.rounded_once(_binary(exact), arguments.dtype)
                holds[place] = True
    return values, holds


def _binary(value: Decimal) -> Fraction:
    """Returns a number as an integer times a power of two, with 300 bits."""
    numerator, denominator = value.as_integer_ratio()
    shift = max(300 - numerator.bit_length() + denominator.bit_length(), 0)
    return Fraction(numerator * 2**shift // denominator, 2**shift)
