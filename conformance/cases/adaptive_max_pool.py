"""Samples of adaptive_max_pool1d, adaptive_max_pool2d and adaptive_max_pool3d."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._average_pooling import adaptive_windows
from conformance.cases._data import values
from conformance.cases._max_pooling import SIZES, of_indices, of_values
from conformance.suite.sample import Sample

#: Output sizes by the number of dimensions. Windows have several lengths, and where the output is
#: the larger one, several windows read the same element.
_UNEVEN = {1: (233,), 2: (5, 29), 3: (3, 9, 20)}
#: Output sizes for which no two windows share an element.
_EVEN = {1: (45,), 2: (1, 17), 3: (5, 7, 4)}


def samples() -> Mapping[str, Sequence[Sample]]:
    return {
        f"nn.functional.adaptive_max_pool{dims}d": tuple(_adaptive_max_pool(dims))
        for dims in (1, 2, 3)
    }


def _adaptive_max_pool(dims: int) -> Iterator[Sample]:
    """Yields windows of several lengths, also among equal elements; and windows of one length."""
    name, sizes, uneven = f"adaptive_max_pool{dims}d", SIZES[dims], _UNEVEN[dims]
    reads = [adaptive_windows(n, m) for n, m in zip(sizes, uneven, strict=True)]

    def overlapping(value: bool) -> dict[str, bool]:
        return {"overlapping": value} if dims == 3 else {}  # No other rows ask for it.

    yield of_values(
        "uneven",
        lambda ns, x: getattr(ns.nn.functional, name)(x, uneven),
        values((2, 3, *sizes), np.float32),
        reads,
        **overlapping(True),
    )
    yield of_indices(
        lambda ns, x: getattr(ns.nn.functional, name)(x, uneven, True), reads, **overlapping(True)
    )
    counts = _EVEN[dims]
    even = tuple(n // m * m for n, m in zip(sizes, counts, strict=True))
    yield of_values(
        "even",
        lambda ns, x: getattr(ns.nn.functional, name)(x, counts),
        values((3, *even), np.float32),
        [adaptive_windows(n, m) for n, m in zip(even, counts, strict=True)],
        **overlapping(False),
    )
