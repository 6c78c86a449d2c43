"""Samples of bincount."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import FEW, MANY, indices, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"bincount": tuple(_bincount())}


def _bincount() -> Iterator[Sample]:
    """Yields a call with weights and a call without."""
    numbers = indices((MANY,))
    yield Sample(
        name="weights",
        facts={"dtype": "floating", "input_ndim": 1, "weights": True},
        call=lambda ns, n, w: ns.bincount(n, w, length=FEW),
        arrays=(numbers, values((MANY,), np.float32)),
        expected=lambda n, w: np.bincount(n, w, FEW),
        ordered=lambda n, w: oracles.source(np.zeros(FEW, w.dtype), n, w),
        wrt=1,
        expected_gradient=lambda ct, n, w: ct[n],
        ordered_gradient=lambda ct, n, w: ct[n],
    )
    yield Sample(
        name="counts",
        facts={"dtype": "integer", "input_ndim": 1, "weights": False},
        call=lambda ns, n: ns.bincount(n, length=FEW),
        arrays=(numbers,),
        expected=lambda n: np.bincount(n, minlength=FEW),
        ordered=lambda n: np.bincount(n, minlength=FEW).astype(np.int32),
    )
