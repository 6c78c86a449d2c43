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
