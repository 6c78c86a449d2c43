"""Calls of scatter_reduce."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from conformance.case import Sample
from conformance.cases._data import FEW, MANY, Array, by_column, indices, kind
from conformance.cases._reductions import ReductionName


def samples() -> Iterator[Sample]:
    """Each reduction, with and without the initial value, in one and two dimensions."""
    yield _sample(ReductionName("sum"), (3,))
    yield _sample(ReductionName("sum", "narrow", include_self=False), ())
    yield _sample(ReductionName("mean", include_self=False), (3,))
    yield _sample(ReductionName("mean", "narrow"), ())
    yield _sample(ReductionName("mean", "integer"), ())
    yield _sample(ReductionName("prod"), (3,))
    yield _sample(ReductionName("prod", "narrow", include_self=False), ())
    yield _sample(ReductionName("amax", include_self=False), (3,))
    yield _sample(ReductionName("amin", "integer"), ())


def _sample(reduction: ReductionName, lanes: tuple[int, ...]) -> Sample:
    # The pullbacks of others compute the op itself, which a profile may refuse.
    linear = reduction.reduce in ("sum", "mean") and reduction.number != "integer"

    def pullback(x: Array, i: Array, ct: Array) -> Array:
        return (ct / reduction.terms(x, i) if reduction.reduce == "mean" else ct)[i]

    return Sample(
        name=reduction.name,
        facts={
            "dtype": kind(reduction.number),
            "input_ndim": 1 + len(lanes),
            "reduce": reduction.reduce,
            "unique_indices": False,
        },
        call=lambda ns, x, i, s: ns.scatter_reduce(x, 0, i, s, **reduction.options),
        arrays=(
            reduction.values((FEW, *lanes)),
            indices((MANY, *lanes)),
            reduction.values((MANY, *lanes), 1),
        ),
        expected=functools.partial(by_column, reduction.expected),
        ordered=functools.partial(by_column, reduction.ordered),
        wrt=2 if linear else None,
        expected_pullback=lambda ct, x, i, s: by_column(pullback, x, i, ct.astype(np.float64)),
    )
