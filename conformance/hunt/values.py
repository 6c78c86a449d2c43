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

from typing import Any

import ml_dtypes
import numpy as np

from conformance.hunt.dice import Dice
from conformance.hunt.program import Array, Aval, Input, dtype_of

#: How often each kind is drawn.
KINDS = {
    "plain": 40,
    "wide": 16,
    "ties": 12,
    "spoiled": 6,
    "cancelling": 8,
    "zeros": 8,
    "borders": 10,
    "few": 10,
    "chains": 2,
    "even": 2,
    "hard": 4,
}
#: Kinds whose numbers stay as hard if all are multiplied by a power of two. Bounds of errors have
#: products and squares of magnitudes, which are alike where these are near 1.
_SCALED = ("ties", "spoiled", "chains", "even")
#: Binary logarithms of such powers.
_SCALES = (0, 0, 0, -20, -40, 20)

#: The numbers of a tie: two whose sum is in the middle of two floats, and one that decides.
_TIE = 3
_LN2 = 0.6931471805599453


def draw(
    dice: Dice, aval: Aval, kind: str, limit: int | None = None, axis: int | None = None
) -> Input:
    """Returns an argument with drawn elements.

    Args:
        dice: The source of draws.
        aval: The type of the argument.
        kind: A name of ``KINDS``. Integers and bools have one kind.
        limit: The number below which integers are, if they are indices.
        axis: The axis of the lines of ties and of opposite numbers; a drawn one by default.
    """
    dtype = dtype_of(aval.dtype)
    words = dice.words(aval.size)
    if aval.dtype == "bool":
        flat: Array = (words & 1).astype(bool)
    elif limit is not None:
        flat = (words % limit).astype(dtype)
    elif dtype.kind in "iu":
        flat = ((words >> 7) % 41).astype(np.int64).astype(dtype) - dtype.type(20)
    elif dtype.kind == "c":
        parts = [
            _floats(part, np.dtype(np.float32), kind) for part in (words, dice.words(aval.size))
        ]
        flat = np.stack(parts, -1).reshape(-1).view(dtype)
    else:
        flat = _floats(words, dtype, kind)
        if kind == "chains":
            flat = _chains(words, aval.shape, dtype)
        if kind in ("ties", "spoiled", "cancelling") and flat.size and dice.happens(70):
            lines = _lines(dice, flat.reshape(aval.shape), axis)
            if kind == "cancelling":
                _cancel_in_turn(dice, lines)
            else:
                _tie(dice, lines, spoiled=kind == "spoiled")
        if kind in _SCALED:
            flat = _scaled(dice, flat)
    return Input.of(flat.reshape(aval.shape), rows=aval.rows)


