"""Samples of avg_pool1d, avg_pool2d and avg_pool3d."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._average_pooling import SIZES, dtypes, lengths, mean, windows
from conformance.cases._data import DTYPES, values
from conformance.suite.sample import Sample

#: Windows that overlap, by the number of dimensions.
_KERNEL = {1: (9,), 2: (5, 4), 3: (3, 2, 5)}
_STRIDE = {1: (2,), 2: (1, 3), 3: (2, 1, 2)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 2)}


def samples() -> Mapping[str, Sequence[Sample]]:
    return {f"nn.functional.avg_pool{dims}d": tuple(_avg_pool(dims)) for dims in (1, 2, 3)}


def _avg_pool(dims: int) -> Iterator[Sample]:
    """Yields windows that overlap in a padded input, and windows with gaps between them."""
    name, sizes, kernel = f"avg_pool{dims}d", SIZES[dims], _KERNEL[dims]
    stride, padding = _STRIDE[dims], _PADDING[dims]
    overlapping = [
        windows(n, k, s, p, (n + 2 * p - k) // s + 1)
        for n, k, s, p in zip(sizes, kernel, stride, padding, strict=True)
    ]
    for dtype in dtypes(dims):
        yield mean(
            f"overlapping, {dtype}",
            lambda ns, x: getattr(ns.nn.functional, name)(x, kernel, stride, padding),
            values((2, 3, *sizes), DTYPES[dtype]),
            overlapping,
            np.full([len(along) for along in overlapping], np.prod(kernel)),
        )
    # The last window of a dimension may end beyond the input, but must begin inside.
    apart = [windows(n, 4, 5, 0, len(range(0, n, 5))) for n in sizes]
    yield mean(
        "apart",
        lambda ns, x: getattr(ns.nn.functional, name)(x, 4, 5, 0, True, False),
        values((3, *sizes), np.float32),
        apart,
        lengths(apart),
    )
