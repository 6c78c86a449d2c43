"""Data for samples: the same at every run, and rough enough that another order shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from ml_dtypes import bfloat16

Array = npt.NDArray[Any]

#: Contributions, enough for several panels and blocks.
MANY = 2500
#: Destinations, few enough that each has a long chain.
FEW = 7

#: A dtype for each kind of number that ops add up, and one that is rounded at the end.
DTYPES: dict[str, Any] = {"floating": np.float32, "integer": np.int32, "narrow": bfloat16}


def kind(name: str) -> str:
    """The fact ``dtype`` of an entry of ``DTYPES``."""
    return "floating" if name == "narrow" else name


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    """Normal numbers; small integers for an integer dtype."""
    numbers = np.random.default_rng((seed, *shape)).normal(size=shape)
    return (numbers * 10).astype(dtype) if np.dtype(dtype).kind == "i" else numbers.astype(dtype)


def indices(shape: tuple[int, ...], size: int = FEW) -> Array:
    """Indices with many duplicates, of which the last destination gets none."""
    return np.random.default_rng(shape).integers(0, size - 1, shape).astype(np.int32)
