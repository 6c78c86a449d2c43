"""Samples of index_copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import DTYPES, FEW, MANY, indices, kind, one_of_the_writes, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"index_copy": tuple(_index_copy())}


def _index_copy() -> Iterator[Sample]:
    """Yields rows written along the first dimension for each dtype, and along the last one."""
    # There is no sample of the gradient, which depends on the write that the op chose.
    for name, dtype in DTYPES.items():
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 2, "unique_indices": False},
            call=lambda ns, x, i, s: ns.index_copy(x, 0, i, s),
            arrays=(values((FEW, 3), dtype), indices((MANY,)), values((MANY, 3), dtype, 1)),
            expected=oracles.last_write,
            ordered=oracles.last_write,
            accept=one_of_the_writes,
        )
    yield Sample(
        name="last_dim",
        facts={"dtype": "floating", "input_ndim": 2, "unique_indices": False},
        call=lambda ns, x, i, s: ns.index_copy(x, -1, i, s),
        arrays=(values((3, FEW), np.float32), indices((MANY,)), values((3, MANY), np.float32)),
        expected=lambda x, i, s: oracles.last_write(x.T, i, s.T).T,
        ordered=lambda x, i, s: oracles.last_write(x.T, i, s.T).T,
        accept=lambda result, x, i, s: one_of_the_writes(np.transpose(result), x.T, i, s.T),
    )
