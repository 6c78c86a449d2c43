"""Samples of cummax and cummin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.cases._data import DTYPES, MANY, Array, kind, values
from conformance.suite.sample import Sample
from spec import oracles


def samples(op: str, extreme: np.ufunc) -> Iterator[Sample]:
    """Yields indices for each dtype, of columns with many equal elements; values and gradient."""
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
        expected_gradient=lambda ct, x: _gradient(ct.astype(np.float64), x, extreme),
        ordered_gradient=lambda ct, x: _gradient(ct, x, extreme),
    )


def running(x: Array, extreme: np.ufunc) -> tuple[Array, Array]:
    """Returns the extremes so far down the first axis, and the last index of each.

    A NaN is more extreme than any number.
    """
    wide = x.astype(np.float64)
    is_extreme = np.isnan(wide) | (wide == extreme.accumulate(wide, axis=0))
    index = np.arange(len(x), dtype=np.int32).reshape(-1, *[1] * (x.ndim - 1))
    last_index = np.maximum.accumulate(np.where(is_extreme, index, 0), axis=0)
    return np.take_along_axis(x, last_index, axis=0), last_index


def _accept(result: Any, expected: tuple[Array, Array]) -> None:
    for array, expected_array in zip(result, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(array), expected_array)


def _gradient(ct: Array, x: Array, extreme: np.ufunc) -> Array:
    index = running(x, extreme)[1]
    zeros = np.zeros((len(x),), ct.dtype)
    columns = [oracles.source(zeros, index[:, c], ct[:, c]) for c in range(x.shape[1])]
    return np.stack(columns, axis=1)
