"""Correctly rounded values of the elementary functions, and the judgement of other values.

This is Ziv's strategy (ACM Transactions on Mathematical Software 17(3), 1991,
doi:10.1145/114697.116813): round an approximation whose error is bounded, and compute with more
digits only where the bound leaves two results open. A value in float64 of NumPy or SciPy decides
nearly all arguments. It is wrong by a few units in its last place at most, so it rounds to float32
as the exact value does, unless it lies near the middle of two float32. There mpmath decides, with
40 digits, and also wherever a result differs.

For ``exp``::

    x        in float64            within 2**-48 of it              in float32
    0.5      1.6487212707001282    no middle of two float32         1.6487212
    2**-24   1.0000000596046466    the middle of 1 and 1.0000001    1.0000001, says mpmath
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import mpmath as mp
import numpy as np
from scipy import special

from conformance.lab.elementary.findings import Outcome

#: The relative error that a value in float64 may have, at most.
WINDOW = 2.0**-48
_TINY = 2.0**-126
DIGITS = 40
#: The digits of a value that is rounded to float64: a series of it may have a middle as a term.
_DIGITS_OF_DOUBLE = 120
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclasses.dataclass(frozen=True)
class Reference:
    """The two references of a function.

    Attributes:
        near: Computes it in float64, with a relative error of less than WINDOW.
        exact: Computes it with mpmath, for an argument for which it is finite.
        symmetry: 1 if the function is even, -1 if it is odd, else 0.
        absolute: An absolute error that ``near`` may have besides.
    """

    near: Callable[..., np.ndarray]
    exact: Callable[..., Any]
    symmetry: int = 0
    absolute: float = 0.0


def _erf_inv(x: np.ndarray) -> np.ndarray:
    result = np.full(x.shape, np.nan)
    inside = np.abs(x) <= 1
    # SciPy gives 0 for -0, and takes long beyond 1.
    result[inside] = np.copysign(special.erfinv(x[inside]), x[inside])
    return result


def _lgamma(x: np.ndarray) -> np.ndarray:
    # For -infinity, SciPy gives -infinity.
    result = np.full(x.shape, np.inf)
    known = ~_is_pole(x) & (x != np.inf)
    result[known] = special.gammaln(x[known])
    return result


def _is_pole(x: np.ndarray) -> np.ndarray:
    is_pole: np.ndarray = (x <= 0) & (x == np.floor(x))
    return is_pole


def _exact_lgamma(x: Any) -> Any:
    if x > 0:
        return mp.loggamma(x)
    if x == mp.floor(x):
        return mp.inf
    return mp.log(abs(mp.pi / (x * mp.sinpi(x)))) - mp.loggamma(-x)


def _digamma(x: np.ndarray) -> np.ndarray:
    result = np.where(x == 0, -np.inf, np.nan)
    result[x > 0] = special.psi(x[x > 0])
    below = (x < 0) & ~_is_pole(x)
    # SciPy loses digits below 0. There 1 - x is exact, or so great that its error is small.
    fraction = x[below] - np.round(x[below])
    result[below] = special.psi(1 - x[below]) - np.pi / np.tan(np.pi * fraction)
    return result


#: Near the zeros of the gamma functions, terms cancel.
_CANCELLED = 2.0**-45

REFERENCES: Mapping[str, Reference] = {
    "exp": Reference(np.exp, mp.exp),
    "log": Reference(np.log, mp.log),
    "tanh": Reference(np.tanh, mp.tanh, -1),
    "logistic": Reference(special.expit, lambda x: 1 / (1 + mp.exp(-x))),
    "rsqrt": Reference(lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x)),
    "sqrt": Reference(np.sqrt, mp.sqrt),
    "erf": Reference(special.erf, mp.erf, -1),
    "log1p": Reference(np.log1p, mp.log1p),
    "expm1": Reference(np.expm1, mp.expm1),
    "sin": Reference(np.sin, mp.sin, -1),
    "cos": Reference(np.cos, mp.cos, 1),
    "erf_inv": Reference(_erf_inv, mp.erfinv, -1),
    "exp2": Reference(np.exp2, lambda x: mp.power(2, x)),
    "erfc": Reference(special.erfc, mp.erfc),
    "tan": Reference(np.tan, mp.tan, -1),
    "asin": Reference(np.arcsin, mp.asin, -1),
    "acos": Reference(np.arccos, mp.acos),
    "atan": Reference(np.arctan, mp.atan, -1),
    "sinh": Reference(np.sinh, mp.sinh, -1),
    "cosh": Reference(np.cosh, mp.cosh, 1),
    "asinh": Reference(np.arcsinh, mp.asinh, -1),
    "acosh": Reference(np.arccosh, mp.acosh),
    "atanh": Reference(np.arctanh, mp.atanh, -1),
    "cbrt": Reference(np.cbrt, lambda x: mp.cbrt(x) if x >= 0 else -mp.cbrt(-x), -1),
    "lgamma": Reference(_lgamma, _exact_lgamma, absolute=_CANCELLED),
    "digamma": Reference(_digamma, mp.digamma, absolute=_CANCELLED),
}


def _power(x: Any, y: Any) -> Any:
    return mp.power(x, y) if mp.isfinite(x) and mp.isfinite(y) else mp.nan


#: The references of the functions of two arguments, of which the second may be a parameter.
_OF_TWO: Mapping[str, Reference] = {
    "atan2": Reference(np.arctan2, mp.atan2),
    "div": Reference(np.divide, mp.fdiv),
    "integer_pow": Reference(np.power, _power),
    "pow": Reference(np.power, _power),
}


def _reference(name: str) -> Reference:
    return REFERENCES[name] if name in REFERENCES else _OF_TWO[name]


def _flushed(x: np.ndarray) -> np.ndarray:
    is_tiny = np.abs(x) < _TINY
    return np.where(is_tiny, np.copysign(0.0, x), x) if np.any(is_tiny) else x


def near_values(name: str, *operands: np.ndarray) -> np.ndarray:
    """Returns a function in float64, of arguments whose subnormals are zeros."""
    with np.errstate(all="ignore"):
        wide = [operand.astype(np.float64) for operand in operands]
        wide = [_flushed(x) for x in wide]
        return _reference(name).near(*wide)


def rounded(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Returns float64 rounded to ``dtype`` once; subnormals of float32 become 0."""
    values = np.where(np.abs(values) < _TINY, np.copysign(0.0, values), values)
    with np.errstate(all="ignore"):
        if dtype != _BFLOAT16:
            return values.astype(dtype)
        # ml_dtypes rounds to float32 first, so the value has 8 bits by then.
        raw = values.view(np.int64)
        even = (raw >> 45) & 1
        short = (raw + ((1 << 44) - 1) + even) >> 45 << 45
        short = np.where(np.isfinite(values), short, raw)
        return short.view(np.float64).astype(np.float32).astype(dtype)


