"""Samples of weighted sums of elements: pad, interpolate, average pooling, and lp_pool."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from ml_dtypes import bfloat16

from conformance.cases._data import DTYPES, Array
from conformance.cases._forms import INF, SIZES, adaptive, normal, numbers, pooled, spread, windows
from conformance.cases._refused import (
    errors_of_adaptive,
    errors_of_avg_pool,
    errors_of_interpolate,
    errors_of_lp_pool,
    errors_of_pad,
)
from conformance.cases.table import Call, Draw, Form, OpInfo, Sample, form
from spec import FactValue, oracles

#: For each element along a dimension of the result, the indices that it reads and their weights.
Reads: TypeAlias = list[dict[int, float]]


def _sums(
    name: str,
    call: Call,
    x: Array,
    reads: list[Reads],
    divisor: Array | None = None,
    *,
    separable: bool = True,
    **facts: FactValue,
) -> Sample:
    """Returns a sample that reads along the last dimensions of ``x``, and may divide the sums.

    If it is ``separable``, the gradient adds, and rounds, one dimension after another.
    """
    matrices = _matrices(reads, x)
    inverse = np.float32(1) if divisor is None else (1 / divisor).astype(np.float32)

    def ordered(x: Array) -> Array:
        total = _added(x.astype(np.float32), matrices, separable=separable, last_first=True)
        return np.asarray((total * inverse).astype(x.dtype))

    def gradient(ct: Array, x: Array) -> Array:
        transposed = [matrix.T for matrix in matrices]
        return _added(ct.astype(np.float32) * inverse, transposed, separable=separable).astype(
            x.dtype
        )

    return Sample(
        name=name,
        facts=facts,
        call=call,
        arrays=(x,),
        ordered=ordered,
        wrt=0,
        ordered_gradient=gradient,
    )


def _matrices(reads: list[Reads], x: Array) -> list[Array]:
    """Returns the weights along each dimension: [results, elements]."""
    return [
        np.array([[read.get(index, 0) for index in range(size)] for read in along])
        for along, size in zip(reads, x.shape[-len(reads) :], strict=True)
    ]


def _added(x: Array, matrices: list[Array], *, separable: bool, last_first: bool = False) -> Array:
    """Returns exact sums of the rounded products by the weights along the last dimensions."""
    batch, counts = x.shape[: -len(matrices)], [*map(len, matrices)]
    if not separable:
        matrices = [functools.reduce(np.kron, matrices)]
        x = x.reshape(*batch, matrices[0].shape[1])
    by_axis = list(enumerate(matrices, x.ndim - len(matrices)))
    for axis, matrix in reversed(by_axis) if last_first else by_axis:
        along = np.moveaxis(x, axis, 0)
        factors = matrix.astype(np.float32).reshape(*matrix.shape, *(1,) * (x.ndim - 1))
        terms = [(along * of_result)[of_result.reshape(-1) != 0] for of_result in factors]
        # Where no window has two terms, nothing is added: a -0 stays.
        is_sum = not separable or max(map(len, terms)) > 1
        sums = [oracles.nearest(each) if is_sum or not len(each) else each[0] for each in terms]
        x = np.moveaxis(np.stack(sums), 0, axis)
    return x.reshape(*batch, *counts)


def _ones(windows: Iterable[list[int]]) -> Reads:
    return [dict.fromkeys(window, 1.0) for window in windows]


def sliding_windows(
    size: int,
    kernel: int,
    stride: int,
    padding: int = 0,
    dilation: int = 1,
    count: int | None = None,
) -> list[list[int]]:
    """Returns windows of a fixed length and distance, without the padding."""
    if count is None:
        count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    starts = [o * stride - padding for o in range(count)]
    return [[i for t in range(kernel) if 0 <= (i := s + t * dilation) < size] for s in starts]


def adaptive_windows(size: int, count: int) -> list[list[int]]:
    """Returns windows that divide ``size`` elements. Neighbours may share an element."""
    return [
        [i for i in range(size) if (i + 1) * count > o * size and i * count < (o + 1) * size]
        for o in range(count)
    ]


def _divided(size: int, count: int) -> Reads:
    return _ones(adaptive_windows(size, count))


def _lengths(reads: list[Reads]) -> Array:
    """Returns the number of elements of each window."""
    by_dim = [np.array([len(window) for window in along]) for along in reads]
    return np.asarray(functools.reduce(np.multiply.outer, by_dim))


#: The sizes of the padded dimensions, by their number.
_PADDED = {1: (20,), 2: (7, 6), 3: (4, 3, 5)}


def _pad(d: Draw) -> Iterator[Sample]:
    """Yields each mode in one to three dimensions, padding that reads nothing twice, constants."""
    for mode in ("reflect", "replicate", "circular"):
        for dims, usual in _PADDED.items():
            sizes = d.sizes(usual, 1)
            # The largest padding, so that an element is read by all of it or from both sides.
            pairs = [
                (20, 9) if mode == "replicate" else (n - 1, n - (mode == "reflect")) for n in sizes
            ]
            shape = (*d.sizes((2, 3) if dims == 2 else (3,), 1), *sizes)
            yield _pad_sample(d, f"{mode} {dims}d", mode, shape, pairs)
    shape = (*d.sizes((3,), 1), *d.sizes((8, 5), (3, 3)))
    yield _pad_sample(d, "apart", "reflect", shape, [(-2, 0), (-1, 1)])
    x = d.values(d.sizes((2, 3, 4), (0, 0, 1)), np.float32)
    yield Sample(
        name="constant",
        facts={"mode": "constant", "spatial_ndim": 2},
        call=lambda ns, x: ns.nn.functional.pad(x, (2, -1, 1, 0), value=1.5),
        arrays=(x,),
        expected=lambda x: np.pad(x[..., :-1], ((0, 0), (1, 0), (2, 0)), constant_values=1.5),
        wrt=0,
        expected_gradient=lambda ct, x: np.pad(ct[:, 1:, 2:], ((0, 0), (0, 0), (0, 1))),
    )


def _pad_sample(
    d: Draw, name: str, mode: str, shape: tuple[int, ...], pairs: list[tuple[int, int]]
) -> Sample:
    """Returns a call that adds a pair of lengths to the ends of each of the last dimensions."""
    flat = [length for pair in reversed(pairs) for length in pair]
    reads = [
        _ones([_source(mode, i, n, max(-a, 0), n + min(b, 0))] for i in range(-a, n + b))
        for n, (a, b) in zip(shape[-len(pairs) :], pairs, strict=True)
    ]
    return _sums(
        name,
        lambda ns, x: ns.nn.functional.pad(x, flat, mode=mode),
        d.values(shape, np.float32),
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


def _interpolate(d: Draw) -> Iterator[Sample]:
    """Yields each mode, enlarging and reducing; bfloat16; and windows that share no element."""
    # Scales are powers of 2, so that positions and most weights are exact.
    yield _interpolate_sample(d, "nearest 1d", "nearest", (2, 3, 12), (96,), _nearest)
    yield _interpolate_sample(d, "nearest 3d", "nearest", (1, 2, 4, 3, 2), (16, 6, 8), _nearest)
    yield _interpolate_sample(d, "apart", "nearest", (2, 3, 12, 8), (6, 4), _nearest)
    yield _interpolate_sample(d, "exact", "nearest-exact", (2, 3, 6, 8), (24, 2), _nearest_exact)
    yield _interpolate_sample(d, "linear", "linear", (2, 3, 12), (96,), _linear)
    yield _interpolate_sample(d, "bilinear", "bilinear", (2, 3, 6, 5), (24, 40), _linear)
    yield _interpolate_sample(d, "narrow", "bilinear", (2, 3, 6, 5), (24, 40), _linear, bfloat16)
    yield _interpolate_sample(d, "bicubic", "bicubic", (2, 3, 6, 8), (24, 4), _cubic)
    yield _interpolate_sample(d, "trilinear", "trilinear", (1, 2, 4, 3, 5), (8, 12, 10), _linear)
    for mode, weight in (("bilinear", _tent), ("bicubic", _smooth)):
        yield _interpolate_sample(
            d,
            f"{mode} without aliases",
            mode,
            (2, 3, 8, 16),
            (32, 8),
            functools.partial(_antialiased, weight),
            antialias=True,
        )
    yield _interpolate_sample(d, "area", "area", (2, 3, 9, 12), (4, 20), _divided)


def _interpolate_sample(
    d: Draw,
    name: str,
    mode: str,
    shape: tuple[int, ...],
    size: tuple[int, ...],
    reads: Callable[[int, int], Reads],
    dtype: type = np.float32,
    **options: bool,
) -> Sample:
    parts = [*map(math.gcd, shape[2:], size)]
    batch, counts = d.sizes(shape[:2], (0, 1)), d.sizes(parts, 1)
    # Each scale stays.
    sizes, to = ((np.multiply(ns, counts) // parts).tolist() for ns in (shape[2:], size))
    by_dim = [*map(reads, sizes, to)]
    return _sums(
        name,
        lambda ns, x: ns.nn.functional.interpolate(x, to, mode=mode, **options),
        d.values((*batch, *sizes), dtype),
        by_dim,
        _lengths(by_dim) if mode == "area" else None,
        mode=mode,
        antialias=bool(options),
    )


def _nearest(n: int, m: int) -> Reads:
    return _ones([o * n // m] for o in range(m))


def _nearest_exact(n: int, m: int) -> Reads:
    return _ones([(2 * o + 1) * n // (2 * m)] for o in range(m))


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


#: The sizes of the pooled input by the number of dimensions.
_SIZES = {1: (90,), 2: (13, 17), 3: (5, 9, 12)}
#: Windows that overlap, by the number of dimensions.
_KERNEL = {1: (9,), 2: (5, 4), 3: (3, 2, 5)}
_STRIDE = {1: (2,), 2: (1, 3), 3: (2, 1, 2)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 2)}


def _avg_pool(dims: int, d: Draw) -> Iterator[Sample]:
    """Yields windows that overlap in a padded input, and windows with gaps between them."""
    name, batch = f"avg_pool{dims}d", d.sizes((2, 3), (0, 1))
    kernel, stride = d.sizes(_KERNEL[dims], 1), d.sizes(_STRIDE[dims], 1)
    padding = d.sizes(_PADDING[dims], 0, [k // 2 for k in kernel])
    options, sizes = (kernel, stride, padding), d.sizes(_SIZES[dims], kernel)
    overlapping = [_ones(sliding_windows(*along)) for along in zip(sizes, *options, strict=True)]
    for dtype in _dtypes(dims):
        yield _sums(
            f"overlapping, {dtype}",
            lambda ns, x: getattr(ns.nn.functional, name)(x, *options),
            d.values((*batch, *sizes), DTYPES[dtype]),
            overlapping,
            np.full([len(along) for along in overlapping], np.prod(kernel)),
            separable=False,
        )
    # The last window of a dimension may end beyond the input, but must begin inside.
    sizes = d.sizes(sizes, 4)
    apart = [_ones(sliding_windows(n, 4, 5, count=len(range(0, n, 5)))) for n in sizes]
    yield _sums(
        "apart",
        lambda ns, x: getattr(ns.nn.functional, name)(x, 4, 5, 0, True, False),
        d.values((*batch[1:], *sizes), np.float32),
        apart,
        _lengths(apart),
        separable=False,
    )


#: Output sizes by the number of dimensions. Windows have several lengths, and where the output is
#: the larger one, several windows read the same element.
_UNEVEN = {1: (211,), 2: (5, 29), 3: (3, 9, 20)}
#: Output sizes for which no two windows share an element.
_EVEN = {1: (45,), 2: (1, 17), 3: (5, 3, 4)}


def _adaptive_avg_pool(dims: int, d: Draw) -> Iterator[Sample]:
    """Yields windows of several lengths, windows that share no element, and one window."""
    name, batch = f"adaptive_avg_pool{dims}d", d.sizes((2, 3), (0, 1))
    sizes, uneven, counts = (d.sizes(each[dims], 1) for each in (_SIZES, _UNEVEN, _EVEN))
    even = tuple(max(n // m, 1) * m for n, m in zip(sizes, counts, strict=True))
    for label, dtype, shape, output_size in (
        *((f"uneven, {dtype}", dtype, (*batch, *sizes), uneven) for dtype in _dtypes(dims)),
        ("even", "floating", (*batch[1:], *even), counts),
        ("one", "floating", (*batch, *sizes), (1,) * dims),
    ):
        reads = [_divided(n, m) for n, m in zip(shape[-dims:], output_size, strict=True)]
        yield _sums(
            label,
            lambda ns, x, to=output_size: getattr(ns.nn.functional, name)(x, to),
            d.values(shape, DTYPES[dtype]),
            reads,
            _lengths(reads),
            output_size_is_one=label == "one",
        )


def _dtypes(dims: int) -> tuple[str, ...]:
    # The rounding at the end does not depend on the number of dimensions.
    return ("floating", "narrow") if dims == 2 else ("floating",)


def _lp_pool(dims: int, d: Draw) -> Iterator[Sample]:
    """Yields squares and maxima of windows that overlap, and cubes of windows that do not."""
    # The gradient of 65 taps or more is a scatter on every device.
    kernels = d.sizes((5, 2, 70 if dims == 1 else 9), 1)
    name, sizes = f"lp_pool{dims}d", d.sizes(_SIZES[dims], max(kernels))
    # No two elements have the same magnitude, so that the maximum is one element.
    count = 6 * int(np.prod(sizes))
    magnitudes = (1 + np.random.default_rng(dims).permutation(count)) / count
    x: Array = magnitudes.astype(np.float32).reshape(2, 3, *sizes)
    signed = x * np.where(np.indices(x.shape).sum(0) % 3, np.float32(1), np.float32(-1))
    calls = ("squares", 2, signed, 2), ("cubes", 3.0, x[0], 2), ("greatest", INF, signed, 1)
    for (label, power, array, stride), kernel in zip(calls, kernels, strict=True):
        reads = [_ones(sliding_windows(n, kernel, stride)) for n in sizes]
        yield Sample(
            name=label,
            call=lambda ns, x, p=power, k=kernel, s=stride: getattr(ns.nn.functional, name)(
                x, p, k, s
            ),
            arrays=(array,),
            expected=functools.partial(_norm, reads=reads, power=power),
            wrt=0,
            expected_gradient=functools.partial(_gradient, reads=reads, power=power),
        )


def _rows(x: Array, reads: list[Reads]) -> tuple[Array, Array]:
    """Returns a row in float64 for each channel, and 1 where a window has an element."""
    member = functools.reduce(np.kron, _matrices(reads, x))
    return x.astype(np.float64).reshape(-1, member.shape[1]), member


def _norm(x: Array, reads: list[Reads], power: float) -> Array:
    rows, member = _rows(x, reads)
    if np.isinf(power):
        out = np.where(member > 0, np.abs(rows)[:, None], 0).max(-1)
    else:
        out = (rows**power @ member.T) ** (1 / power)
    return np.asarray(out.reshape(*x.shape[: -len(reads)], *map(len, reads)))


def _gradient(ct: Array, x: Array, reads: list[Reads], power: float) -> Array:
    rows, member = _rows(x, reads)
    if np.isinf(power):
        index = np.where(member > 0, np.abs(rows)[:, None], 0).argmax(-1)
        derivatives = np.eye(member.shape[1])[index] * np.sign(rows)[:, None]
    else:
        norms = _norm(x, reads, power).reshape(len(rows), -1, 1)
        derivatives = member * (rows[:, None] / norms) ** (power - 1)
    gradient = np.einsum("no,noi->ni", ct.reshape(len(rows), -1).astype(np.float64), derivatives)
    return np.asarray(gradient.reshape(x.shape))


def _forms_of_avg_pool(dims: int) -> Iterator[Form]:
    divisors = itertools.cycle([None, 3, -2])
    for number, (shape, rest) in enumerate(windows(dims, dilated=False)):
        divisor = [next(divisors)] * (dims > 1)
        yield form(normal(*shape), *rest, number % 3 > 0, *divisor)
    if dims == 2:
        given: list[tuple[Any, ...]] = [(2,), ([2],), ((2,), []), ([2, 2], (2,), [0])]
        yield from (form(normal(3, 6, 6), *each) for each in given)
    yield pooled(dims, 2 + (dims < 3), 2, 1, same_bits=False)


def _forms_of_lp_pool(dims: int) -> Iterator[Form]:
    rng = np.random.default_rng(dims)
    for number, power in enumerate([1, 2, 3.0, 2.5, 4, 0.5, -1, -2.0, INF, -INF]):
        kernel, stride = numbers(rng, 5, dims), numbers(rng, 5, dims)
        one = dims == 1 or number % 3 == 0
        shape = (2, 3, *SIZES[dims][number % 2])[number // 2 % 2 :]
        strides = None if number % 4 == 0 else stride[0] if one else stride
        window = kernel[0] if one else kernel
        yield form(np.exp(normal(*shape)), power, window, strides, number % 3 > 0)
    yield form(normal(0, 3, *SIZES[dims][0]), 2, 2)
    # Windows of zeros, of numbers whose sum is 0, and of infinities and NaNs.
    invalid = np.array([[1, INF, np.nan, np.nan]], np.float32)
    signed = np.array([[0, 0, 1, 2], [0, 3, -1, -2], [-3, 3, -0.0, 0]], np.float32)
    for power in (1, 1.5, 2, 2.0, 3, 4, 0.5, -1, -2, INF, -INF) if dims == 1 else ():
        yield form(signed, power, 2)
        yield form(invalid, power, 2).having(torch_gradient=False)
    for power in (INF, -INF) if dims == 2 else ():
        yield form(signed[None], power, (2, 3))
    yield pooled(dims, 2, 4 - dims, 3 - dims, same_bits=False)


#: The mode, shapes, sizes and options about which PyTorch's kernels agree.
_RESAMPLED: Sequence[tuple[str, tuple[int, ...], tuple[int, ...], Mapping[str, bool]]] = (
    ("nearest", (2, 2, 5), (5,), {}),
    ("nearest", (1, 2, 4, 7), (10, 13), {}),
    ("nearest-exact", (2, 1, 4, 7), (2, 4), {}),
    ("nearest-exact", (2, 1, 3, 4, 2), (2, 2, 2), {}),
    ("linear", (2, 3, 9), (15,), {}),
    ("linear", (2, 3, 9), (1,), {"align_corners": True}),
    ("bilinear", (1, 2, 6, 5), (6, 4), {}),
    ("bilinear", (2, 2, 6, 5), (8, 10), {"align_corners": True}),
    ("bilinear", (2, 1, 9, 8), (4, 17), {"antialias": True}),
    ("bicubic", (1, 3, 6, 5), (11, 4), {}),
    ("bicubic", (2, 3, 6, 5), (3, 3), {"align_corners": True}),
    ("bicubic", (1, 1, 9, 8), (14, 9), {"antialias": True}),
    ("bicubic", (2, 1, 9, 8), (17, 17), {"antialias": True, "align_corners": True}),
    ("trilinear", (2, 3, 3, 4, 2), (6, 6, 1), {}),
    ("area", (1, 3, 7), (9,), {}),
    ("area", (2, 3, 6, 5), (8, 9), {}),
    ("area", (2, 2, 3, 4, 2), (6, 4, 6), {}),
)


def _forms_of_interpolate() -> Iterator[Form]:
    for mode, shape, size, options in _RESAMPLED:
        yield form(normal(*shape), size, mode=mode, **options)
    yield form(spread(2, 3, 4, 5), (7, 3), mode="bicubic").named(same_bits=False)
    yield form(spread(2, 3, 7), 11).named("nearest", same_bits=False)
    yield form(normal(1, 2, 4), 0, mode="area").having(torch_gradient=False)


def _forms_of_pad() -> Iterator[Form]:
    for shape, widths, value in (
        ((3, 2), (1, 0, -3, 1), None),
        ((3,), (2, 1), 2.5),
        ((), (), None),
        ((3, 2), (0, -2), 1.0),
        ((2, 3, 4), (1, 2, -1, 3, 0, 1), INF),
        ((0, 3), (1, 1), 7),
        ((1, 2, 1, 2, 3), (0, 1, 2, -1, 1, 1, -1, 0, 1, 0), -0.0),
    ):
        yield form(normal(*shape), widths, value=value)
    for mode, dims in itertools.product(("reflect", "replicate", "circular"), (1, 2, 3)):
        rng, sizes = (
            np.random.default_rng((dims, *mode.encode())),
            ((7,), (5, 6), (4, 3, 5))[dims - 1],
        )
        for number in range(3):
            pads: tuple[int, ...] = ()
            for n in reversed(sizes):
                before, after = (int(p) for p in rng.integers(-(n // 2), n + 1, 2))
                most = {"reflect": n - 1, "replicate": 2 * n}.get(mode, n + min(before, after, 0))
                pair = min(before, most), min(after, most)
                pads += pair if n + sum(pair) > 0 else (0, 1)
            yield form(normal(*(2, 3, *sizes)[number % 2 :]), pads, mode)
        yield form(normal(0, 2, *sizes), (1, 2) * dims, mode)
        if dims == 1:
            yield form(normal(2, 3, 4), (1, 1, -2, -1), mode).having(torch_gradient=False)
    for shape, empty in (((0, 4), (1, 2)), ((2, 0, 4), (1, 2)), ((2, 3, 4), (-2, -2))):
        yield form(normal(*shape), empty, "circular").having(torch_gradient=False)
    yield form(normal(3, 4) + 1j * normal(3, 4, seed=1), (2, 3), "reflect")
    yield form(spread(2, 3, 4, 5), (2, 3, 1, 3), mode="reflect").named()


def _forms_of_adaptive(dims: int) -> Iterator[Form]:
    yield from adaptive(dims, lambda shape: normal(*shape))
    yield pooled(dims, (3, 2, 2)[:dims], same_bits=False)


def _plain_pool(jax: Any, x: Any) -> Any:
    """Adds windows of two elements in each dimension, in plain JAX."""
    window = (1, 1, *(2,) * (x.ndim - 2))
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, window, window, "VALID") / math.prod(window)


OPS = (
    OpInfo(
        "nn.functional.interpolate",
        _interpolate,
        _forms_of_interpolate,
        errors_of_interpolate,
        wide=len(_RESAMPLED),
        plain=lambda jax, x: jax.image.resize(x, (2, 3, 7, 3), "bicubic"),
    ),
    OpInfo(
        "nn.functional.pad",
        _pad,
        _forms_of_pad,
        errors_of_pad,
        wide=12,
        plain=lambda jax, x: jax.numpy.pad(x, [(0, 0), (0, 0), (1, 3), (2, 3)], mode="reflect"),
    ),
    *(
        OpInfo(
            f"nn.functional.{name}{dims}d",
            functools.partial(samples, dims),
            functools.partial(forms, dims),
            functools.partial(errors, dims),
            plain=_plain_pool if name == "avg_pool" else None,
            tolerance=10 if name == "lp_pool" else 1,
        )
        for name, samples, forms, errors, most in (
            ("adaptive_avg_pool", _adaptive_avg_pool, _forms_of_adaptive, errors_of_adaptive, 3),
            ("avg_pool", _avg_pool, _forms_of_avg_pool, errors_of_avg_pool, 3),
            ("lp_pool", _lp_pool, _forms_of_lp_pool, errors_of_lp_pool, 2),
        )
        for dims in range(1, most + 1)
    ),
)