def _floats(words: Array, dtype: np.dtype[Any], kind: str) -> Array:
    limits = ml_dtypes.finfo(dtype)
    sign = 1.0 - 2.0 * (words & 1).astype(np.float64)
    rest = words >> 1
    unit = (rest >> 11).astype(np.float64) * 2.0**-52
    picks = (rest % 64).astype(np.int64)
    if kind == "wide":
        reach = 6 if dtype.itemsize == 2 and limits.maxexp < 32 else 40
        flat = sign * (1 + unit) * np.exp2(picks * (2 * reach) // 63 - reach)
    elif kind in ("ties", "spoiled"):
        half = float(limits.eps) / 2
        least = _least(limits)
        near_one = [1, 1, 2, half, half, half / 2, 1 + 2 * half, 3 * half, 6 * half, least]
        # Times ``half``, it is half of the last bit of a float64.
        near_one += [max(2.0**-53 / half, least), _least(limits, 2.0**-90)]
        flat = sign * np.array(near_one)[picks % len(near_one)]
        if kind == "spoiled":
            flat = np.where(picks >= 61, np.array([np.nan, np.inf, -np.inf])[picks % 3], flat)
    elif kind == "cancelling":
        reach = min(30, limits.maxexp - 4)
        lowest = -limits.minexp - 2
        scales = [1.0, 2.0 ** -min(reach, lowest), *[2.0 ** -min(2 * reach, lowest)] * 2]
        scale = scales[int(words[0] >> 1) % 4 if words.size else 0]
        great = 2.0**reach * scale
        ends = np.array([great, great * 0.75, great / 8, 1.5 * scale])[picks % 4]
        flat = np.where(picks < 40, sign * ends, sign * (1 + unit) * scale)
    elif kind == "zeros":
        flat = sign * (picks < 6)
    elif kind == "borders":
        extremes = [float(limits.max), float(limits.smallest_normal), 1 + float(limits.eps)]
        extremes.append(1.5 * extremes[1])  # Less the one before, it is subnormal.
        flat = sign * np.array([0, 0, 1, 1, np.inf, np.nan, *extremes, 0.5, 3])[picks % 12]
    elif kind == "hard":
        flat = sign * _hard(picks, (rest >> 6) % 64, limits)
    elif kind == "even":
        flat = sign if words.size and words[0] & 2 else np.abs(sign)
    elif kind == "few":
        flat = sign * np.array([0.0, 1.0])[picks % 2]
    else:
        flat = sign * np.rint(unit * 2.0**13) * 2.0**-12 * (picks > 1)
    with np.errstate(over="ignore"):
        return flat.astype(dtype)


def _hard(group: Array, number: Array, limits: Any) -> Array:
    """Returns arguments of functions, by the number of a group, and a number below 64 in it."""
    eps, tiny, huge = (float(each) for each in (limits.eps, limits.smallest_normal, limits.max))
    count, whole = number.astype(np.float64), number.astype(np.int64)
    odd = 2.0 * (whole % 8) + 1
    borders = np.array([0, 0, 1, np.inf, np.nan, huge, tiny, 1.5 * tiny])
    # Logarithms of the ends of the range, and functions of integers, are the same everywhere.
    reach = np.array([limits.maxexp * _LN2, -limits.minexp * _LN2, limits.maxexp, 10.0])
    groups = [
        1 + (count - 32) * eps / 2,
        np.maximum(np.ldexp(odd * eps, -(whole // 8)), tiny),
        np.maximum(np.ldexp(odd, -(whole // 8) - 4), tiny),
        count / 2,
        count * np.pi / 2,
        np.ldexp(1.0, whole * (limits.maxexp - 1 - limits.minexp) // 63 + limits.minexp),
        reach[whole % 4] * (1 + (whole // 4 - 8.0) * eps),
        borders[whole % 8],
    ]
    chosen: Array = np.choose(group % 8, groups)
    return chosen


def _chains(words: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Returns arrays whose products along the last axis are lost in a chain of float64 sums.

    The square of most elements is a little less than half of the last bit of a float64 near 1, so a
    sum that begins with 1 loses each of them. The second product brings the sum to the middle of
    two float32, and the third one a few last bits below it.
    """
    lost = float(np.nextafter(np.float32(np.sqrt(2)), np.float32(0))) * 2.0**-27
    third = (1 - 2.0 * (words & 1)) * ((words >> 1) % 3 + 1) * 2.0**-26
    place = np.arange(words.size) % max(shape[-1] if shape else 1, 1)
    flat = np.select([place == 0, place == 1, place == 2], [1.0, 2.0**-12, third], lost)
    least = float(ml_dtypes.finfo(dtype).smallest_normal)
    result: Array = (np.sign(flat) * np.maximum(np.abs(flat), least)).astype(dtype)
    return result


def _scaled(dice: Dice, flat: Array) -> Array:
    """Returns numbers times a drawn power of two, unless one would leave the normal ones."""
    limits = ml_dtypes.finfo(flat.dtype)
    wide = np.abs(flat.astype(np.float64)) * 2.0 ** dice.one_of(_SCALES)
    own = wide[np.isfinite(wide) & (wide != 0)]
    if np.any(own < float(limits.smallest_normal)) or np.any(own > float(limits.max)):
        return flat
    result: Array = np.copysign(wide, flat.astype(np.float64)).astype(flat.dtype)
    return result


def _lines(dice: Dice, values: Array, axis: int | None) -> Array:
    """Returns a view of an array along an axis, or a drawn one, from its start or from its end."""
    if values.ndim == 0:
        return values.reshape(1)
    lines = np.moveaxis(values, dice.below(values.ndim) if axis is None else axis, 0)
    return lines[::-1] if dice.happens(40) else lines


def _tie(dice: Dice, lines: Array, *, spoiled: bool) -> None:
    """Begins lines with a tie that a small number breaks, or its difference from a smaller one.

    Spoiled lines end with a NaN or an infinity, on which the sums before it must not depend.
    """
    limits = ml_dtypes.finfo(lines.dtype)
    lines[~np.isfinite(lines.astype(np.float64))] = 1
    if len(lines) >= _TIE:
        # The middle is rounded to the even neighbour, and the sum to the other one.
        odd, half = dice.below(2), float(limits.eps) / 2
        lines[0], lines[1] = 1 + 2 * half * odd, half
        lines[2] = _least(limits, dice.one_of((2.0**-64, 2.0**-90, 2.0**-120))) * (1 - 2 * odd)
        if len(lines) > _TIE and dice.happens(30):
            lines[3] = -lines[2] * lines.dtype.type(1 - float(limits.eps))
    if spoiled:
        lines[-1] = dice.one_of((np.nan, np.nan, np.nan, np.inf, -np.inf))


def _cancel_in_turn(dice: Dice, lines: Array) -> None:
    """Puts small numbers, a great one, small ones and its opposite in turn, and small ones before.

    So a device that has the first rows alone does not see how great the other rows are.
    """
    magnitudes = np.abs(lines.astype(np.float64))
    great, least = magnitudes.max(), magnitudes[magnitudes > 0].min()
    lines[...] = np.where(magnitudes > great / 16, np.sign(lines) * lines.dtype.type(least), lines)
    first = dice.one_of((0, 1, len(lines) // 2))
    lines[first::4] = great
    lines[first + 2 :: 4] = -great


def _least(limits: Any, number: float = 2.0**-64) -> float:
    """Returns a number that moves a sum off the middle, and that a float64 near 1 does not hold.

    One near half of the last bit of a float32 does not hold 2**-90 either.
    """
    return max(number, float(limits.smallest_normal))