def undecided(values: np.ndarray, dtype: np.dtype, absolute: float = 0.0) -> np.ndarray:
    """Returns where a value in float64 is too near the middle of two neighbours of a dtype.

    ``absolute`` is an absolute error that the values may have besides the relative one.
    """
    with np.errstate(all="ignore"):
        error = np.abs(values) * WINDOW + absolute
        low, high = (rounded(values + change, dtype) for change in (-error, error))
    result: np.ndarray = (low != high) & np.isfinite(values)
    return result


def exact_value(name: str, *operands: float) -> Any:
    """Returns a function with 40 digits, for arguments for which it is finite."""
    with mp.workdps(DIGITS):
        return _reference(name).exact(*(mp.mpf(0 if abs(x) < _TINY else x) for x in operands))


def rounded_exactly(value: Any, dtype: np.dtype) -> Any:
    """Returns a number of mpmath rounded to ``dtype`` once.

    The number is first rounded to float64 by round-to-odd (Boldo and Melquiond, IEEE Transactions
    on Computers 57(4), 2008): the last bit is set if the number is inexact. A second rounding, to
    fewer bits, then gives the result of a single one. A number that rounds to the least normal
    float32 in float64 is not flushed as a subnormal.
    """
    with mp.workdps(DIGITS):
        near = float(value)
        if mp.mpf(near) != value and np.isfinite(near) and near != 0:
            toward_zero = near if abs(mp.mpf(near)) < abs(value) else np.nextafter(near, 0.0)
            raw = np.array(toward_zero).view(np.int64) | 1
            odd = float(raw.view(np.float64))
            near = near if abs(odd) < _TINY <= abs(near) else odd
    return rounded(np.array([near]), dtype)[0]


