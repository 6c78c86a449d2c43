"""Samples of gather."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import FEW, MANY, by_column, folded, indices, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"gather": tuple(_gather())}


def _gather() -> Iterator[Sample]:
    """Yields a number, one dimension, and two dimensions."""
    yield Sample(
        name="number",
        facts={"dtype": "floating", "input_ndim": 0},
        call=lambda ns, x, i: ns.gather(x, 0, i),
        arrays=(np.ones((), np.float32), np.zeros((), np.int32)),
        expected=lambda x, i: x,
        wrt=0,
        expected_gradient=lambda ct, x, i: ct,
        ordered_gradient=lambda ct, x, i: ct,
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
            expected_gradient=lambda ct, x, i: by_column(folded, np.zeros_like(x), i, ct),
            ordered_gradient=lambda ct, x, i: by_column(oracles.source, np.zeros_like(x), i, ct),
        )
