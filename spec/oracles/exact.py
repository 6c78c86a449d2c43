"""Oracles of the orders ``exact`` and ``doubling``, in integers of any size."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from spec.loader import load
from spec.oracles._numerics import Array, nearest_even

#: The bits of a significand, and the exponents of the least and of the greatest normal number.
_FORMATS = {
    "float16": (11, -14, 15),
    "bfloat16": (8, -126, 127),
    "float32": (24, -126, 127),
    "float64": (53, -1022, 1023),
}


def exact(terms: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """Sums along the first axis, exactly.

    Args:
        terms: Shape [n, ...]: float16, bfloat16, float32 or float64.
        dtype: The dtype of the result; None for the dtype of ``terms``.

    Returns:
        Shape [...].
    """
    dtype = np.dtype(dtype or terms.dtype)
    out = np.zeros(terms.shape[1:], dtype)
    values = _values(terms)
    counts, units = _counts(values, terms.dtype.name, again=terms.dtype.name == "float64")
    for column in np.ndindex(out.shape):
        at = (slice(None), *column)
        total = sum(counts[at].tolist())
        out[column] = _rounded_sum(values[at], total, int(units[column]), dtype)
    return out


def exact_running(terms: Array) -> Array:
    """Returns the running sums along the first axis, of the shape and dtype of ``terms``."""
    out = np.zeros_like(terms)
    values = _values(terms)
    counts, units = _counts(values, terms.dtype.name, again=True)
    for column in np.ndindex(terms.shape[1:]):
        at = (slice(None), *column)
        totals = itertools.accumulate(counts[at].tolist())
        out[at] = np.array(
            [
                _rounded_sum(values[: i + 1][at], total, int(units[column]), terms.dtype)
                for i, total in enumerate(totals)
            ],
            terms.dtype,
        )
    return out


def doubling(factors: Array) -> Array:
    """Returns the running products along the first axis, of the shape and dtype of ``factors``."""
    # The exponents have no limit. Zeros, infinities and NaNs have the exponent 0.
    significand, exponent = np.frexp(_values(factors))
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
            rounded = _rounded_once(int(value * 2.0**53), int(exponent[at]) - 53, factors.dtype)
            value = math.copysign(rounded, value)
        out[at] = value
    return out


def _values(terms: Array) -> Array:
    """Returns numbers in float64, without subnormals, which become zeros of their sign."""
    lowest = 2.0 ** (-24 if terms.dtype.name == "float16" else _FORMATS[terms.dtype.name][1])
    wide = terms.astype(np.float64)
    return np.where(abs(wide) < lowest, np.copysign(0.0, wide), wide)


def _counts(values: Array, name: str, *, again: bool) -> tuple[Array, Array]:
    """Returns each term as a count of units, and the exponents of the units.

    Args:
        values: Shape [n, ...]. Infinities and NaNs count as 0.
        name: The name of the dtype of the terms.
        again: Whether the remainder of a term is rounded too.

    Returns:
        Integers of the shape of ``values``, and exponents of the shape [...].
    """
    parameters = load().orders["exact"].parameters
    bits = parameters["bits"]
    finite = np.where(np.isfinite(values), values, 0.0)
    least = np.iinfo(np.int32).min
    exponents = np.where(finite == 0, least, np.frexp(finite)[1])
    exponent = exponents.max(0, initial=least)
    exponent = np.where(exponent == least, 0, exponent)
    if name == "float64":
        exponent = np.maximum(exponent, parameters["lowest"])
    units = exponent - bits
    scaled = np.ldexp(finite, -units)
    counts = _nearest(scaled)
    if not again:
        return counts.astype(np.int64), units
    rest = _nearest(np.ldexp(scaled - counts, bits))
    return (counts.astype(np.int64) << bits) + rest.astype(np.int64), units - bits


def _nearest(values: Array) -> Array:
    """Returns the nearest integers; of two integers, the one farther from 0."""
    whole = np.trunc(values)
    away = abs(values - whole) >= 0.5
    return whole + np.where(away, np.copysign(1.0, values), 0.0)


def _rounded_sum(
    values: Array, total: int, unit: int, dtype: np.dtype[np.generic]
) -> float | np.generic:
    """Returns the rounded sum of terms, whose finite part is ``total * 2**unit``."""
    special = set(values[~np.isfinite(values)].tolist())
    if special:
        return special.pop() if len(special) == 1 else math.nan
    return _rounded_once(total, unit, dtype)


def _rounded_once(total: int, unit: int, dtype: np.dtype[np.generic]) -> float:
    """Returns ``total * 2**unit`` rounded to a dtype, as a float that converts without error."""
    if total == 0:
        return 0.0
    bits, least, greatest = _FORMATS[dtype.name]
    exponent = total.bit_length() - 1 + unit
    # A float16 has its subnormals, since XLA computes it in float32.
    quantum = max(exponent, least if bits == 11 else exponent) - bits + 1
    rounded = nearest_even(total, quantum - unit)
    leading = rounded.bit_length() - 1 + quantum
    if leading > greatest:
        return math.copysign(math.inf, total)
    # A float32 is flushed after it is rounded. A bfloat16 is flushed as a float32, before.
    if (leading if bits in (11, 24) else exponent) < (-24 if bits == 11 else least):
        return math.copysign(0.0, total)
    return math.ldexp(rounded, quantum)