def correct(name: str, *operands: np.ndarray, **parameters: int) -> np.ndarray:
    """Returns the correctly rounded values of a function; of log2, the values that it promises."""
    dtype = operands[0].dtype
    if name == "log2":
        two = np.full(operands[0].shape, np.log(2)).astype(dtype)
        return correct("div", correct("log", *operands), two)
    operands += tuple(np.full(operands[0].shape, float(p)) for p in parameters.values())
    if dtype == np.float64:
        return _correct_doubles(name, *operands)
    values = near_values(name, *operands)
    result = rounded(values, dtype)
    absolute = _reference(name).absolute
    for i in np.flatnonzero(undecided(values, dtype, absolute)):
        exact = exact_value(name, *(float(x[i]) for x in operands))
        result[i] = rounded_exactly(exact, dtype)
    return result


def _correct_doubles(name: str, *operands: np.ndarray) -> np.ndarray:
    tiny = np.finfo(np.float64).smallest_normal
    operands = tuple(np.where(np.abs(x) < tiny, np.copysign(0.0, x), x) for x in operands)
    with np.errstate(all="ignore"):
        result = np.array(_reference(name).near(*operands))
    # Of zeros and infinities, NumPy knows the values, and their signs.
    is_ordinary = [np.isfinite(x) & (x != 0) for x in (result, *operands)]
    for i in np.flatnonzero(np.all(is_ordinary, axis=0)):
        with mp.workdps(_DIGITS_OF_DOUBLE):
            exact = _reference(name).exact(*(mp.mpf(float(x[i])) for x in operands))
        with mp.workprec(53):
            result[i] = float(+exact)
    return np.where(np.abs(result) < tiny, np.copysign(0.0, result), result)


def judged(name: str, result: np.ndarray, *operands: np.ndarray) -> Outcome:
    """Returns the findings about the results of a primitive.

    The operands are arrays of the shape and dtype of the results.
    """
    values = near_values(name, *operands)
    right = rounded(values, result.dtype)
    differs = (bits(right) != bits(result)) & ~(np.isnan(result) & np.isnan(values))
    is_open = undecided(values, result.dtype, _reference(name).absolute)
    # The sign of a zero, an infinity or a NaN is known without mpmath.
    ordinary = np.isfinite(values)
    outcome = graves(result, differs & ~ordinary, *operands)
    outcome.tried = len(result)
    for i in np.flatnonzero((differs & ordinary) | is_open):
        arguments = tuple(float(operand[i]) for operand in operands)
        outcome.add(_judged_exactly(name, result[i], arguments))
    return outcome


def compared(result: np.ndarray, right: np.ndarray, x: np.ndarray) -> Outcome:
    """Returns the findings about results that are to have the bits of ``right``; NaN is NaN."""
    differs = (bits(result) != bits(right)) & ~(np.isnan(result) & np.isnan(right))
    outcome = graves(result, differs, x)
    outcome.tried = len(result)
    return outcome


def graves(result: np.ndarray, is_wrong: np.ndarray, *operands: np.ndarray) -> Outcome:
    """Returns the finding that some results are wrong by more than a rounding."""
    outcome = Outcome()
    for i in np.flatnonzero(is_wrong):
        arguments = tuple(float(operand[i]) for operand in operands)
        outcome.wrong.append((arguments, float(result[i])))
        outcome.error = float("inf")
    return outcome


def _judged_exactly(name: str, result: Any, arguments: tuple[float, ...]) -> Outcome:
    """Returns the finding about one result, which mpmath decides."""
    exact = exact_value(name, *arguments)
    right = rounded_exactly(exact, result.dtype)
    outcome = Outcome(by_mpmath=1)
    if bits(np.asarray(right)) != bits(np.asarray(result)):
        outcome.wrong.append((arguments, float(result)))
        outcome.error = _error(exact, result, right)
    distance = 0.5 - _error(exact, right, right)
    if result.dtype == np.float32 and distance > 0:
        outcome.hardest.append((distance, arguments))
    return outcome


def _error(exact: Any, result: Any, right: Any) -> float:
    """Returns the error of a result in units in the last place of the right one."""
    info = ml_dtypes.finfo(np.asarray(result).dtype)
    exponent = np.frexp(float(right))[1] - info.nmant - 1
    if not np.isfinite(float(result)):
        return float("inf")
    with mp.workdps(DIGITS):
        return float(abs(mp.mpf(float(result)) - exact) / mp.mpf(2) ** int(exponent))


def bits(values: np.ndarray) -> np.ndarray:
    """Returns the bits of floats as integers."""
    return values.view(np.dtype(f"int{8 * values.dtype.itemsize}"))
