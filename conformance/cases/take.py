"""Samples of take and take_along_dim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import FEW, MANY, Array, folded, indices, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"take": tuple(_take()), "take_along_dim": tuple(_take_along_dim())}


def _take() -> Iterator[Sample]:
    """Yields elements of two dimensions, with indices from both ends."""
    yield Sample(
        name="2d",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x, i: ns.take(x, i),
        arrays=(values((2, FEW), np.float32), indices((2, MANY), 2 * FEW) - FEW),
        expected=lambda x, i: x.reshape(-1)[i],
        ordered=lambda x, i: x.reshape(-1)[i],
        wrt=0,
        expected_gradient=lambda ct, x, i: _gradient_of_take(ct, x, i, folded),
        ordered_gradient=lambda ct, x, i: _gradient_of_take(ct, x, i, oracles.source),
    )


def _gradient_of_take(ct: Array, x: Array, i: Array, add: Any) -> Array:
    zero = np.zeros(x.size, x.dtype)
    return np.asarray(add(zero, i.reshape(-1) % x.size, ct.reshape(-1))).reshape(x.shape)


def _take_along_dim() -> Iterator[Sample]:
    """Yields a read along a dimension while another is broadcast, and a read of all elements."""
    yield Sample(
        name="repeated",
        facts={"dtype": "floating", "input_ndim": 3},
        call=lambda ns, x, i: ns.take_along_dim(x, i, 1),
        arrays=(values((1, FEW, 3), np.float32), indices((5, MANY // 5, 3)) - 1),
        expected=_broadcast_read,
        ordered=_broadcast_read,
        wrt=0,
        expected_gradient=lambda ct, x, i: _gradient_of_broadcast(ct, x, i, folded),
        ordered_gradient=lambda ct, x, i: _gradient_of_broadcast(ct, x, i, oracles.source),
    )
    yield Sample(
        name="flat",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x, i: ns.take_along_dim(x, i),
        arrays=(values((2, FEW), np.float32), indices((2, MANY), 2 * FEW)),
        expected=lambda x, i: x.reshape(-1)[i.reshape(-1)],
        ordered=lambda x, i: x.reshape(-1)[i.reshape(-1)],
        wrt=0,
        expected_gradient=lambda ct, x, i: _gradient_of_flat(ct, x, i, folded),
        ordered_gradient=lambda ct, x, i: _gradient_of_flat(ct, x, i, oracles.source),
    )


def _broadcast_read(x: Array, i: Array) -> Array:
    return np.take_along_axis(np.broadcast_to(x, (5, FEW, 3)), i % FEW, 1)


def _gradient_of_broadcast(ct: Array, x: Array, i: Array, add: Any) -> Array:
    """Adds each column as a lane. The repetitions contribute one after another."""
    columns = [
        add(np.zeros(FEW, x.dtype), i[..., c].reshape(-1) % FEW, ct[..., c].reshape(-1))
        for c in range(3)
    ]
    return np.stack(columns, axis=1)[None]


def _gradient_of_flat(ct: Array, x: Array, i: Array, add: Any) -> Array:
    return np.asarray(add(np.zeros(x.size, x.dtype), i.reshape(-1), ct)).reshape(x.shape)
