"""Samples of index_reduce."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import FEW, MANY, Array, by_column, indices, kind, rounded_once
from conformance.cases._reductions import Reduction
from conformance.suite.sample import Sample

_COLUMNS = 3


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"index_reduce": tuple(_index_reduce())}


def _index_reduce() -> Iterator[Sample]:
    """Yields each reduction of rows, with and without the initial value."""
    yield _sample(Reduction("mean"))
    yield _sample(Reduction("mean", "narrow", include_self=False))
    yield _sample(Reduction("mean", "integer", include_self=False))
    yield _sample(Reduction("prod", include_self=False))
    yield _sample(Reduction("prod", "narrow"))
    yield _sample(Reduction("amax"))
    yield _sample(Reduction("amin", include_self=False))


def _sample(reduction: Reduction) -> Sample:
    # The gradients of other reductions compute the op itself, whose bits depend on the mode.
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
        expected=lambda x, i, s: by_column(reduction.expected, x, _for_each_column(i), s),
        ordered=lambda x, i, s: by_column(reduction.ordered, x, _for_each_column(i), s),
        wrt=2 if linear else None,
        expected_gradient=lambda ct, x, i, s: (ct / reduction.divisor(x, i)[:, None])[i],
        choices=rounded_once(reduction.number, "forward"),
    )


def _for_each_column(i: Array) -> Array:
    return np.stack([i] * _COLUMNS, axis=1)
