"""Samples of index_add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import DTYPES, FEW, MANY, folded, indices, kind, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"index_add": tuple(_index_add())}


def _index_add() -> Iterator[Sample]:
    """Yields rows added along the first dimension for each dtype, and along the last dimension."""
    for name, dtype in DTYPES.items():
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 2, "unique_indices": False},
            call=lambda ns, x, i, s: ns.index_add(x, 0, i, s),
            arrays=(values((FEW, 3), dtype), indices((MANY,)), values((MANY, 3), dtype, 1)),
            expected=folded,
            ordered=oracles.source,
            wrt=None if dtype is np.int32 else 2,
            expected_gradient=lambda ct, x, i, s: ct[i].astype(np.float64),
            ordered_gradient=lambda ct, x, i, s: ct[i],
        )
    yield Sample(
        name="one_column",
        facts={"dtype": "floating", "input_ndim": 1, "unique_indices": False},
        call=lambda ns, x, i, s: ns.index_add(x, 0, i, s),
        arrays=(values((FEW,), np.float32), indices((500,)), values((500,), np.float32, 1)),
        expected=folded,
        ordered=oracles.source,
    )
    yield Sample(
        name="last_dim",
        facts={"dtype": "floating", "input_ndim": 2, "unique_indices": False},
        call=lambda ns, x, i, s: ns.index_add(x, -1, i, s, alpha=2),
        arrays=(values((3, FEW), np.float32), indices((MANY,)), values((3, MANY), np.float32)),
        expected=lambda x, i, s: folded(x.T, i, 2 * s.T).T,
        ordered=lambda x, i, s: oracles.source(x.T, i, 2 * s.T).T,
    )
