"""Samples of ops that select elements along the first dimension, and return their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import spec
from conformance.cases._data import DTYPES, MANY, Array, kind, values
from conformance.suite.sample import Sample

#: Maps an array of float64 to the indices of the selected elements along the first axis.
Select = Callable[[Array], Array]


def ties(name: str, *, nans: int = 0) -> Array:
    """Returns two columns with many equal elements and zeros of both signs.

    Args:
        name: A key of ``DTYPES``.
        nans: The distance between two NaNs in the second column; 0 for a column without NaNs.
    """
    x = np.round(values((MANY, 2), np.float32) * 4)
    if name != "integer" and nans:
        x[nans::nans, 1] = np.nan
    return x.astype(DTYPES[name])


def selection(
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
        facts={"dtype": kind(name), "input_ndim": 2, **facts},
        call=lambda ns, x: tuple(call(ns, x)),
        arrays=(x,),
        expected=lambda x: selected(x)[0],
        ordered=selected,
        accept=accept,
    )


def _taken(x: Array, index: Array) -> Array:
    if index.ndim == x.ndim:
        return np.take_along_axis(x, index, 0)
    return np.asarray(np.take_along_axis(x, index[None], 0)[0])
