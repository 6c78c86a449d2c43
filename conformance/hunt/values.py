"""The elements of arguments: ordinary ones, and those at which arithmetic goes wrong.

====================  =============================================================================
kind                  elements
====================  =============================================================================
``plain``             multiples of 2**-12 between -4 and 4, and a few zeros of both signs
``wide``              of any sign, with magnitudes from 2**-40 to 2**40 (less for float16)
``ties``              1 and 2, halves of their last bits, whose sums end in the middle, and less
``spoiled``           the same, with a NaN or an infinity here and there, or at one end of lines
``even``              of one magnitude, a power of two
``cancelling``        pairs of opposite numbers that differ in magnitude, or that alternate along
                      an axis, and small numbers; all of them may be great or small
``chains``            the last axis has 1, and numbers whose products a float64 sum loses one by one
``hard``              arguments near 0, 1, multiples of pi / 2 and the ends of ranges of functions,
                      integers and their halves, and borders
``zeros``             0.0 and -0.0, and a few ones
``borders``           zeros, ones, infinities, NaN, the greatest and the least normal number
``few``               of four values, so that sorts and extremes meet equal elements
====================  =============================================================================

No element is subnormal: the guarantee ``portable`` takes these for zeros.
"""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np

from conformance.hunt.program import Array, Aval, Input, dtype_of

#: Kinds whose numbers stay as hard if all are multiplied by a power of two. Bounds of errors have
#: products and squares of magnitudes, which are alike where these are near 1.
_SCALED = ("ties", "spoiled", "chains", "even")
#: Binary logarithms of such powers.
_SCALES = (0, 0, 0, -20, -40, 20)

#: An integer in the middle of two bfloat16, of which float32 does not hold the next ones.
_MIDDLE = 2**25 + 2**17
#: The numbers of a tie: two whose sum is in the middle of two floats, and one that decides.
_TIE = 3


def draw(
    source: random.Random, aval: Aval, kind: str, limit: int | None = None, axis: int | None = None
) -> Input:
    """Returns an argument with drawn elements, of a kind of the table of this module.

    Integers have two kinds, and bools have one; indices are below ``limit``. Lines of ties and of
    opposite numbers are along ``axis``, or a drawn one.
    """
    rng = np.random.default_rng(source.getrandbits(64))
    shape, dtype = aval.shape, dtype_of(aval.dtype)
    values: Array
    if aval.dtype == "bool":
        values = rng.integers(2, size=shape).astype(bool)
    elif limit is not None or dtype.kind in "iu":
        low, high = (-20, 21) if limit is None else (0, limit)
        values = rng.integers(low, high, shape).astype(dtype)
        if kind == "ties" and limit is None:
            values = values // 10 + _MIDDLE
    elif dtype.kind == "c":
        parts = _floats(rng, (2, *shape), np.dtype(np.float32), kind)
        values = np.stack([*parts], -1).view(dtype)[..., 0]
    else:
        values = _floats(rng, shape, dtype, kind)
        if kind in ("ties", "spoiled", "cancelling") and values.size and rng.random() < 0.7:
            lines = _lines(rng, values, axis)
            if kind == "cancelling":
                _cancel_in_turn(rng, lines)
            else:
                _tie(rng, lines, spoiled=kind == "spoiled")
        if kind in _SCALED:
            values = _scaled(values, 2.0 ** rng.choice(_SCALES))
    return Input.of(values, rows=aval.rows)


