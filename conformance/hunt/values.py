"""The elements of arguments: ordinary ones, and those at which arithmetic goes wrong.

====================  =============================================================================
kind                  elements
====================  =============================================================================
``plain``             multiples of 2**-12 between -4 and 4, and a few zeros of both signs
``wide``              of any sign, with magnitudes from 2**-40 to 2**40 (less for float16)
``ties``              1 and 2, halves of their last bits, whose sums end in the middle, and less
``spoiled``           the same, with a NaN or an infinity here and there
``cancelling``        pairs of opposite numbers that differ in magnitude, and small numbers
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
}


def draw(dice: Dice, aval: Aval, kind: str, limit: int | None = None) -> Input:
    """Returns an argument with drawn elements.

    Args:
        dice: The source of draws.
        aval: The type of the argument.
        kind: A name of ``KINDS``. Integers and bools have one kind.
        limit: The number below which integers are, if they are indices.
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
        # It moves a sum off the middle, and a float64 near 1 does not hold it.
        least = max(half * 2.0**-40, float(limits.smallest_normal))
        near_one = [1, 1, 2, half, half, half / 2, 1 + 2 * half, 3 * half, 6 * half, least]
        flat = sign * np.array(near_one)[picks % 10]
        if kind == "spoiled":
            flat = np.where(picks >= 61, np.array([np.nan, np.inf, -np.inf])[picks % 3], flat)
    elif kind == "cancelling":
        great = float(2.0 ** min(30, limits.maxexp - 4))
        ends = np.array([great, great * 0.75, great / 8, 1.5])[picks % 4]
        flat = np.where(picks < 40, sign * ends, sign * (1 + unit))
    elif kind == "zeros":
        flat = sign * (picks < 6)
    elif kind == "borders":
        extremes = [float(limits.max), float(limits.smallest_normal), 1 + float(limits.eps)]
        extremes.append(1.5 * extremes[1])  # Less the one before, it is subnormal.
        flat = sign * np.array([0, 0, 1, 1, np.inf, np.nan, *extremes, 0.5, 3])[picks % 12]
    elif kind == "few":
        flat = sign * np.array([0.0, 1.0])[picks % 2]
    else:
        flat = sign * np.rint(unit * 2.0**13) * 2.0**-12 * (picks > 1)
    with np.errstate(over="ignore"):
        return flat.astype(dtype)
