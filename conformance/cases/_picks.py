"""Samples of ops that pick elements along the first dimension, and give their positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import spec
from conformance.case import Sample
from conformance.cases._data import DTYPES, MANY, Array, kind, values

#: Positions along the first axis, of float64.
Positions = Callable[[Array], Array]


def ties(name: str, *, nans: int = 0) -> Array:
    """Two columns of a dtype with many equal elements, zeros of both signs; the second has NaNs."""
    x = np.round(values((MANY, 2), np.float32) * 4)
    if name != "integer" and nans:
        x[nans::nans, 1] = np.nan
    return x.astype(DTYPES[name])


def picks(
    name: str,
    call: Callable[..., Any],
    x: Array,
    positions: Positions,
    **facts: spec.FactValue,
) -> Sample:
    """A sample of an op that returns values and indices.

    Args:
        name: A key of ``DTYPES``.
        call: Calls the op.
        x: Its array.
        positions: The oracle: those that the ordered path picks, with the first axis or without.
        **facts: What the call is, beside its dtype and its dimensions.
    """

    def kept(x: Array) -> tuple[Array, Array]:
        index = positions(x.astype(np.float64))
        return _taken(x, index), index.astype(np.int32)

    def accept(result: Any, x: Array) -> None:
        """Right values, and indices of any elements that have them."""
        found, index = map(np.asarray, result)
        right, _ = kept(x)
        np.testing.assert_array_equal(found.astype(np.float64), right.astype(np.float64))
        np.testing.assert_array_equal(_taken(x, index).astype(np.float64), found.astype(np.float64))
        for column in index.T if index.ndim == x.ndim else ():
            if len(np.unique(column)) < len(column):
                raise AssertionError("an element is picked twice")

    return Sample(
        name=name,
        facts={"dtype": kind(name), "input_ndim": 2, **facts},
        call=lambda ns, x: tuple(call(ns, x)),
        arrays=(x,),
        expected=lambda x: kept(x)[0],
        ordered=kept,
        accept=accept,
    )


def _taken(x: Array, index: Array) -> Array:
    if index.ndim == x.ndim:
        return np.take_along_axis(x, index, 0)
    return np.asarray(np.take_along_axis(x, index[None], 0)[0])
