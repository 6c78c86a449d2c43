"""Calls of interpolate."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from conformance.case import Sample
from conformance.cases._data import values
from conformance.cases.nn.functional._separable import Reads, copies, separable_sample


def samples() -> Iterator[Sample]:
    """Each mode, enlarging and reducing; a narrow float; windows that share nothing."""
    # Scales are powers of 2, so that positions and all weights but some are exact.
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
    """Means over windows that divide each dimension."""
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
    found: Reads = []
    for o in range(m):
        at = min(max((o + 0.5) * n / m - 0.5, 0), n - 1)
        weights = {i: _tent(i - at) for i in range(n)}
        found.append({i: w for i, w in weights.items() if w})
    return found


def _cubic(n: int, m: int) -> Reads:
    """Positions beyond an end are those at the end."""
    found: Reads = []
    for o in range(m):
        at = (o + 0.5) * n / m - 0.5
        read: dict[int, float] = {}
        for i in range(math.floor(at) - 1, math.floor(at) + 3):
            place = min(max(i, 0), n - 1)
            read[place] = read.get(place, 0) + _smooth(i - at, -0.75)
        found.append({i: w for i, w in read.items() if w})
    return found


def _antialiased(weight: Callable[[float], float], n: int, m: int) -> Reads:
    """The kernel is as much wider as the result is smaller, and its weights add up to 1."""
    widened, found = max(n / m, 1), []
    for o in range(m):
        at = (o + 0.5) * n / m - 0.5
        weights = {i: weight((i - at) / widened) for i in range(n)}
        total = sum(weights.values())
        found.append({i: w / total for i, w in weights.items() if w})
    return found


def _tent(x: float) -> float:
    return max(1 - abs(x), 0)


def _smooth(x: float, a: float = -0.5) -> float:
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0
