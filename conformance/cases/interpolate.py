"""Samples of interpolate."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from conformance.cases._data import values
from conformance.cases._separable_sums import Reads, copies, separable_sample
from conformance.suite.sample import Sample


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"nn.functional.interpolate": tuple(_interpolate())}


def _interpolate() -> Iterator[Sample]:
    """Yields each mode, enlarging and reducing; bfloat16; and windows that share no element."""
    # Scales are powers of 2, so that positions and most weights are exact.
    yield _sample("nearest 1d", "nearest", (2, 3, 12), (96,), _nearest)
    yield _sample("nearest 3d", "nearest", (1, 2, 4, 3, 2), (16, 6, 8), _nearest)
    yield _sample("apart", "nearest", (2, 3, 12, 8), (6, 4), _nearest)
    yield _sample("exact", "nearest-exact", (2, 3, 6, 8), (24, 2), _nearest_exact)
    yield _sample("linear", "linear", (2, 3, 12), (96,), _linear)
    yield _sample("bilinear", "bilinear", (2, 3, 6, 5), (24, 40), _linear)
    yield _sample("narrow", "bilinear", (2, 3, 6, 5), (24, 40), _linear, bfloat16)
    yield _sample("bicubic", "bicubic", (2, 3, 6, 8), (24, 4), _cubic)
    yield _sample("trilinear", "trilinear", (1, 2, 4, 3, 5), (8, 12, 10), _linear)
    for mode, weight in (("bilinear", _tent), ("bicubic", _smooth)):
        yield _sample(
            f"{mode} without aliases",
            mode,
            (2, 3, 8, 16),
            (32, 8),
            functools.partial(_antialiased, weight),
            antialias=True,
        )
    yield _area("area", (2, 3, 9, 12), (4, 20))


def _sample(
    name: str,
    mode: str,
    shape: tuple[int, ...],
    size: tuple[int, ...],
    reads: Callable[[int, int], Reads],
    dtype: type = np.float32,
    **options: bool,
) -> Sample:
    return separable_sample(
        name,
        _call(mode, size, **options),
        values(shape, dtype),
        [reads(n, m) for n, m in zip(shape[2:], size, strict=True)],
        mode=mode,
        antialias=bool(options),
    )


def _area(name: str, shape: tuple[int, ...], size: tuple[int, ...]) -> Sample:
    """Returns means over windows that divide each dimension."""
    reads = [
        [
            {i: 1.0 for i in range(n) if (i + 1) * m > o * n and i * m < (o + 1) * n}
            for o in range(m)
        ]
        for n, m in zip(shape[2:], size, strict=True)
    ]
    counts = np.ones(1)
    for along in reads:
        counts = np.multiply.outer(counts, np.array([len(window) for window in along]))
    return separable_sample(
        name,
        _call("area", size),
        values(shape, np.float32),
        reads,
        divisor=counts[0],
        mode="area",
        antialias=False,
    )


def _call(mode: str, size: tuple[int, ...], **options: bool) -> Any:
    return lambda ns, x: ns.nn.functional.interpolate(x, size, mode=mode, **options)


def _nearest(n: int, m: int) -> Reads:
    return copies([o * n // m for o in range(m)])


def _nearest_exact(n: int, m: int) -> Reads:
    return copies([(2 * o + 1) * n // (2 * m) for o in range(m)])


def _linear(n: int, m: int) -> Reads:
    reads: Reads = []
    for o in range(m):
        position = min(max((o + 0.5) * n / m - 0.5, 0), n - 1)
        weights = {i: _tent(i - position) for i in range(n)}
        reads.append({i: w for i, w in weights.items() if w})
    return reads


def _cubic(n: int, m: int) -> Reads:
    """Returns the reads of cubic interpolation. An index beyond an end reads the element there."""
    reads: Reads = []
    for o in range(m):
        position = (o + 0.5) * n / m - 0.5
        weights: dict[int, float] = {}
        for i in range(math.floor(position) - 1, math.floor(position) + 3):
            index = min(max(i, 0), n - 1)
            weights[index] = weights.get(index, 0) + _smooth(i - position, -0.75)
        reads.append({i: w for i, w in weights.items() if w})
    return reads


def _antialiased(weight: Callable[[float], float], n: int, m: int) -> Reads:
    """Returns the reads of a kernel that widens as the result shrinks. Its weights sum to 1."""
    width, reads = max(n / m, 1), []
    for o in range(m):
        position = (o + 0.5) * n / m - 0.5
        weights = {i: weight((i - position) / width) for i in range(n)}
        total = sum(weights.values())
        reads.append({i: w / total for i, w in weights.items() if w})
    return reads


def _tent(x: float) -> float:
    return max(1 - abs(x), 0)


def _smooth(x: float, a: float = -0.5) -> float:
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0
