"""Calls of cummax and cummin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import DTYPES, MANY, Array, kind, values
from spec import oracles


def samples(op: str, extreme: np.ufunc) -> Iterator[Sample]:
    """Indices of columns with many equal elements, for each dtype; values with their gradient."""
    for name, dtype in DTYPES.items():
        x = np.round(values((MANY, 2), np.float32)).astype(dtype)
        if name == "floating":
            x[MANY // 2, 1] = np.nan
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 2},
            call=lambda ns, x: tuple(getattr(ns, op)(x, 0)),
            arrays=(x,),
            expected=lambda x: running(x, extreme)[0],
            ordered=lambda x: running(x, extreme),
            accept=lambda result, x: _accept(result, running(x, extreme)),
        )
    yield Sample(
        name="values",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x: getattr(ns, op)(x, 0).values,
        arrays=(np.round(values((MANY, 2), np.float32)),),
        expected=lambda x: running(x, extreme)[0],
        ordered=lambda x: running(x, extreme)[0],
        wrt=0,
        expected_pullback=lambda ct, x: _pullback(ct.astype(np.float64), x, extreme),
        ordered_pullback=lambda ct, x: _pullback(ct, x, extreme),
    )


def running(x: Array, extreme: np.ufunc) -> tuple[Array, Array]:
    """The extremes so far down the first axis, and the last position of each.

    A NaN is above all.
    """
    wide = x.astype(np.float64)
    reached = np.isnan(wide) | (wide == extreme.accumulate(wide, axis=0))
    places = np.arange(len(x), dtype=np.int32).reshape(-1, *[1] * (x.ndim - 1))
    at = np.maximum.accumulate(np.where(reached, places, 0), axis=0)
    return np.take_along_axis(x, at, axis=0), at


def _accept(result: Any, wanted: tuple[Array, Array]) -> None:
    for found, right in zip(result, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(found), right)


def _pullback(ct: Array, x: Array, extreme: np.ufunc) -> Array:
    at = running(x, extreme)[1]
    none = np.zeros((len(x),), ct.dtype)
    columns = [oracles.panel(none, at[:, c], ct[:, c]) for c in range(x.shape[1])]
    return np.stack(columns, axis=1)
