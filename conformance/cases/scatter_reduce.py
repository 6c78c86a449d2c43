"""Samples of scatter_reduce."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import FEW, MANY, Array, by_column, indices, kind
from conformance.cases._reductions import Reduction
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"scatter_reduce": tuple(_scatter_reduce())}


def _scatter_reduce() -> Iterator[Sample]:
    """Yields each reduction, with and without the initial value, in one and two dimensions."""
    yield _sample(Reduction("sum"), (3,))
    yield _sample(Reduction("sum", "narrow", include_self=False), ())
    yield _sample(Reduction("mean", include_self=False), (3,))
    yield _sample(Reduction("mean", "narrow"), ())
    yield _sample(Reduction("mean", "integer"), ())
    yield _sample(Reduction("prod"), (3,))
    yield _sample(Reduction("prod", "narrow", include_self=False), ())
    yield _sample(Reduction("amax", include_self=False), (3,))
    yield _sample(Reduction("amin", "integer"), ())


def _sample(reduction: Reduction, lanes: tuple[int, ...]) -> Sample:
    # The gradients of other reductions compute the op itself, which a profile may refuse.
    linear = reduction.reduce in ("sum", "mean") and reduction.number != "integer"

    def gradient(x: Array, i: Array, ct: Array) -> Array:
        return (ct / reduction.divisor(x, i) if reduction.reduce == "mean" else ct)[i]

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
        expected_gradient=lambda ct, x, i, s: by_column(gradient, x, i, ct.astype(np.float64)),
    )
