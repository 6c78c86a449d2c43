"""Calls of cummax and cummin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import DTYPES, MANY, Array, kind, values
from spec import oracles


def samples(op: str, wins: np.ufunc) -> Iterator[Sample]:
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
            expected=lambda x: _running(x, wins)[0],
            ordered=lambda x: _running(x, wins),
            accept=lambda result, x: _accept(result, _running(x, wins)),
        )
    yield Sample(
        name="values",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x: getattr(ns, op)(x, 0).values,
        arrays=(np.round(values((MANY, 2), np.float32)),),
        expected=lambda x: _running(x, wins)[0],
        ordered=lambda x: _running(x, wins)[0],
        wrt=0,
        expected_pullback=lambda ct, x: _pullback(ct.astype(np.float64), x, wins),
        ordered_pullback=lambda ct, x: _pullback(ct, x, wins),
    )


def _running(x: Array, wins: np.ufunc) -> tuple[Array, Array]:
    """The winners so far, and the last position of each; a NaN wins over all."""
    out, at = x.copy(), np.zeros(x.shape, np.int32)
    best, place = x[0].copy(), at[0].copy()
    for i, row in enumerate(x):
        later = np.isnan(row.astype(np.float32)) | wins(row, best)
        best[later], place[later] = row[later], i
        out[i], at[i] = best, place
    return out, at


def _accept(result: Any, wanted: tuple[Array, Array]) -> None:
    for found, right in zip(result, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(found), right)


def _pullback(ct: Array, x: Array, wins: np.ufunc) -> Array:
    at = _running(x, wins)[1]
    none = np.zeros((len(x),), ct.dtype)
    columns = [oracles.panel(none, at[:, c], ct[:, c]) for c in range(x.shape[1])]
    return np.stack(columns, axis=1)
