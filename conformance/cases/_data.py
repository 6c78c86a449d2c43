"""Data for samples: the same at every run, and rough enough that another order shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from ml_dtypes import bfloat16

import spec

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


def rounded_once(name: str, *directions: spec.Direction) -> dict[spec.Direction, str]:
    """``Sample.own`` of sums in an entry of ``DTYPES``."""
    reason = "Sums are of float32, rounded once; PyTorch rounds to bfloat16 at each addition."
    return dict.fromkeys(directions, reason) if name == "narrow" else {}


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    """Normal numbers; small integers for an integer dtype."""
    numbers = np.random.default_rng((seed, *shape)).normal(size=shape)
    return (numbers * 10).astype(dtype) if np.dtype(dtype).kind == "i" else numbers.astype(dtype)


def indices(shape: tuple[int, ...], size: int = FEW) -> Array:
    """Indices with many duplicates, of which the last destination gets none."""
    return np.random.default_rng(shape).integers(0, size - 1, shape).astype(np.int32)


def folded(x: Array, i: Array, s: Array, combine: np.ufunc = np.add) -> Array:
    """Rows of ``s`` combined with those of ``x`` that ``i`` names, in float64."""
    out = x.astype(np.float64)
    combine.at(out, i, s.astype(np.float64))
    return out


def by_column(
    function: Callable[[Array, Array, Array], Any], x: Array, i: Array, s: Array
) -> Array:
    """Applies ``function`` along the first dimension, in the corner of ``x`` that ``i`` spans."""
    if x.ndim == 1:
        return np.asarray(function(x, i, s))
    columns = [
        function(x[:, c], i[:, c], s[:, c]) if c < i.shape[1] else x[:, c]
        for c in range(x.shape[1])
    ]
    return np.stack(columns, axis=1)


def one_of_the_writes(result: Any, x: Array, i: Array, s: Array) -> None:
    """Accepts, for each element of ``x``, any of those that are written to it.

    Raises:
        AssertionError: Another is there.
    """
    for place in range(len(x)):
        written = s[i == place] if np.any(i == place) else x[place : place + 1]
        found = np.asarray(result)[place]
        if not np.all(np.any(written == found, axis=0)):
            raise AssertionError(f"{found} at {place} is none of what was written there")
