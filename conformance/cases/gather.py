"""Calls of gather."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import FEW, MANY, Array, indices, values
from spec import oracles


def samples() -> Iterator[Sample]:
    """A number, one dimension, and two."""
    yield Sample(
        name="number",
        facts={"dtype": "floating", "input_ndim": 0},
        call=lambda ns, x, i: ns.gather(x, 0, i),
        arrays=(np.ones((), np.float32), np.zeros((), np.int32)),
        expected=lambda x, i: x,
        wrt=0,
        expected_pullback=lambda ct, x, i: ct,
        ordered_pullback=lambda ct, x, i: ct,
    )
    for lanes in ((), (3,)):
        yield Sample(
            name=f"{len(lanes) + 1}d",
            facts={"dtype": "floating", "input_ndim": 1 + len(lanes)},
            call=lambda ns, x, i: ns.gather(x, 0, i),
            arrays=(values((FEW, *lanes), np.float32), indices((MANY, *lanes))),
            expected=lambda x, i: np.take_along_axis(x, i, 0),
            ordered=lambda x, i: np.take_along_axis(x, i, 0),
            wrt=0,
            expected_pullback=lambda ct, x, i: _pullback(ct, x, i, _add),
            ordered_pullback=lambda ct, x, i: _pullback(ct, x, i, oracles.panel),
        )


def _pullback(ct: Array, x: Array, i: Array, add: Any) -> Array:
    zero = np.zeros_like(x)
    if x.ndim == 1:
        return np.asarray(add(zero, i, ct))
    columns = [add(zero[:, c], i[:, c], ct[:, c]) for c in range(x.shape[1])]
    return np.stack(columns, axis=1)


def _add(x: Array, i: Array, s: Array) -> Any:
    out = x.astype(np.float64)
    np.add.at(out, i, s.astype(np.float64))
    return out
