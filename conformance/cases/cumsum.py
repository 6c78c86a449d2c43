"""Calls of cumsum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases._data import DTYPES, MANY, kind, values
from spec import oracles

#: Elements enough that the last of them follows several carries.
_LONG = 2 * MANY


def samples() -> Iterator[Sample]:
    """Down columns, for each dtype and complex numbers; along rows for one."""
    data = {name: values((_LONG, 2), dtype) for name, dtype in DTYPES.items()}
    data["complex"] = data["floating"] + 1j * data["floating"][::-1]
    for name, array in data.items():
        yield Sample(
            name=name,
            facts={"dtype": kind(name), "input_ndim": 2},
            call=lambda ns, x: ns.cumsum(x, 0),
            arrays=(array,),
            expected=lambda x: np.cumsum(x.astype(np.complex128), 0),
            ordered=oracles.blocked_scan,
            wrt=None if name == "integer" else 0,
            expected_pullback=lambda ct, x: np.cumsum(ct[::-1].astype(np.complex128), 0)[::-1],
            ordered_pullback=lambda ct, x: oracles.blocked_scan(ct[::-1])[::-1],
        )
    yield Sample(
        name="rows",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x: ns.cumsum(x, -1),
        arrays=(values((2, _LONG), np.float32),),
        expected=lambda x: np.cumsum(x.astype(np.float64), 1),
        ordered=lambda x: oracles.blocked_scan(x.T).T,
    )
