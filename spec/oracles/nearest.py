"""Oracles of the order ``nearest``: the exact sum of the terms, rounded once.

Each float is a whole number of units, where the unit is the least subnormal number of its dtype.
So Python's integers hold any sum of floats, or of their products, without error::

    terms (float32)         2**24     1         2**-30
    in units of 2**-149     2**173    2**149    2**119
    their sum               2**173 + 2**149 + 2**119 units
    rounded once            2**24 + 2

Each shape of an operation has a thin function. A reduction, a ``psum`` and a window are ``nearest``
of their terms, and a convolution is a product of matrices.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spec.oracles._numerics import Array


class _Format(NamedTuple):
    """The numbers that a dtype holds.

    Attributes:
        bits: The bits of a significand.
        least: The exponent of the least normal number.
        greatest: The exponent of the greatest number.
        kept: The least magnitude that is not flushed to zero. A float32 is flushed after 24 bits
            have rounded it, and a bfloat16 and a float64 before. A float16 is never flushed.
    """

    bits: int
    least: int
    greatest: int
    kept: float

    @property
    def unit(self) -> int:
        """The exponent of the least subnormal number."""
        return self.least - self.bits + 1


_FORMATS = {
    "float16": _Format(11, -14, 15, 0.0),
    "bfloat16": _Format(8, -126, 127, 2.0**-126),
    "float32": _Format(24, -126, 127, 2.0**-126 * (1 - 2.0**-25)),
    "float64": _Format(53, -1022, 1023, 2.0**-1022),
}


def rounded_once(value: Fraction, dtype: npt.DTypeLike) -> float:
    """Returns the float of a dtype that is nearest to a number; of two, the even one.

    Args:
        value: An integer times a power of two.
        dtype: float16, bfloat16, float32 or float64.

    Returns:
        A float that converts to ``dtype`` without error: an infinity if the rounded number exceeds
        the greatest float. A zero is +0.
    """
    return _rounded_integer(value.numerator, 1 - value.denominator.bit_length(), dtype)


def _rounded_integer(count: int, unit: int, dtype: npt.DTypeLike) -> float:
    """Returns ``rounded_once(count * 2**unit, dtype)``; with integers it takes a tenth as long."""
    to, size = _FORMATS[np.dtype(dtype).name], abs(count)
    exponent = size.bit_length() - 1 + unit
    if not size or (exponent < to.least and size * Fraction(2) ** unit < to.kept):
        return 0.0
    dropped = max(exponent, to.least) - to.bits + 1 - unit
    if dropped > 0:  # Of two neighbours at the same distance, the even one.
        size = (size + (1 << dropped - 1) - 1 + (size >> dropped & 1)) >> dropped
        unit += dropped
    is_finite = size.bit_length() - 1 + unit <= to.greatest
    result = math.ldexp(size, unit) if is_finite else math.inf
    return -result if count < 0 < result else result


def nearest(terms: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """Sums along the first axis, rounding once.

    Args:
        terms: Shape [n, ...]: float16, bfloat16, float32, float64, or complex numbers, whose parts
            are summed.
        dtype: The dtype of the result; None for the dtype of ``terms``.

    Returns:
        Shape [...].
    """
    if terms.dtype.kind == "c":
        return _complex(nearest(terms.real), nearest(terms.imag), dtype or terms.dtype)
    with np.errstate(invalid="ignore"):
        specials = _specials(terms).sum(0)
    return _rounded(_counts(terms).sum(0), _unit(terms), specials, dtype or terms.dtype)


def nearest_running(terms: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """Returns the running sums along the first axis, each of them rounded once.

    Args:
        terms: Shape [n, ...], of the dtypes that ``nearest`` takes.
        dtype: The dtype of the result; None for the dtype of ``terms``.

    Returns:
        Shape [n, ...].
    """
    if terms.dtype.kind == "c":
        return _complex(
            nearest_running(terms.real), nearest_running(terms.imag), dtype or terms.dtype
        )
    sums = np.add.accumulate(_counts(terms), 0)
    with np.errstate(invalid="ignore"):
        specials = np.add.accumulate(_specials(terms), 0)
    return _rounded(sums, _unit(terms), specials, dtype or terms.dtype)


def nearest_product(a: Array, b: Array, dtype: npt.DTypeLike) -> Array:
    """Multiplies matrices, and rounds each element of the product once.

    Args:
        a: Shape [..., m, n], of the dtypes that ``nearest`` takes.
        b: Shape [..., n, k], of the same or of another dtype.
        dtype: The dtype of the result, complex if a factor is.

    Returns:
        Shape [..., m, k].
    """
    if "c" in (a.dtype.kind, b.dtype.kind):
        # A real part is the sum of all a.real * b.real and -a.imag * b.imag.
        left, right = np.concatenate([a.real, -a.imag], -1), np.concatenate([b.real, b.imag], -2)
        part = np.zeros(0, dtype).real.dtype
        real = nearest_product(left, right, part)
        left, right = np.concatenate([a.real, a.imag], -1), np.concatenate([b.imag, b.real], -2)
        return _complex(real, nearest_product(left, right, part), dtype)
    with np.errstate(invalid="ignore"):
        specials = np.einsum("...mn,...nk->...mk", _kinds(a), _kinds(b))
    sums = np.einsum("...mn,...nk->...mk", _counts(a), _counts(b))
    return _rounded(sums, _unit(a) + _unit(b), specials, dtype)


def nearest_convolution(images: Array, kernel: Array, window: Array, dtype: npt.DTypeLike) -> Array:
    """Convolves, and rounds each element once.

    Args:
        images: Shape [n, groups, channels, positions].
        kernel: Shape [groups, outputs, channels, taps]. If it has a NaN or an infinity for an
            output, all results of this output are NaN.
        window: The position that each tap of each result reads, or -1 for none, of shape
            [results, taps].
        dtype: The dtype of the result.

    Returns:
        Shape [n, groups, outputs, results].
    """
    finite = np.isfinite(kernel)
    kernel = np.where(finite, kernel, np.zeros((), kernel.dtype))
    # An index of -1 reads the zero that is appended. The terms of each result are one row.
    images = np.concatenate([images, np.zeros((*images.shape[:3], 1), images.dtype)], 3)
    terms = kernel.shape[2] * kernel.shape[3]
    rows = np.moveaxis(images[..., window], 2, 3).reshape(*images.shape[:2], len(window), terms)
    columns = kernel.reshape(*kernel.shape[:2], terms)
    out = nearest_product(rows, np.swapaxes(columns, 1, 2), dtype)
    are_finite = np.all(finite, (2, 3))[..., None]
    return np.where(are_finite, np.swapaxes(out, 2, 3), np.array(np.nan, out.dtype))


def nearest_scatter(initial: Array, index: Array, source: Array) -> Array:
    """Adds ``source[i]`` to row ``index[i]`` of ``initial``; the initial value is a term.

    Args:
        initial: Shape [destinations, ...]: integers, floats or complex numbers.
        index: Shape [n]. Indices outside [0, destinations) are dropped.
        source: Shape [n, ...].

    Returns:
        Shape and dtype of ``initial``.
    """
    if initial.dtype.kind in "iub":
        out = initial.copy()
        inside = (index >= 0) & (index < len(out))
        np.add.at(out, index[inside], source[inside])
        return out
    rows = [
        nearest(
            np.concatenate([initial[row : row + 1], source[index == row].astype(initial.dtype)])
        )
        for row in range(len(initial))
    ]
    return np.stack(rows) if rows else initial.copy()


def flushed(value: Array) -> Array:
    """Returns floats as float64, with zeros of their sign for the subnormals that do not count."""
    wide = value.astype(np.float64)
    return np.where(np.abs(wide) < _FORMATS[value.dtype.name].kept, np.copysign(0.0, wide), wide)


def _unit(value: Array) -> int:
    return _FORMATS[value.dtype.name].unit


def _counts(value: Array) -> Array:
    """Returns each float as a number of units of its dtype; 0 for an infinity or a NaN."""
    wide, to = flushed(value), _FORMATS[value.dtype.name]
    significands, exponents = np.frexp(np.where(np.isfinite(wide), wide, 0.0))
    whole = np.ldexp(significands, to.bits).astype(np.int64).ravel().tolist()
    shifts = (exponents - to.bits - to.unit).ravel().tolist()
    counts = np.empty(value.size, object)
    # The last digits of a subnormal number are zeros here.
    counts[:] = [n << s if s >= 0 else n >> -s for n, s in zip(whole, shifts, strict=True)]
    return counts.reshape(value.shape)


def _specials(value: Array) -> Array:
    """Returns infinities and NaNs as they are, and 0 for each other number."""
    value = value.astype(np.float64)
    return np.where(np.isfinite(value), 0.0, value)


def _kinds(value: Array) -> Array:
    """Returns infinities and NaNs as they are, and the sign of each other number."""
    value = flushed(value)
    return np.where(np.isfinite(value), np.sign(value), value)


def _rounded(sums: Array, unit: int, specials: Array, dtype: npt.DTypeLike) -> Array:
    """Returns ``sums * 2**unit``, rounded once, or ``specials`` where they are not finite."""
    pairs = zip(np.asarray(sums, object).flat, np.asarray(specials).flat, strict=True)
    rounded = [_rounded_integer(n, unit, dtype) if math.isfinite(s) else s for n, s in pairs]
    return np.array(rounded, np.dtype(dtype)).reshape(np.shape(sums))


def _complex(real: Array, imaginary: Array, dtype: npt.DTypeLike) -> Array:
    out = np.empty(real.shape, dtype)
    out.real, out.imag = real, imaginary
    return out
