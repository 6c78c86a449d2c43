"""Oracles of exact sums and of products, in integers and fractions of any size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from spec.loader import load
from spec.oracles._numerics import Array

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
        dtype: The dtype of the result; None for that of ``terms``.

    Returns:
        Shape [...].
    """
    dtype = np.dtype(dtype or terms.dtype)
    out = np.zeros(terms.shape[1:], dtype)
    for column in np.ndindex(out.shape):
        values = _values(terms[(slice(None), *column)])
        out[column] = _sum(values, terms.dtype.name, dtype)
    return out


def exact_running(terms: Array) -> Array:
    """Returns the running sums along the first axis, of the shape and dtype of ``terms``."""
    out = np.zeros_like(terms)
    for column in np.ndindex(terms.shape[1:]):
        place = (slice(None), *column)
        values = _values(terms[place])
        grid = _grid(values, terms.dtype.name)
        sums = [_sum(values[: i + 1], "float64", terms.dtype, grid) for i in range(len(values))]
        out[place] = np.array(sums, terms.dtype)
    return out


def doubling(factors: Array) -> Array:
    """Returns the running products along the first axis, of the shape and dtype of ``factors``."""
    out = np.zeros_like(factors)
    for column in np.ndindex(factors.shape[1:]):
        place = (slice(None), *column)
        running = [_Factor.of(value) for value in _values(factors[place])]
        distance = 1
        while distance < len(running):
            earlier = [None] * distance + running[:-distance]
            running = [
                b if a is None else a.times(b) for a, b in zip(earlier, running, strict=True)
            ]
            distance *= 2
        out[place] = np.array([factor.rounded(factors.dtype) for factor in running], out.dtype)
    return out


def _values(column: Array) -> list[float]:
    """Returns numbers without subnormals, which become zeros of their sign."""
    lowest = 2.0 ** (-24 if column.dtype.name == "float16" else _FORMATS[column.dtype.name][1])
    wide = column.astype(np.float64)
    return [float(x) if not abs(x) < lowest else math.copysign(0, x) for x in wide]


def _grid(values: Iterable[float], name: str) -> Fraction:
    parameters = load().orders["exact"].parameters
    exponents = [math.frexp(x)[1] for x in values if x and math.isfinite(x)]
    exponent = max(exponents, default=0)
    if name == "float64":
        exponent = max(exponent, parameters["lowest"])
    return Fraction(2) ** (exponent - parameters["bits"])


def _sum(
    values: Sequence[float], name: str, dtype: np.dtype[np.generic], grid: Fraction | None = None
) -> float | np.generic:
    special = [x for x in values if not math.isfinite(x)]
    if special:
        return special[0] if len(set(special)) == 1 else math.nan
    grid = _grid(values, name) if grid is None else grid
    total = Fraction(0)
    for x in map(Fraction, values):
        rounded = _nearest(x / grid) * grid
        if name == "float64":
            finer = grid / 2 ** load().orders["exact"].parameters["bits"]
            rounded += _nearest((x - rounded) / finer) * finer
        total += rounded
    return _round(total, dtype)


def _nearest(x: Fraction) -> int:
    """Returns the nearest integer; of two, the one farther from 0."""
    size = math.floor(abs(x) + Fraction(1, 2))
    return size if x > 0 else -size


def _round(x: Fraction, dtype: np.dtype[np.generic]) -> float:
    """Returns a number rounded to a dtype, as a float that converts to it without error."""
    bits, least, greatest = _FORMATS[dtype.name]
    if x == 0:
        return 0.0
    exponent = _exponent(x)
    # A float16 has its subnormals, since XLA computes it in float32.
    quantum = Fraction(2) ** (max(exponent, least if bits == 11 else exponent) - bits + 1)
    rounded = round(x / quantum) * quantum
    if abs(rounded) >= Fraction(2) ** (greatest + 1):
        return math.inf if x > 0 else -math.inf
    # A float32 is flushed once it is rounded, and a bfloat16 as the float32 that it comes from.
    if abs(rounded if bits in (11, 24) else x) < Fraction(2) ** (-24 if bits == 11 else least):
        return 0.0 if x > 0 else -0.0
    return float(rounded)


def _exponent(x: Fraction) -> int:
    """Returns the exponent of the leading bit."""
    size = abs(x)
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if size >= Fraction(2) ** guess else guess - 1


class _Factor:
    """A factor: a number without limits of its exponent, or what has no significand."""

    def __init__(self, number: Fraction, special: float | None) -> None:
        self.number, self.special = number, special

    @staticmethod
    def of(value: float) -> _Factor:
        if value == 0 or not math.isfinite(value):
            return _Factor(Fraction(0), value)
        return _Factor(Fraction(value), None)

    def times(self, other: _Factor) -> _Factor:
        if self.special is None and other.special is None:
            product = self.number * other.number
            quantum = Fraction(2) ** (_exponent(product) - 52)
            return _Factor(round(product / quantum) * quantum, None)
        signs = [
            f.special if f.special is not None else (1.0 if f.number > 0 else -1.0)
            for f in (self, other)
        ]
        return _Factor(Fraction(0), signs[0] * signs[1])

    def rounded(self, dtype: np.dtype[np.generic]) -> float:
        return _round(self.number, dtype) if self.special is None else self.special
