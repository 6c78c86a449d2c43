"""Samples of cumsum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import DTYPES, MANY, kind, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"cumsum": tuple(_cumsum())}


def _cumsum() -> Iterator[Sample]:
    """Yields columns of each dtype and of complex numbers, and rows of floats."""
    data = {name: values((MANY, 2), dtype) for name, dtype in DTYPES.items()}
    data["complex"] = data["floating"] + 1j * data["floating"][::-1]
    for name, array in data.items():
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 2},
            call=lambda ns, x: ns.cumsum(x, 0),
            arrays=(array,),
            expected=lambda x: np.cumsum(x.astype(np.complex128), 0),
            ordered=None if name == "integer" else oracles.nearest_running,
            wrt=None if name == "integer" else 0,
            expected_gradient=lambda ct, x: np.cumsum(ct[::-1].astype(np.complex128), 0)[::-1],
            ordered_gradient=lambda ct, x: oracles.nearest_running(ct[::-1])[::-1],
        )
    yield Sample(
        name="rows",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x: ns.cumsum(x, -1),
        arrays=(values((2, MANY), np.float32),),
        expected=lambda x: np.cumsum(x.astype(np.float64), 1),
        ordered=lambda x: oracles.nearest_running(x.T).T,
    )
