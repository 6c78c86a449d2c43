"""Arrays for samples, and references that many samples share.

The arrays are the same in every run. Their values are random, so that another order of additions
changes bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from ml_dtypes import bfloat16

import spec

Array = npt.NDArray[Any]

#: A number of contributions that fills several blocks of a kernel, and many threads of a GPU.
MANY = 2500
#: A number of elements of a scan in rounds. XLA compiles each round, and is slow.
SOME = 40
#: A number of destinations so small that each gets many contributions.
FEW = 7

#: A dtype for each kind of number that ops add. Sums of bfloat16 are rounded once, at the end.
DTYPES: dict[str, Any] = {"floating": np.float32, "integer": np.int32, "narrow": bfloat16}


def kind(name: str) -> str:
    """Returns the fact ``dtype`` of an entry of ``DTYPES``."""
    return "floating" if name == "narrow" else name


def rounded_once(name: str, *directions: spec.Direction) -> dict[spec.Direction, str]:
    """Returns ``Sample.choices`` of sums in an entry of ``DTYPES``."""
    reason = "Sums are of float32, rounded once; PyTorch rounds to bfloat16 at each addition."
    return dict.fromkeys(directions, reason) if name == "narrow" else {}


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    """Returns normally distributed numbers, or small integers for an integer dtype."""
    numbers = np.random.default_rng((seed, *shape)).normal(size=shape)
    return (numbers * 10).astype(dtype) if np.dtype(dtype).kind == "i" else numbers.astype(dtype)


def indices(shape: tuple[int, ...], size: int = FEW) -> Array:
    """Returns indices with many duplicates. None of them names the last destination."""
    return np.random.default_rng(shape).integers(0, size - 1, shape).astype(np.int32)


def folded(x: Array, i: Array, s: Array, combine: np.ufunc = np.add) -> Array:
    """Returns ``x`` with each row of ``s`` combined into the row that ``i`` names, in float64."""
    out = x.astype(np.float64)
    combine.at(out, i, s.astype(np.float64))
    return out


def by_column(
    function: Callable[[Array, Array, Array], Any], x: Array, i: Array, s: Array
) -> Array:
    """Applies a function of 1D arrays to each column of ``x``.

    If ``x`` has more columns than ``i``, the additional columns stay unchanged.
    """
    if x.ndim == 1:
        return np.asarray(function(x, i, s))
    columns = [
        function(x[:, c], i[:, c], s[:, c]) if c < i.shape[1] else x[:, c]
        for c in range(x.shape[1])
    ]
    return np.stack(columns, axis=1)


def one_of_the_writes(result: Any, x: Array, i: Array, s: Array) -> None:
    """Accepts, for each destination of ``x``, any of the contributions that ``i`` sends to it.

    Raises:
        AssertionError: The result holds another value.
    """
    for row in range(len(x)):
        written = s[i == row] if np.any(i == row) else x[row : row + 1]
        value = np.asarray(result)[row]
        if not np.all(np.any(written == value, axis=0)):
            raise AssertionError(f"{value} at {row} is not one of the values written there")
