"""Calls of index_reduce."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases._data import FEW, MANY, Array, by_column, indices, kind, rounded_once
from conformance.cases._reductions import ReductionName

_COLUMNS = 3


def samples() -> Iterator[Sample]:
    """Each reduction of slices, with and without the initial value."""
    yield _sample(ReductionName("mean"))
    yield _sample(ReductionName("mean", "narrow", include_self=False))
    yield _sample(ReductionName("mean", "integer", include_self=False))
    yield _sample(ReductionName("prod", include_self=False))
    yield _sample(ReductionName("prod", "narrow"))
    yield _sample(ReductionName("amax"))
    yield _sample(ReductionName("amin", include_self=False))


def _sample(reduction: ReductionName) -> Sample:
    # The pullbacks of others compute the op itself, which differs with the mode.
    linear = reduction.reduce == "mean" and reduction.number != "integer"
    return Sample(
        name=reduction.name,
        facts={
            "dtype": kind(reduction.number),
            "input_ndim": 2,
            "reduce": reduction.reduce,
            "unique_indices": False,
        },
        call=lambda ns, x, i, s: ns.index_reduce(x, 0, i, s, **reduction.options),
        arrays=(
            reduction.values((FEW, _COLUMNS)),
            indices((MANY,)),
            reduction.values((MANY, _COLUMNS), 1),
        ),
        expected=lambda x, i, s: by_column(reduction.expected, x, _each(i), s),
        ordered=lambda x, i, s: by_column(reduction.ordered, x, _each(i), s),
        wrt=2 if linear else None,
        expected_pullback=lambda ct, x, i, s: (ct / reduction.terms(x, i)[:, None])[i],
        own=rounded_once(reduction.number, "forward"),
    )


def _each(i: Array) -> Array:
    """The index of each column."""
    return np.stack([i] * _COLUMNS, axis=1)
