"""Calls of take_along_dim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import FEW, MANY, Array, folded, indices, values
from spec import oracles


def samples() -> Iterator[Sample]:
    """Along a dimension, with another that is repeated; and in all elements."""
    yield Sample(
        name="repeated",
        facts={"dtype": "floating", "input_ndim": 3},
        call=lambda ns, x, i: ns.take_along_dim(x, i, 1),
        arrays=(values((1, FEW, 3), np.float32), indices((5, MANY // 5, 3)) - 1),
        expected=_read,
        ordered=_read,
        wrt=0,
        expected_pullback=lambda ct, x, i: _pullback(ct, x, i, folded),
        ordered_pullback=lambda ct, x, i: _pullback(ct, x, i, oracles.panel),
    )
    yield Sample(
        name="flat",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x, i: ns.take_along_dim(x, i),
        arrays=(values((2, FEW), np.float32), indices((2, MANY), 2 * FEW)),
        expected=lambda x, i: x.reshape(-1)[i.reshape(-1)],
        ordered=lambda x, i: x.reshape(-1)[i.reshape(-1)],
        wrt=0,
        expected_pullback=lambda ct, x, i: _flat(ct, x, i, folded),
        ordered_pullback=lambda ct, x, i: _flat(ct, x, i, oracles.panel),
    )


def _read(x: Array, i: Array) -> Array:
    return np.take_along_axis(np.broadcast_to(x, (5, FEW, 3)), i % FEW, 1)


def _pullback(ct: Array, x: Array, i: Array, add: Any) -> Array:
    """Each column is a lane; the repetitions are read one after the other."""
    columns = [
        add(np.zeros(FEW, x.dtype), i[..., c].reshape(-1) % FEW, ct[..., c].reshape(-1))
        for c in range(3)
    ]
    return np.stack(columns, axis=1)[None]


def _flat(ct: Array, x: Array, i: Array, add: Any) -> Array:
    return np.asarray(add(np.zeros(x.size, x.dtype), i.reshape(-1), ct)).reshape(x.shape)
