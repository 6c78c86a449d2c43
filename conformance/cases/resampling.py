"""Samples of pad and interpolate: weighted sums of elements, one dimension after another."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from ml_dtypes import bfloat16

from conformance.cases._data import Array, values
from conformance.suite.sample import Call, OpInfo, Sample
from spec import FactValue, oracles

#: For each element along a dimension of the result, the indices that it reads and their weights.
Reads: TypeAlias = list[dict[int, float]]


def copies(indices: list[int]) -> Reads:
    """Returns the reads of a result that copies elements."""
    return [{index: 1.0} for index in indices]


def separable_sample(
    name: str,
    call: Call,
    x: Array,
    reads: list[Reads],
    divisor: Array | None = None,
    **facts: FactValue,
) -> Sample:
    """Returns a sample that reads the last dimensions of ``x``, and may divide the sums.

    Args:
        name: The name of the sample.
        call: Calls the op.
        x: Its array.
        reads: The reads along each of the last dimensions.
        divisor: An array of the shape of the sums. None if the sums are not divided.
        **facts: The facts of the call besides its dtype and its number of dimensions.
    """
    counts = np.ones(1) if divisor is None else divisor
    forward = [_matrix(along, n) for along, n in zip(reads, x.shape[-len(reads) :], strict=True)]
    return Sample(
        name=name,
        facts={
            "dtype": "floating",
            "input_ndim": x.ndim,
            **facts,
        },
        call=call,
        arrays=(x,),
        expected=lambda x: _along_each(x, forward) / counts,
        wrt=0,
        expected_gradient=lambda ct, x: _along_each(ct / counts, [m.T for m in forward]),
        ordered_gradient=lambda ct, x: _ordered_gradient(ct, x, forward, counts),
    )


def _matrix(along: Reads, size: int) -> Array:
    matrix = np.zeros((len(along), size))
    for row, read in zip(matrix, along, strict=True):
        for index, weight in read.items():
            row[index] += weight
    return matrix


def _along_each(x: Array, matrices: list[Array]) -> Array:
    """Applies a matrix to each of the last dimensions, in float64."""
    out = np.asarray(x).astype(np.float64)
    for axis, matrix in enumerate(matrices, x.ndim - len(matrices)):
        out = np.moveaxis(np.tensordot(matrix, out, (1, axis)), 0, axis)
    return out


def _ordered_gradient(ct: Array, x: Array, forward: list[Array], counts: Array) -> Array:
    """Multiplies by reciprocals, then adds exactly, the first dimension first."""
    out = ct.astype(np.float32)
    if counts.size > 1:
        out = out * (1 / counts).astype(np.float32)
    for axis, matrix in enumerate(forward, ct.ndim - len(forward)):
        along = np.moveaxis(out, axis, 0)
        factors = matrix.astype(np.float32).reshape(*matrix.shape, *(1,) * (ct.ndim - 1))
        sums = [
            oracles.nearest((along * factors[:, i])[matrix[:, i] != 0])
            for i in range(matrix.shape[1])
        ]
        out = np.moveaxis(np.stack(sums), 0, axis)
    return out.astype(x.dtype)


#: The sizes of the padded dimensions, by their number.
_SIZES = {1: (20,), 2: (7, 6), 3: (4, 3, 5)}


def _pad() -> Iterator[Sample]:
    """Yields each mode in one to three dimensions, padding that reads nothing twice, constants."""
    for mode in ("reflect", "replicate", "circular"):
        for dims, sizes in _SIZES.items():
            # The largest padding, so that an element is read by all of it or from both sides.
            pairs = [
                (20, 9) if mode == "replicate" else (n - 1, n - (mode == "reflect")) for n in sizes
            ]
            batch = (2, 3) if dims == 2 else (3,)
            yield _pad_sample(f"{mode} {dims}d", mode, (*batch, *sizes), pairs)
    yield _pad_sample("apart", "reflect", (3, 8, 5), [(-2, 0), (-1, 1)])
    x = values((2, 3, 4), np.float32)
    yield Sample(
        name="constant",
        facts={
            "dtype": "floating",
            "input_ndim": 3,
            "mode": "constant",
            "spatial_ndim": 2,
        },
        call=lambda ns, x: ns.nn.functional.pad(x, (2, -1, 1, 0), value=1.5),
        arrays=(x,),
        expected=lambda x: np.pad(x[..., :-1], ((0, 0), (1, 0), (2, 0)), constant_values=1.5),
        wrt=0,
        expected_gradient=lambda ct, x: np.pad(ct[:, 1:, 2:], ((0, 0), (0, 0), (0, 1))),
    )


def _pad_sample(
    name: str, mode: str, shape: tuple[int, ...], pairs: list[tuple[int, int]]
) -> Sample:
    """Returns a call that adds a pair of lengths to the ends of each of the last dimensions."""
    flat = [length for pair in reversed(pairs) for length in pair]
    reads = [
        copies([_source(mode, i, n, max(-a, 0), n + min(b, 0)) for i in range(-a, n + b)])
        for n, (a, b) in zip(shape[-len(pairs) :], pairs, strict=True)
    ]
    return separable_sample(
        name,
        lambda ns, x: ns.nn.functional.pad(x, flat, mode=mode),
        values(shape, np.float32),
        reads,
        mode=mode,
        spatial_ndim=len(pairs),
    )


def _source(mode: str, i: int, n: int, start: int, stop: int) -> int:
    """Returns the index of the element that index ``i``, possibly outside [0, n), copies."""
    if mode == "circular":
        while not start <= i < stop:
            i += (stop - start) if i < start else (start - stop)
    if 0 <= i < n:
        return i
    if mode == "replicate":
        return 0 if i < 0 else n - 1
    return -i if i < 0 else 2 * (n - 1) - i


def _interpolate() -> Iterator[Sample]:
    """Yields each mode, enlarging and reducing; bfloat16; and windows that share no element."""
    # Scales are powers of 2, so that positions and most weights are exact.
    yield _interpolate_sample("nearest 1d", "nearest", (2, 3, 12), (96,), _nearest)
    yield _interpolate_sample("nearest 3d", "nearest", (1, 2, 4, 3, 2), (16, 6, 8), _nearest)
    yield _interpolate_sample("apart", "nearest", (2, 3, 12, 8), (6, 4), _nearest)
    yield _interpolate_sample("exact", "nearest-exact", (2, 3, 6, 8), (24, 2), _nearest_exact)
    yield _interpolate_sample("linear", "linear", (2, 3, 12), (96,), _linear)
    yield _interpolate_sample("bilinear", "bilinear", (2, 3, 6, 5), (24, 40), _linear)
    yield _interpolate_sample("narrow", "bilinear", (2, 3, 6, 5), (24, 40), _linear, bfloat16)
    yield _interpolate_sample("bicubic", "bicubic", (2, 3, 6, 8), (24, 4), _cubic)
    yield _interpolate_sample("trilinear", "trilinear", (1, 2, 4, 3, 5), (8, 12, 10), _linear)
    for mode, weight in (("bilinear", _tent), ("bicubic", _smooth)):
        yield _interpolate_sample(
            f"{mode} without aliases",
            mode,
            (2, 3, 8, 16),
            (32, 8),
            functools.partial(_antialiased, weight),
            antialias=True,
        )
    yield _area("area", (2, 3, 9, 12), (4, 20))


def _interpolate_sample(
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


OPS = (
    OpInfo("nn.functional.interpolate", _interpolate),
    OpInfo("nn.functional.pad", _pad),
)
