"""Samples of median and nanmedian."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import MANY, Array
from conformance.cases._selections import selection, ties
from conformance.suite.sample import Sample
from spec import oracles

#: Maps a column to the rank of its median, from 1.
Rank = Callable[[Array], int]


def samples() -> Mapping[str, Sequence[Sample]]:
    return {
        "median": tuple(_medians("median", _rank)),
        "nanmedian": tuple(_medians("nanmedian", _rank_of_numbers)),
    }


def _rank(x: Array) -> int:
    """Returns the rank of the median. The median of a column with NaNs is NaN."""
    return len(x) if np.isnan(x).any() else (len(x) + 1) // 2


def _rank_of_numbers(x: Array) -> int:
    return int((~np.isnan(x)).sum() + 1) // 2


def _medians(op: str, rank: Rank) -> Iterator[Sample]:
    """Yields medians of columns with many equal elements, one with NaNs, and of all elements."""

    def call(ns: Any, x: Any, *dim: int) -> Any:
        return getattr(ns, op)(x, *dim)

    def index(x: Array) -> Array:
        return np.array([oracles.lowest_index(column, rank(column)) for column in x.T])

    for name in ("floating", "integer"):
        x = ties(name, nans=MANY // 3)
        yield selection(name, lambda ns, x: call(ns, x, 0), x, index, returns_indices=True)
    # No row lists a call without indices: every device has the same value and the same gradient.
    yield Sample(
        name="all",
        facts={"dtype": "floating", "input_ndim": 2, "returns_indices": False},
        call=call,
        arrays=(ties("floating"),),
        expected=lambda x: np.sort(x, None)[rank(x.ravel()) - 1],
        wrt=0,
        expected_gradient=_shared_gradient,
    )


def _shared_gradient(ct: Array, x: Array) -> Array:
    equal = x == np.sort(x, None)[(x.size + 1) // 2 - 1]
    return np.asarray(ct * equal / equal.sum())
