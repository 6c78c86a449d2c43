"""Elementary functions with 120 decimal digits, rounded once to a float.

A float64 is too short to tell whether a value near the middle of two float32 was rounded to the
nearer one. Python's decimals are correctly rounded, and as long as they need to be. For example,
near 0 the logistic function is less than the middle between two float32 by x**3 / 48::

    rounded_once("logistic", np.float32([3 * 2.0**-23]))    [0.5 + 2.0**-24], [True]
"""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np

from conformance.hunt.program import Array
from spec import oracles

_CONTEXT = decimal.Context(prec=120, Emax=10**6, Emin=-(10**6))
#: The number of digits with which angles are reduced: the digits of the greatest float32, and more.
_ANGLE_DIGITS = 220


def _sinh(x: Decimal) -> Decimal:
    return (x.exp() - (-x).exp()) / 2


def _cosh(x: Decimal) -> Decimal:
    return (x.exp() + (-x).exp()) / 2


def _sine(x: Decimal, ahead: int) -> Decimal:
    """Returns the sine of an angle plus ``ahead`` quarter turns, by its series."""
    with decimal.localcontext(prec=_ANGLE_DIGITS):
        turns = (x / _quarter_turn()).to_integral_value()
        rest = x - turns * _quarter_turn()
        quadrant = (int(turns) + ahead) % 4
        # A cosine is a series of even powers.
        degree = 1 - quadrant % 2
        term, total = (rest if degree else Decimal(1)), Decimal(0)
        while total + term != total:
            total += term
            term *= -rest * rest / ((degree + 1) * (degree + 2))
            degree += 2
        return -total if quadrant > 1 else total


@functools.cache
def _quarter_turn() -> Decimal:
    """Returns pi / 2, by Machin's formula."""

    def arctangent(k: int) -> Decimal:
        terms = (Decimal((-1) ** i) / ((2 * i + 1) * k ** (2 * i + 1)) for i in range(200))
        return sum(terms, Decimal(0))

    return 2 * (4 * arctangent(5) - arctangent(239))


#: The functions, by the names of tokens. One that is not defined for an argument raises an error.
FUNCTIONS: dict[str, Callable[[Decimal], Decimal]] = {
    "acosh": lambda x: (x + (x * x - 1).sqrt()).ln(),
    "asinh": lambda x: (abs(x) + (x * x + 1).sqrt()).ln().copy_sign(x),
    "atanh": lambda x: ((1 + x) / (1 - x)).ln() / 2,
    "cbrt": lambda x: (abs(x).ln() / 3).exp().copy_sign(x),
    "cos": lambda x: _sine(x, 1),
    "cosh": _cosh,
    "exp": lambda x: x.exp(),
    "exp2": lambda x: (x * Decimal(2).ln()).exp(),
    "expm1": lambda x: x.exp() - 1,
    "log": lambda x: x.ln(),
    "log1p": lambda x: (1 + x).ln(),
    "logistic": lambda x: 1 / (1 + (-x).exp()),
    "rsqrt": lambda x: 1 / x.sqrt(),
    "sin": lambda x: _sine(x, 0),
    "sinh": _sinh,
    "sqrt": lambda x: x.sqrt(),
    "tan": lambda x: _sine(x, 0) / _sine(x, 1),
    "tanh": lambda x: _sinh(x) / _cosh(x),
}


def rounded_once(name: str, arguments: Array) -> tuple[Array, Array]:
    """Returns the nearest floats to the values of a function, as float64.

    Args:
        name: A name of ``FUNCTIONS``.
        arguments: float16, bfloat16 or float32. Of float64, the guarantee rounds each step.

    Returns:
        The floats, and where they hold: not where the argument is infinite or no number, nor where
        the value is beyond a decimal, or too small for a normal number.
    """
    wide = arguments.astype(np.float64)
    values, holds = np.zeros(wide.shape), np.zeros(wide.shape, bool)
    if arguments.dtype == np.float64:
        return values, holds
    least = 2 * float(ml_dtypes.finfo(arguments.dtype).smallest_normal)
    with decimal.localcontext(_CONTEXT):
        for index in np.argwhere(np.isfinite(wide)):
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
