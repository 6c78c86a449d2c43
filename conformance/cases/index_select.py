"""Samples of index_select."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import DTYPES, FEW, MANY, indices, kind, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"index_select": tuple(_index_select())}


def _index_select() -> Iterator[Sample]:
    """Yields rows along the first dimension, for each dtype that has a gradient."""
    for name, dtype in DTYPES.items():
        if dtype is np.int32:
            continue
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 2},
            call=lambda ns, x, i: ns.index_select(x, 0, i),
            arrays=(values((FEW, 3), dtype), indices((MANY,))),
            expected=lambda x, i: x[i],
            ordered=lambda x, i: x[i],
            wrt=0,
            expected_gradient=lambda ct, x, i: np.stack(
                [ct[i == row].astype(np.float64).sum(0) for row in range(FEW)]
            ),
            ordered_gradient=lambda ct, x, i: oracles.source(np.zeros_like(x), i, ct),
        )
