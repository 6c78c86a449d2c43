"""Calls of take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import FEW, MANY, Array, folded, indices, values
from spec import oracles


def samples() -> Iterator[Sample]:
    """Elements of two dimensions, counted from both ends."""
    yield Sample(
        name="2d",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x, i: ns.take(x, i),
        arrays=(values((2, FEW), np.float32), indices((2, MANY), 2 * FEW) - FEW),
        expected=lambda x, i: x.reshape(-1)[i],
        ordered=lambda x, i: x.reshape(-1)[i],
        wrt=0,
        expected_pullback=lambda ct, x, i: _pullback(ct, x, i, folded),
        ordered_pullback=lambda ct, x, i: _pullback(ct, x, i, oracles.panel),
    )


def _pullback(ct: Array, x: Array, i: Array, add: Any) -> Array:
    zero = np.zeros(x.size, x.dtype)
    return np.asarray(add(zero, i.reshape(-1) % x.size, ct.reshape(-1))).reshape(x.shape)
