"""Samples of ops that select elements along a dimension, and return their indices."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import spec
from conformance.cases._data import DTYPES, MANY, Array, values
from conformance.suite.sample import OpInfo, Sample
from spec import oracles

#: Maps an array of float64 to the indices of the selected elements along the first axis.
Select = Callable[[Array], Array]


def _ties(name: str, *, nans: int = 0) -> Array:
    """Returns two columns with many equal elements and zeros of both signs.

    Args:
        name: A key of ``DTYPES``.
        nans: The distance between two NaNs in the second column; 0 for a column without NaNs.
    """
    x = np.round(values((MANY, 2), np.float32) * 4)
    if name != "integer" and nans:
        x[nans::nans, 1] = np.nan
    return x.astype(DTYPES[name])


def _selection(
    name: str,
    call: Callable[..., Any],
    x: Array,
    select: Select,
    **facts: spec.FactValue,
) -> Sample:
    """Returns a sample of an op that returns values and indices.

    Args:
        name: A key of ``DTYPES``.
        call: Calls the op.
        x: Its array.
        select: The oracle: the indices that the ordered path selects. Their array may lack the
            first axis, if the op selects one element of each column.
        **facts: The facts of the call besides its dtype and its number of dimensions.
    """

    def selected(x: Array) -> tuple[Array, Array]:
        index = select(x.astype(np.float64))
        return _taken(x, index), index.astype(np.int32)

    def accept(result: Any, x: Array) -> None:
        """Accepts the expected values, each with the index of any element of this value."""
        elements, index = map(np.asarray, result)
        wide = elements.astype(np.float64)
        np.testing.assert_array_equal(wide, selected(x)[0].astype(np.float64))
        np.testing.assert_array_equal(_taken(x, index).astype(np.float64), wide)
        for column in index.T if index.ndim == x.ndim else ():
            if len(np.unique(column)) < len(column):
                raise AssertionError("an element is picked twice")

    return Sample(
        name=name,
        facts=facts,
        call=lambda ns, x: tuple(call(ns, x)),
        arrays=(x,),
        ordered=selected,
        accept=accept,
    )


def _taken(x: Array, index: Array) -> Array:
    if index.ndim == x.ndim:
        return np.take_along_axis(x, index, 0)
    return np.asarray(np.take_along_axis(x, index[None], 0)[0])


def _argsort() -> Iterator[Sample]:
    yield Sample(
        name="descending",
        call=lambda ns, x: ns.argsort(x, 0, True),
        arrays=(_ties("integer"),),
        ordered=lambda x: oracles.stable_sort(x, descending=True).astype(np.int32),
        accept=_sort_accept,
    )


def _sort_accept(result: Any, x: Array) -> None:
    """Accepts any permutation that sorts."""
    index = np.asarray(result)
    np.testing.assert_array_equal(np.take_along_axis(x, index, 0), np.sort(x, 0)[::-1])
    every_index = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
    np.testing.assert_array_equal(np.sort(index, 0), every_index)


_HALF = MANY // 2


def _kthvalue() -> Iterator[Sample]:
    """Yields the middle value of columns with many equal elements, for each dtype."""
    for name, dtype in DTYPES.items():
        yield _selection(
            name,
            lambda ns, x: ns.kthvalue(x, _HALF, 0),
            np.round(values((MANY, 2), np.float32)).astype(dtype),
            lambda x: oracles.lowest_index(x, _HALF),
        )


#: Maps a column to the rank of its median, from 1.
Rank = Callable[[Array], int]


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
        x = _ties(name, nans=MANY // 3)
        yield _selection(name, lambda ns, x: call(ns, x, 0), x, index, returns_indices=True)
    # No row lists a call without indices: every device has the same value and the same gradient.
    yield Sample(
        name="all",
        facts={"returns_indices": False},
        call=call,
        arrays=(_ties("floating"),),
        expected=lambda x: np.sort(x, None)[rank(x.ravel()) - 1],
        wrt=0,
        expected_gradient=_shared_gradient,
    )


def _shared_gradient(ct: Array, x: Array) -> Array:
    equal = x == np.sort(x, None)[(x.size + 1) // 2 - 1]
    return np.asarray(ct * equal / equal.sum())


_NANS: dict[spec.Direction, str] = {
    "forward": "No NaN equals another; PyTorch does not say what the mode of a NaN is."
}


def _mode() -> Iterator[Sample]:
    """Yields columns with many equal elements. One is mostly NaNs, which equal nothing."""
    for name in ("floating", "integer"):
        x = _ties(name, nans=2)
        sample = _selection(name, lambda ns, x: ns.mode(x, 0), x, oracles.most_frequent)
        yield dataclasses.replace(sample, choices=_NANS if name == "floating" else {})


def _sort() -> Iterator[Sample]:
    yield _selection(
        "floating",
        lambda ns, x: ns.sort(x, 0, stable=True),
        _ties("floating", nans=MANY // 8),
        oracles.stable_sort,
    )
    yield _selection(
        "narrow",
        lambda ns, x: ns.sort(x, 0, descending=True),
        _ties("narrow", nans=MANY // 8),
        lambda x: oracles.stable_sort(x, descending=True),
    )


def _topk() -> Iterator[Sample]:
    yield _selection(
        "floating",
        lambda ns, x: ns.topk(x, 16, 0),
        _ties("floating", nans=MANY // 8),
        lambda x: oracles.stable_sort(x, descending=True)[:16],
    )
    yield _selection(
        "integer",
        lambda ns, x: ns.topk(x, _HALF, 0, False),
        _ties("integer"),
        lambda x: oracles.stable_sort(x)[:_HALF],
    )


OPS = (
    OpInfo("argsort", _argsort),
    OpInfo("kthvalue", _kthvalue),
    OpInfo("median", functools.partial(_medians, "median", _rank)),
    OpInfo("mode", _mode),
    OpInfo("nanmedian", functools.partial(_medians, "nanmedian", _rank_of_numbers)),
    OpInfo("sort", _sort),
    OpInfo("topk", _topk),
)
