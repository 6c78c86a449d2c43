"""Calls of argsort."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import Array
from conformance.cases._picks import ties
from spec import oracles


def samples() -> Iterator[Sample]:
    """Columns with many equal elements, the greatest first."""
    yield Sample(
        name="descending",
        facts={"dtype": "integer", "input_ndim": 2},
        call=lambda ns, x: ns.argsort(x, 0, True),
        arrays=(ties("integer"),),
        expected=lambda x: oracles.stable_sort(x, descending=True),
        ordered=lambda x: oracles.stable_sort(x, descending=True).astype(np.int32),
        accept=_accept,
    )


def _accept(result: Any, x: Array) -> None:
    """Any permutation that sorts."""
    index = np.asarray(result)
    np.testing.assert_array_equal(np.take_along_axis(x, index, 0), np.sort(x, 0)[::-1])
    places = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
    np.testing.assert_array_equal(np.sort(index, 0), places)
