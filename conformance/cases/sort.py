"""Samples of sort and argsort, of columns with many equal elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import MANY, Array
from conformance.cases._selections import selection, ties
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    ascending = selection(
        "floating",
        lambda ns, x: ns.sort(x, 0, stable=True),
        ties("floating", nans=MANY // 8),
        oracles.stable_sort,
    )
    descending = selection(
        "narrow",
        lambda ns, x: ns.sort(x, 0, descending=True),
        ties("narrow", nans=MANY // 8),
        lambda x: oracles.stable_sort(x, descending=True),
    )
    return {"sort": (ascending, descending), "argsort": (_argsort(),)}


def _argsort() -> Sample:
    return Sample(
        name="descending",
        facts={"dtype": "integer", "input_ndim": 2},
        call=lambda ns, x: ns.argsort(x, 0, True),
        arrays=(ties("integer"),),
        expected=lambda x: oracles.stable_sort(x, descending=True),
        ordered=lambda x: oracles.stable_sort(x, descending=True).astype(np.int32),
        accept=_accept,
    )


def _accept(result: Any, x: Array) -> None:
    """Accepts any permutation that sorts."""
    index = np.asarray(result)
    np.testing.assert_array_equal(np.take_along_axis(x, index, 0), np.sort(x, 0)[::-1])
    every_index = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
    np.testing.assert_array_equal(np.sort(index, 0), every_index)
