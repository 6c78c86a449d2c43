"""Compares results of an elementary function with correctly rounded values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import mpmath as mp
import numpy as np

from conformance.lab.elementary import reference
from conformance.lab.elementary.findings import Outcome


def judged(name: str, result: np.ndarray, *operands: np.ndarray) -> Outcome:
    """Returns the findings about the results of a function of some operands.

    Args:
        name: The name of its primitive.
        result: The results.
        operands: Arrays of the shape and dtype of the results.
    """
    values = reference.near_values(name, *operands)
    differs, is_open = reference.comparison(name, result, values)
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
    exact = reference.exact_value(name, *arguments)
    right = reference.rounded_exactly(exact, result.dtype)
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
    with mp.workdps(reference.DIGITS):
        return float(abs(mp.mpf(float(result)) - exact) / mp.mpf(2) ** int(exponent))


def bits(values: np.ndarray) -> np.ndarray:
    """Returns the bits of floats as integers."""
    return values.view(np.dtype(f"int{8 * values.dtype.itemsize}"))
