"""Elementary functions with the same bits on every device: the exact value, rounded once.

A function reduces its argument to a short interval, evaluates a polynomial there by Estrin's
scheme, and undoes the reduction. The polynomials interpolate at Chebyshev nodes
(``coefficients.toml``); each module names its reductions. Muller, *Elementary Functions* (3rd
edition, 2016), explains both.

A function of one argument of up to 32 bits is computed in float64 and rounded once. ``nox -s
exhaustive`` proves for every argument that the result is the exact value, rounded once. ``_words``
has the few arguments for which float64 does not suffice. ``pow`` and ``atan2`` are computed as
pairs of float64 instead (``_pairs``), and so are the functions of float64 (``doubles``).

A product is sealed before a sum uses it, unless the exhaustive test proves that no result depends
on it: in exp, log, log1p and logistic. Divisions and roots are divisions and roots of float64.
Subnormal operands and results of float32 and bfloat16 count as zeros of their sign. Call the
functions inside ``arithmetic.wide()``.

The functions are in ``exponentials``, which has logarithms too, ``powers``,
``roots_and_quotients``, ``trigonometric`` and ``special_functions``, and for complex numbers in
``complex_numbers``.
``_words`` has polynomials, whose coefficients a program writes (``coefficients.toml``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

import jax
import numpy as np
from jax import lax

from impl._exact.elementary import (
    doubles,
    exponentials,
    powers,
    roots_and_quotients,
    special_functions,
    trigonometric,
)
from impl._exact.elementary._words import Wide, mended, rounded_once


def _of_primitive(name: str, function: Wide) -> Callable[..., jax.Array]:
    """Returns the function of a primitive: a function of float64, rounded once.

    It takes any shape of float32, float16 or bfloat16, and raises a TypeError for another dtype.
    """

    def rounded(x: jax.Array, **_: object) -> jax.Array:
        return mended(name, rounded_once(function, x), x)

    return rounded


#: Functions of float64, whose results are rounded once.
_ROUNDED: Mapping[str, Wide] = {
    "acos": trigonometric.wide_acos,
    "acosh": exponentials.wide_acosh,
    "asin": trigonometric.wide_asin,
    "asinh": exponentials.wide_asinh,
    "atan": trigonometric.wide_atan,
    "atanh": exponentials.wide_atanh,
    "cbrt": powers.wide_cbrt,
    "cos": trigonometric.wide_cos,
    "cosh": exponentials.wide_cosh,
    "digamma": special_functions.wide_digamma,
    "erf": special_functions.wide_erf,
    "erf_inv": special_functions.wide_erf_inv,
    "erfc": special_functions.wide_erfc,
    "exp2": exponentials.wide_exp2,
    "expm1": exponentials.wide_expm1,
    "lgamma": special_functions.wide_lgamma,
    # The exhaustive test proves that no result depends on seals of these products.
    "log1p": functools.partial(exponentials.wide_log1p, product=lax.mul),
    "logistic": exponentials.wide_logistic,
    "sin": trigonometric.wide_sin,
    "sinh": exponentials.wide_sinh,
    "tan": trigonometric.wide_tan,
    "tanh": exponentials.wide_tanh,
}
_NARROW: Mapping[str, Callable[..., jax.Array]] = MappingProxyType(
    {
        **{name: _of_primitive(name, function) for name, function in _ROUNDED.items()},
        "atan2": trigonometric.atan2,
        "div": roots_and_quotients.div,
        "exp": exponentials.exp,
        "integer_pow": powers.integer_pow,
        "log": exponentials.log,
        "log2": exponentials.log2,
        "pow": powers.pow,
        "rsqrt": roots_and_quotients.rsqrt,
        "sqrt": roots_and_quotients.sqrt,
    }
)


def _by_dtype(name: str, function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    double = doubles.FUNCTIONS.get(name)
    if double is None:
        return function

    def chosen(*operands: jax.Array, **params: object) -> jax.Array:
        is_double = operands[0].dtype == np.float64
        return (double.full if is_double else function)(*operands, **params)

    return chosen


#: The function of each of JAX's primitives, by the primitive's name. It takes the operands and the
#: parameters of an equation, and returns an array of the operands' dtype.
FUNCTIONS: Mapping[str, Callable[..., jax.Array]] = MappingProxyType(
    {name: _by_dtype(name, function) for name, function in _NARROW.items()}
)
