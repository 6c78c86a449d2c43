"""The arrays of the oracles, and the precision in which they add."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype that values of ``dtype`` are added in."""
    # The kind of bfloat16 is "V" in NumPy, so its size shows that it has fewer than 32 bits.
    narrow = dtype.itemsize < 4 and dtype.kind in "fV"
    return np.dtype(np.float32) if narrow else dtype


def identity(shape: tuple[int, ...], dtype: np.dtype[Any], combine: np.ufunc = np.add) -> Array:
    """Returns an array that changes no bit of an array that ``combine`` combines it with."""
    wide = accumulator(dtype)
    zero = -0.0 if wide.kind in "fc" else 0
    return np.full(shape, zero if combine is np.add else 1, wide)
