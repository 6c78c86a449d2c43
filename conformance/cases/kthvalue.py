"""Samples of kthvalue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import DTYPES, MANY, Array, kind, values
from conformance.suite.sample import Sample
from spec import oracles

_K = MANY // 2


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"kthvalue": tuple(_kthvalue())}


def _kthvalue() -> Iterator[Sample]:
    """Yields the middle value of columns with many equal elements, for each dtype."""
    for name, dtype in DTYPES.items():
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 2},
            call=lambda ns, x: tuple(ns.kthvalue(x, _K, 0)),
            arrays=(np.round(values((MANY, 2), np.float32)).astype(dtype),),
            expected=lambda x: np.sort(x, axis=0)[_K - 1],
            ordered=_ordered,
            accept=_accept,
        )


def _ordered(x: Array) -> tuple[Array, Array]:
    index = oracles.lowest_index(x.astype(np.float64), _K)
    return np.take_along_axis(x, index[None], 0)[0], index.astype(np.int32)


def _accept(result: Any, x: Array) -> None:
    """Accepts the right values, with the index of any element that has the value."""
    elements, index = map(np.asarray, result)
    np.testing.assert_array_equal(elements, np.sort(x, axis=0)[_K - 1])
    np.testing.assert_array_equal(np.take_along_axis(x, index[None], 0)[0], elements)
