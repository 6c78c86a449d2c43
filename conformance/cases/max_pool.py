"""Samples of max_pool1d, max_pool2d and max_pool3d."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conformance.cases._data import DTYPES, values
from conformance.cases._max_pooling import SIZES, Reads, of_indices, of_values
from conformance.suite.sample import Sample

#: Windows that overlap, by the number of dimensions.
_KERNEL = {1: (21,), 2: (5, 4), 3: (3, 2, 5)}
_STRIDE = {1: (1,), 2: (1, 2), 3: (1, 1, 2)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 2)}
_DILATION = {1: (2,), 2: (1, 3), 3: (2, 1, 1)}
_LONG = {1: (70,), 2: (9, 8), 3: (5, 4, 4)}


def samples() -> Mapping[str, Sequence[Sample]]:
    return {f"nn.functional.max_pool{dims}d": tuple(_max_pool(dims)) for dims in (1, 2, 3)}


def _max_pool(dims: int) -> Iterator[Sample]:
    """Yields windows that overlap, in several dtypes and among equal elements, and some apart."""
    name, sizes = f"max_pool{dims}d", SIZES[dims]
    options = _KERNEL[dims], _STRIDE[dims], _PADDING[dims], _DILATION[dims]
    reads = [_windows(*along) for along in zip(sizes, *options, strict=True)]
    # Only the rows of max_pool3d ask for it.
    without, with_indices = (
        ({"returns_indices": False}, {"returns_indices": True}) if dims == 3 else ({}, {})
    )
    for dtype in ("floating", "integer", "narrow") if dims == 2 else ("floating",):
        yield of_values(
            f"overlapping, {dtype}",
            lambda ns, x: getattr(ns.nn.functional, name)(x, *options),
            values((2, 3, *sizes), DTYPES[dtype]),
            reads,
            **without,
        )
    yield of_indices(
        lambda ns, x: getattr(ns.nn.functional, name)(x, *options, False, True),
        reads,
        **with_indices,
    )
    # The gradient of 65 taps or more is a scatter on every device.
    kernel = _LONG[dims]
    yield of_values(
        "long",
        lambda ns, x: getattr(ns.nn.functional, name)(x, kernel, 1),
        values((2, 3, *sizes), np.float32),
        [_windows(n, k, 1, 0, 1) for n, k in zip(sizes, kernel, strict=True)],
        **without,
    )
    # The last window of a dimension may end beyond the input, but must begin inside.
    yield of_values(
        "apart",
        lambda ns, x: getattr(ns.nn.functional, name)(x, 4, 5, 0, 1, True),
        values((3, *sizes), np.float32),
        [_windows(n, 4, 5, 0, 1, len(range(0, n, 5))) for n in sizes],
        **without,
    )


def _windows(
    size: int, kernel: int, stride: int, padding: int, dilation: int, count: int | None = None
) -> Reads:
    if count is None:
        count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    starts = [o * stride - padding for o in range(count)]
    return [[i for t in range(kernel) if 0 <= (i := s + t * dilation) < size] for s in starts]
