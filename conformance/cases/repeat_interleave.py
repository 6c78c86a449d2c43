"""Samples of repeat_interleave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import FEW, MANY, Array, folded, indices, values
from conformance.suite.sample import Sample
from spec import oracles


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"repeat_interleave": tuple(_repeat_interleave())}


def _repeat_interleave() -> Iterator[Sample]:
    """Yields a number of repetitions for each row, and one number for all elements."""
    yield Sample(
        name="array",
        facts={"dtype": "floating", "input_ndim": 2},
        call=lambda ns, x, r: ns.repeat_interleave(x, r, 0, output_size=MANY),
        arrays=(values((FEW, 3), np.float32), _repeats()),
        expected=lambda x, r: np.repeat(x, r, 0),
        ordered=lambda x, r: np.repeat(x, r, 0),
        wrt=0,
        expected_gradient=lambda ct, x, r: _gradient(ct, x, r, folded),
        ordered_gradient=lambda ct, x, r: _gradient(ct, x, r, oracles.source),
    )
    yield Sample(
        name="number",
        facts={"dtype": "floating", "input_ndim": 1},
        call=lambda ns, x: ns.repeat_interleave(x, MANY),
        arrays=(values((FEW,), np.float32),),
        expected=lambda x: np.repeat(x, MANY),
        ordered=lambda x: np.repeat(x, MANY),
        wrt=0,
        expected_gradient=lambda ct, x: _gradient(ct, x, MANY, folded),
        ordered_gradient=lambda ct, x: _gradient(ct, x, MANY, oracles.source),
    )


def _repeats() -> Array:
    """Returns counts of which some are zero and one is large."""
    return np.bincount(np.minimum(indices((MANY,)), 3), minlength=FEW).astype(np.int32)


def _gradient(ct: Array, x: Array, repeats: Any, add: Any) -> Array:
    return np.asarray(add(np.zeros_like(x), np.repeat(np.arange(FEW), repeats), ct))
