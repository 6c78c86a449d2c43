"""Elementary functions with the same bits on every device: the exact value, rounded once.

A function reduces its argument to a short interval, evaluates a polynomial there by Estrin's
scheme, and undoes the reduction. The polynomials interpolate at Chebyshev nodes
(``_coefficients``); each module names its reductions. Muller, *Elementary Functions* (3rd edition,
2016), explains both.

A function of one argument is computed in float64 and rounded once. ``nox -s exhaustive`` proves for
every argument that the result is the exact value, rounded once. ``_exceptions`` has the few
arguments for which float64 does not suffice. ``pow`` and ``atan2`` are computed as pairs of float64
instead (``_pairs``).

A product is sealed before a sum uses it, unless the exhaustive test proves that no result depends
on it: in exp, log, log1p and logistic. Divisions and roots are divisions and roots of float64.
Subnormal operands and results of float32 and bfloat16 count as zeros of their sign. Call the
functions inside ``arithmetic.wide()``.

The functions are in ``exponentials``, ``logarithms``, ``powers``, ``roots_and_quotients``,
``trigonometric``, ``inverse_trigonometric``, ``hyperbolic``, ``error_functions`` and ``gamma``,
and for complex numbers in ``complex_numbers``. ``_pair_functions`` has functions of pairs.
``_words`` has constants and polynomials, whose ``_coefficients`` a program writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import jax

from impl._exact.elementary import (
    error_functions,
    exponentials,
    gamma,
    hyperbolic,
    inverse_trigonometric,
    logarithms,
    powers,
    roots_and_quotients,
    trigonometric,
)

#: The function of each of JAX's primitives, by the primitive's name. It takes the operands and the
#: parameters of an equation, and returns an array of the operands' dtype.
FUNCTIONS: Mapping[str, Callable[..., jax.Array]] = MappingProxyType(
    {
        "acos": inverse_trigonometric.acos,
        "acosh": hyperbolic.acosh,
        "asin": inverse_trigonometric.asin,
        "asinh": hyperbolic.asinh,
        "atan": inverse_trigonometric.atan,
        "atan2": inverse_trigonometric.atan2,
        "atanh": hyperbolic.atanh,
        "cbrt": powers.cbrt,
        "cos": trigonometric.cos,
        "cosh": hyperbolic.cosh,
        "digamma": gamma.digamma,
        "div": roots_and_quotients.div,
        "erf": error_functions.erf,
        "erf_inv": error_functions.erf_inv,
        "erfc": error_functions.erfc,
        "exp": exponentials.exp,
        "exp2": exponentials.exp2,
        "expm1": exponentials.expm1,
        "integer_pow": powers.integer_pow,
        "lgamma": gamma.lgamma,
        "log": logarithms.log,
        "log1p": logarithms.log1p,
        "log2": logarithms.log2,
        "logistic": hyperbolic.logistic,
        "pow": powers.pow,
        "rsqrt": roots_and_quotients.rsqrt,
        "sin": trigonometric.sin,
        "sinh": hyperbolic.sinh,
        "sqrt": roots_and_quotients.sqrt,
        "tan": trigonometric.tan,
        "tanh": hyperbolic.tanh,
    }
)
#: The primitives whose functions take float64 too; their docstrings state the error.
DOUBLE = frozenset({"div", "exp", "integer_pow", "log", "rsqrt", "sqrt"})
