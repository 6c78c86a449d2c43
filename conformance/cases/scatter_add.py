"""Calls of scatter_add."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import DTYPES, FEW, MANY, Array, indices, kind, values
from spec import oracles


def samples() -> Iterator[Sample]:
    """One and two dimensions for each dtype; a number; an index smaller than the input."""
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
        expected=lambda x, i, s: _lanes(x.T, i.T, s[:, :-1].T, _expected).T,
        ordered=lambda x, i, s: _lanes(x.T, i.T, s[:, :-1].T, oracles.panel).T,
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
        expected=lambda x, i, s: _lanes(x, i, s, _expected),
        ordered=lambda x, i, s: _lanes(x, i, s, oracles.panel),
        wrt=None if dtype is np.int32 else 2,
        expected_pullback=lambda ct, x, i, s: np.take_along_axis(ct, i, 0).astype(np.float64),
        ordered_pullback=lambda ct, x, i, s: np.take_along_axis(ct, i, 0),
    )


def _lanes(x: Array, i: Array, s: Array, add: Any) -> Array:
    """Adds along the first dimension, each column by itself, in the corner that ``i`` spans."""
    if x.ndim == 1:
        return np.asarray(add(x, i, s))
    columns = [
        add(x[:, c], i[:, c], s[:, c]) if c < i.shape[1] else x[:, c] for c in range(x.shape[1])
    ]
    return np.stack(columns, axis=1)


def _expected(x: Array, i: Array, s: Array) -> Any:
    out = x.astype(np.float64)
    np.add.at(out, i, s.astype(np.float64))
    return out
