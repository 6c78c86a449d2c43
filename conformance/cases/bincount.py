"""Calls of bincount."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases._data import FEW, MANY, indices, values
from spec import oracles


def samples() -> Iterator[Sample]:
    """With weights and without."""
    numbers = indices((MANY,))
    yield Sample(
        name="weights",
        facts={"dtype": "floating", "input_ndim": 1, "weights": True},
        call=lambda ns, n, w: ns.bincount(n, w, length=FEW),
        arrays=(numbers, values((MANY,), np.float32)),
        expected=lambda n, w: np.bincount(n, w, FEW),
        ordered=lambda n, w: oracles.panel(np.zeros(FEW, w.dtype), n, w),
        wrt=1,
        expected_pullback=lambda ct, n, w: ct[n],
        ordered_pullback=lambda ct, n, w: ct[n],
    )
    yield Sample(
        name="counts",
        facts={"dtype": "integer", "input_ndim": 1, "weights": False},
        call=lambda ns, n: ns.bincount(n, length=FEW),
        arrays=(numbers,),
        expected=lambda n: np.bincount(n, minlength=FEW),
        ordered=lambda n: np.bincount(n, minlength=FEW).astype(np.int32),
    )
