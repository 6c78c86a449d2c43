"""Samples of medians, of all numbers or of those that are not NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import MANY, Array
from conformance.cases._picks import picks, ties
from spec import oracles

#: The rank of the median of a column.
Rank = Callable[[Array], int]


def samples(op: str, rank: Rank) -> Iterator[Sample]:
    """Of columns with many equal elements, of which one has NaNs; and of all elements."""

    def call(ns: Any, x: Any, *dim: int) -> Any:
        return getattr(ns, op)(x, *dim)

    def positions(x: Array) -> Array:
        return np.array([oracles.lowest_index(column, rank(column)) for column in x.T])

    for name in ("floating", "integer"):
        x = ties(name, nans=MANY // 3)
        yield picks(name, lambda ns, x: call(ns, x, 0), x, positions, returns_indices=True)
    # Without an index nothing is listed: every device has the same number, and gradient.
    yield Sample(
        name="all",
        facts={"dtype": "floating", "input_ndim": 2, "returns_indices": False},
        call=call,
        arrays=(ties("floating"),),
        expected=lambda x: np.sort(x, None)[rank(x.ravel()) - 1],
        wrt=0,
        expected_pullback=_shared,
    )


def _shared(ct: Array, x: Array) -> Array:
    equal = x == np.sort(x, None)[(x.size + 1) // 2 - 1]
    return np.asarray(ct * equal / equal.sum())
