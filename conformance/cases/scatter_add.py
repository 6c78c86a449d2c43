"""Samples of scatter_add."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import DTYPES, FEW, MANY, by_column, folded, indices, kind, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"scatter_add": tuple(_scatter_add())}


def _scatter_add() -> Iterator[Sample]:
    """Yields one and two dimensions for each dtype, a number, and an index of a corner."""
    for name, dtype in DTYPES.items():
        for lanes in ((), (3,)):
            yield _sample(f"{name}_{len(lanes) + 1}d", lanes, kind(name), dtype)
    yield Sample(
        name="number",
        facts={"dtype": "floating", "input_ndim": 0, "unique_indices": False},
        call=lambda ns, x, i, s: ns.scatter_add(x, 0, i, s),
        arrays=(np.ones((), np.float32), np.zeros((), np.int32), np.ones((), np.float32)),
        expected=lambda x, i, s: x + s,
        ordered=lambda x, i, s: x + s,
    )
    yield Sample(
        name="corner",
        facts={"dtype": "floating", "input_ndim": 2, "unique_indices": False},
        call=lambda ns, x, i, s: ns.scatter_add(x, 1, i, s),
        arrays=(
            values((3, FEW), np.float32),
            indices((2, MANY)),
            values((2, MANY + 1), np.float32),
        ),
        expected=lambda x, i, s: by_column(folded, x.T, i.T, s[:, :-1].T).T,
        ordered=lambda x, i, s: by_column(oracles.source, x.T, i.T, s[:, :-1].T).T,
    )


def _sample(name: str, lanes: tuple[int, ...], dtype_fact: str, dtype: Any) -> Sample:
    return Sample(
        name=name,
        facts={"dtype": dtype_fact, "input_ndim": 1 + len(lanes), "unique_indices": False},
        call=lambda ns, x, i, s: ns.scatter_add(x, 0, i, s),
        arrays=(
            values((FEW, *lanes), dtype),
            indices((MANY, *lanes)),
            values((MANY, *lanes), dtype, 1),
        ),
        expected=functools.partial(by_column, folded),
        ordered=functools.partial(by_column, oracles.source),
        wrt=None if dtype is np.int32 else 2,
        expected_gradient=lambda ct, x, i, s: np.take_along_axis(ct, i, 0).astype(np.float64),
        ordered_gradient=lambda ct, x, i, s: np.take_along_axis(ct, i, 0),
    )