def _floats(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], kind: str
) -> Array:
    """Returns drawn floats of a kind, each for itself."""
    limits = ml_dtypes.finfo(dtype)
    sign, unit = rng.choice([-1.0, 1.0], shape), rng.random(shape)
    if kind == "wide":
        reach = 6 if dtype.itemsize == 2 and limits.maxexp < 32 else 40
        values = sign * (1 + unit) * np.exp2(rng.integers(-reach, reach + 1, shape))
    elif kind in ("ties", "spoiled"):
        half, least = float(limits.eps) / 2, _least(limits)
        near_one = [1, 1, 2, half, half, half / 2, 1 + 2 * half, 3 * half, 6 * half, least]
        # Times ``half``, it is half of the last bit of a float64.
        near_one += [max(2.0**-53 / half, least), _least(limits, 2.0**-90)]
        values = sign * rng.choice(near_one, shape)
        if kind == "spoiled":
            values = np.where(unit < 0.05, rng.choice([np.nan, np.inf, -np.inf], shape), values)
    elif kind == "cancelling":
        reach, lowest = min(30, limits.maxexp - 4), -limits.minexp - 2
        scale = 2.0 ** -rng.choice([0, min(reach, lowest), *[min(2 * reach, lowest)] * 2])
        great = 2.0**reach
        ends = rng.choice([great, great * 0.75, great / 8, 1.5], shape)
        values = sign * scale * np.where(rng.random(shape) < 0.6, ends, 1 + unit)
    elif kind == "chains":
        values = _chain(rng, shape, float(limits.smallest_normal))
    elif kind == "zeros":
        values = sign * (unit < 0.1)
    elif kind == "borders":
        tiny, eps = float(limits.smallest_normal), float(limits.eps)
        # Of the two last ones, the difference is subnormal.
        extremes = [0, 0, 1, 1, 0.5, 3, np.inf, np.nan, float(limits.max)]
        extremes += [1 + eps, tiny, 1.5 * tiny]
        values = np.copysign(rng.choice(extremes, shape), sign)
    elif kind == "hard":
        values = sign * _hard(rng, shape, limits)
    elif kind == "even":
        values = sign if rng.random() < 0.5 else np.abs(sign)
    elif kind == "few":
        values = sign * rng.choice([0.0, 1.0], shape)
    else:
        values = sign * np.rint(unit * 2.0**13) * 2.0**-12 * (rng.random(shape) > 0.03)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def _hard(rng: np.random.Generator, shape: tuple[int, ...], limits: Any) -> Array:
    """Returns arguments of functions: each belongs to a drawn group, and is a drawn one of it."""
    eps, tiny, huge = (float(each) for each in (limits.eps, limits.smallest_normal, limits.max))
    count = rng.integers(64, size=shape)
    odd, eighth = 2.0 * (count % 8) + 1, count // 8
    borders = np.array([0, 0, 1, np.inf, np.nan, huge, tiny, 1.5 * tiny])
    # Logarithms of the ends of the range, and functions of integers, are the same everywhere.
    reach = np.array([limits.maxexp * np.log(2), -limits.minexp * np.log(2), limits.maxexp, 10.0])
    groups = [
        1 + (count - 32) * eps / 2,
        np.maximum(np.ldexp(odd * eps, -eighth), tiny),
        np.maximum(np.ldexp(odd, -eighth - 4), tiny),
        count / 2,
        count * np.pi / 2,
        np.ldexp(1.0, count * (limits.maxexp - 1 - limits.minexp) // 63 + limits.minexp),
        reach[count % 4] * (1 + (count // 4 - 8.0) * eps),
        borders[count % 8],
    ]
    chosen: Array = np.choose(rng.integers(8, size=shape), groups)
    return chosen


def _chain(rng: np.random.Generator, shape: tuple[int, ...], least: float) -> Array:
    """Returns arrays whose products along the last axis are lost in a chain of float64 sums.

    The square of most elements is a little less than half of the last bit of a float64 near 1, so a
    sum that begins with 1 loses each of them. The second product brings the sum to the middle of
    two float32, and the third one a few last bits below it.
    """
    lost = float(np.nextafter(np.float32(np.sqrt(2)), np.float32(0))) * 2.0**-27
    third = rng.choice([-1, 1], shape) * rng.integers(1, 4, shape) * 2.0**-26
    index = np.arange(shape[-1] if shape else 1).reshape(shape[-1:])
    values = np.select([index == 0, index == 1, index == 2], [1.0, 2.0**-12, third], lost)
    chain: Array = np.sign(values) * np.maximum(np.abs(values), least)
    return chain


def _scaled(values: Array, scale: float) -> Array:
    """Returns numbers times a power of two, unless one would leave the normal ones."""
    limits = ml_dtypes.finfo(values.dtype)
    wide = values.astype(np.float64) * scale
    own = np.abs(wide[np.isfinite(wide) & (wide != 0)])
    if np.any(own < float(limits.smallest_normal)) or np.any(own > float(limits.max)):
        return values
    return wide.astype(values.dtype)


def _lines(rng: np.random.Generator, values: Array, axis: int | None) -> Array:
    """Returns a view of an array along an axis, or a drawn one, from its start or from its end."""
    if values.ndim == 0:
        return values.reshape(1)
    lines = np.moveaxis(values, rng.integers(values.ndim) if axis is None else axis, 0)
    return lines[::-1] if rng.random() < 0.4 else lines


def _tie(rng: np.random.Generator, lines: Array, *, spoiled: bool) -> None:
    """Begins lines with a tie that a small number breaks, or its difference from a smaller one.

    Spoiled lines end with a NaN or an infinity, on which the sums before it must not depend.
    """
    limits = ml_dtypes.finfo(lines.dtype)
    lines[~np.isfinite(lines.astype(np.float64))] = 1
    if len(lines) >= _TIE:
        # The middle is rounded to the even neighbour, and the sum to the other one.
        odd, half = int(rng.integers(2)), float(limits.eps) / 2
        lines[0], lines[1] = 1 + 2 * half * odd, half
        lines[2] = _least(limits, 2.0 ** -rng.choice([64, 90, 120])) * (1 - 2 * odd)
        if len(lines) > _TIE and rng.random() < 0.3:
            lines[3] = -lines[2] * lines.dtype.type(1 - float(limits.eps))
    if spoiled:
        lines[-1] = rng.choice([np.nan, np.nan, np.nan, np.inf, -np.inf])


def _cancel_in_turn(rng: np.random.Generator, lines: Array) -> None:
    """Puts small numbers, a great one, small ones and its opposite in turn, and small ones before.

    So a device that has the first rows alone does not see how great the other rows are.
    """
    magnitudes = np.abs(lines.astype(np.float64))
    great, least = magnitudes.max(), magnitudes[magnitudes > 0].min()
    lines[...] = np.where(magnitudes > great / 16, np.sign(lines) * lines.dtype.type(least), lines)
    first = rng.choice([0, 1, len(lines) // 2])
    lines[first::4] = great
    lines[first + 2 :: 4] = -great


def _least(limits: Any, number: float = 2.0**-64) -> float:
    """Returns a number that moves a sum off the middle, and that a float64 near 1 does not hold.

    One near half of the last bit of a float32 does not hold 2**-90 either.
    """
    return max(number, float(limits.smallest_normal))
