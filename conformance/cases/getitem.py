"""Samples of getitem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import FEW, MANY, Array, folded, indices, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"getitem": tuple(_getitem())}


def _getitem() -> Iterator[Sample]:
    """Yields an array of indices, a list with two arrays around a slice, and slices alone."""
    yield Sample(
        name="array",
        facts={"dtype": "floating", "input_ndim": 2, "index_is_list": True},
        call=lambda ns, x, i: ns.getitem(x, i),
        arrays=(values((FEW, 3), np.float32), indices((MANY,))),
        expected=lambda x, i: x[i],
        ordered=lambda x, i: x[i],
        wrt=0,
        expected_gradient=lambda ct, x, i: folded(np.zeros_like(x), i, ct),
        ordered_gradient=lambda ct, x, i: oracles.source(np.zeros_like(x), i, ct),
    )
    yield Sample(
        name="list_of_arrays",
        facts={"dtype": "floating", "input_ndim": 3, "index_is_list": True},
        call=lambda ns, x, i, j: ns.getitem(x, [i, slice(1, None), j]),
        arrays=(
            values((2, 4, FEW), np.float32),
            indices((MANY // 50, 1), 2) - 1,  # Negative indices count from the end.
            indices((50,)),
        ),
        expected=lambda x, i, j: x[i, 1:, j],
        ordered=lambda x, i, j: x[i, 1:, j],
        wrt=0,
        expected_gradient=lambda ct, x, i, j: _of_list(ct, x, i, j, folded),
        ordered_gradient=lambda ct, x, i, j: _of_list(ct, x, i, j, oracles.source),
    )
    yield Sample(
        name="slices",
        facts={"dtype": "floating", "input_ndim": 3, "index_is_list": False},
        call=lambda ns, x: ns.getitem(x, (slice(None, None, 2), None, -1, ...)),
        arrays=(values((FEW, 4, 3), np.float32),),
        expected=lambda x: x[::2, None, -1],
        ordered=lambda x: x[::2, None, -1],
        wrt=0,
        expected_gradient=_of_slices,
        ordered_gradient=_of_slices,
    )


def _of_list(ct: Array, x: Array, i: Array, j: Array, add: Any) -> Array:
    """Flattens the two indexed dimensions together. The other dimension is a lane."""
    flat = (np.where(i < 0, i + 2, i) * FEW + j).reshape(-1)
    rows = add(np.zeros((2 * FEW, 3), np.float32), flat, ct.reshape(-1, 3))
    out = np.zeros(x.shape, rows.dtype)
    out[:, 1:] = rows.reshape(2, FEW, 3).transpose(0, 2, 1)
    return out


def _of_slices(ct: Array, x: Array) -> Array:
    out = np.zeros_like(x)
    out[::2, None, -1] = ct
    return out
