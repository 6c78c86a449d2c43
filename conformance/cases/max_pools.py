"""Samples of max pooling and of max_unpool, in one to three dimensions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

import spec
from conformance.cases._data import DTYPES, Array, one_of_the_writes, values
from conformance.cases.mean_pools import adaptive_windows
from conformance.suite.sample import Call, OpInfo, Sample
from spec import Direction, FactValue, oracles

#: For each window along a dimension, the indices that it reads.
Reads: TypeAlias = list[list[int]]
#: Maps the number of a channel to the windows along each of its dimensions.
Windows: TypeAlias = Callable[[int], list[Reads]]

#: The sizes of the input by the number of dimensions.
SIZES = {1: (90,), 2: (13, 17), 3: (5, 7, 12)}

NANS: dict[Direction, str] = {
    "forward": "Of several NaNs in a window the first is taken; PyTorch takes the last."
}


def of_values(
    name: str,
    call: Call,
    x: Array,
    reads: list[Reads],
    **facts: spec.FactValue,
) -> Sample:
    """Returns a sample of the maxima. Maxima of floats have a gradient."""
    integers = x.dtype.kind == "i"
    return Sample(
        name=name,
        facts={
            "dtype": "integer" if integers else "floating",
            "input_ndim": x.ndim,
            **facts,
        },
        call=call,
        arrays=(x,),
        expected=lambda x: maxima(x, lambda _: reads),
        ordered=lambda x: maxima(x, lambda _: reads),
        wrt=None if integers else 0,
        expected_gradient=lambda ct, x: expected_gradient(ct, x, lambda _: reads),
        ordered_gradient=lambda ct, x: gradient_in_order(ct, x, lambda _: reads),
    )


def of_indices(call: Call, reads: list[Reads], **facts: spec.FactValue) -> Sample:
    """Returns a sample of the indices of the maxima, among few different elements and NaNs."""
    sizes = tuple(max(itertools.chain(*along)) + 1 for along in reads)
    return Sample(
        name="equals",
        facts={
            "dtype": "floating",
            "input_ndim": len(reads) + 2,
            **facts,
        },
        call=lambda ns, x: call(ns, x)[1],
        arrays=(few_values(sizes),),
        expected=lambda x: indices(x, lambda _: reads),
        ordered=lambda x: indices(x, lambda _: reads).astype(np.int32),
        choices=NANS,
    )


def few_values(sizes: tuple[int, ...]) -> Array:
    """Returns an input with many equal elements, zeros of both signs, and some NaNs."""
    rng = np.random.default_rng(sizes)
    x = rng.integers(0, 2, (2, 3, *sizes)) * np.where(rng.random((2, 3, *sizes)) < 0.5, -1.0, 1.0)
    return np.where(rng.random(x.shape) < 0.02, np.nan, x).astype(np.float32)


def _max_pooling_channels(x: Any, dims: int) -> Array:
    return np.asarray(x).reshape(-1, *x.shape[x.ndim - dims :])


def _dims(windows: Windows) -> int:
    return len(windows(0))


def indices(x: Array, windows: Windows) -> Array:
    """Returns the flat index of the greatest element of each window, the first of equal ones."""
    dims, flat_indices = _dims(windows), []
    for number, channel in enumerate(_max_pooling_channels(x, dims)):
        every_index = np.arange(channel.size).reshape(channel.shape)
        for window in itertools.product(*windows(number)):
            index = every_index[np.ix_(*window)].reshape(-1)
            # NumPy cannot sort bfloat16.
            elements = channel.reshape(-1)[index].astype(np.float64)
            flat_indices.append(index[oracles.lowest_index(elements, elements.size)])
    counts = [len(along) for along in windows(0)]
    return np.array(flat_indices).reshape(*x.shape[: x.ndim - dims], *counts)


def maxima(x: Array, windows: Windows) -> Array:
    """Returns the greatest element of each window."""
    index, dims = indices(x, windows), _dims(windows)
    rows = x.reshape(int(np.prod(x.shape[:-dims])), -1)
    elements = np.take_along_axis(rows, index.reshape(len(rows), -1), 1)
    return elements.reshape(index.shape)


def expected_gradient(ct: Array, x: Array, windows: Windows) -> Array:
    """Returns the gradient in float64."""
    index, dims = indices(x, windows), _dims(windows)
    out = np.zeros((int(np.prod(x.shape[:-dims])), int(np.prod(x.shape[-dims:]))))
    for row, row_index, terms in zip(
        out, index.reshape(len(out), -1), _rows(ct, len(out)), strict=True
    ):
        np.add.at(row, row_index, terms.astype(np.float64))
    return out.reshape(x.shape)


def gradient_in_order(ct: Array, x: Array, windows: Windows) -> Array:
    """Returns the gradient, added in float32 over windows in row-major order."""
    index, dims = indices(x, windows), _dims(windows)
    count = int(np.prod(x.shape[:-dims]))
    zeros = np.zeros(int(np.prod(x.shape[-dims:])), np.float32)
    rows = [
        oracles.source(zeros, row_index, terms.astype(np.float32))
        for row_index, terms in zip(index.reshape(count, -1), _rows(ct, count), strict=True)
    ]
    return np.stack(rows).reshape(x.shape).astype(x.dtype)


def _rows(ct: Array, count: int) -> Array:
    return np.asarray(ct).reshape(count, -1)


#: Windows that overlap, by the number of dimensions.
_MAX_POOL_KERNEL = {1: (21,), 2: (5, 4), 3: (3, 2, 5)}
_MAX_POOL_STRIDE = {1: (1,), 2: (1, 2), 3: (1, 1, 2)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 2)}
_DILATION = {1: (2,), 2: (1, 3), 3: (2, 1, 1)}
_LONG = {1: (70,), 2: (9, 8), 3: (5, 4, 4)}


def _max_pool(dims: int) -> Iterator[Sample]:
    """Yields windows that overlap, in several dtypes and among equal elements, and some apart."""
    name, sizes = f"max_pool{dims}d", SIZES[dims]
    options = _MAX_POOL_KERNEL[dims], _MAX_POOL_STRIDE[dims], _PADDING[dims], _DILATION[dims]
    reads = [_max_pool_windows(*along) for along in zip(sizes, *options, strict=True)]
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
        [_max_pool_windows(n, k, 1, 0, 1) for n, k in zip(sizes, kernel, strict=True)],
        **without,
    )
    # The last window of a dimension may end beyond the input, but must begin inside.
    yield of_values(
        "apart",
        lambda ns, x: getattr(ns.nn.functional, name)(x, 4, 5, 0, 1, True),
        values((3, *sizes), np.float32),
        [_max_pool_windows(n, 4, 5, 0, 1, len(range(0, n, 5))) for n in sizes],
        **without,
    )


def _max_pool_windows(
    size: int, kernel: int, stride: int, padding: int, dilation: int, count: int | None = None
) -> Reads:
    if count is None:
        count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    starts = [o * stride - padding for o in range(count)]
    return [[i for t in range(kernel) if 0 <= (i := s + t * dilation) < size] for s in starts]


#: Output sizes by the number of dimensions. Windows have several lengths, and where the output is
#: the larger one, several windows read the same element.
_UNEVEN = {1: (233,), 2: (5, 29), 3: (3, 9, 20)}
#: Output sizes for which no two windows share an element.
_EVEN = {1: (45,), 2: (1, 17), 3: (5, 7, 4)}


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


#: Sizes, a kernel and output sizes for which many windows share elements.
_FRACTIONAL_MAX_POOL_SIZES = {
    2: ((11, 13), (4, 5), (7, 9)),
    3: ((5, 6, 9), (2, 3, 4), (3, 3, 5)),
}


def _fractional_max_pool(dims: int) -> Iterator[Sample]:
    """Yields windows that overlap, among different elements and among equal ones."""
    name, (sizes, kernel, output_size) = (
        f"fractional_max_pool{dims}d",
        _FRACTIONAL_MAX_POOL_SIZES[dims],
    )
    random = np.random.default_rng(dims).random((2, 3, dims)).astype(np.float32)

    def windows(channel: int) -> list[Reads]:
        numbers = random.reshape(-1, dims)[channel]
        # In two dimensions, the random number of the last dimension comes first.
        by_dim = numbers[::-1] if dims == 2 else numbers
        return [
            _fractional_max_pool_windows(*along)
            for along in zip(sizes, kernel, output_size, by_dim, strict=True)
        ]

    def call(ns: Any, x: Any, u: Any, indices: bool = False) -> Any:
        pool = getattr(ns.nn.functional, name)
        return pool(x, kernel, output_size, None, indices, u)

    facts: dict[str, FactValue] = {"dtype": "floating", "input_ndim": dims + 2}
    yield Sample(
        name="differing",
        facts=facts,
        call=call,
        arrays=(values((2, 3, *sizes), np.float32), random),
        expected=lambda x, u: maxima(x, windows),
        ordered=lambda x, u: maxima(x, windows),
        wrt=0,
        expected_gradient=lambda ct, x, u: expected_gradient(ct, x, windows),
        ordered_gradient=lambda ct, x, u: gradient_in_order(ct, x, windows),
    )
    yield Sample(
        name="equals",
        facts=facts,
        call=lambda ns, x, u: call(ns, x, u, True)[1],
        arrays=(few_values(sizes), random),
        expected=lambda x, u: indices(x, windows),
        ordered=lambda x, u: indices(x, windows).astype(np.int32),
        choices=NANS,
    )


def _fractional_max_pool_windows(size: int, kernel: int, count: int, random: np.float32) -> Reads:
    """Returns windows that begin at random steps, computed in float32."""
    alpha = np.float32(size - kernel) / np.float32(count - 1)
    first = int(random * alpha)
    starts = [int((np.float32(o) + random) * alpha) - first for o in range(count - 1)]
    return [list(range(s, s + kernel)) for s in (*starts, size - kernel)]


#: The sizes of a channel by the number of dimensions, and windows that overlap.
_MAX_UNPOOL_SIZES = {1: (600,), 2: (30, 20), 3: (5, 6, 20)}
_MAX_UNPOOL_KERNEL = {1: (3,), 2: (3, 2), 3: (3, 2, 3)}
_MAX_UNPOOL_STRIDE = {1: (2,), 2: (2, 1), 3: (2, 1, 2)}
#: The number of destinations in a channel. Each gets many contributions.
_DESTINATIONS = 50


def _max_unpool(dims: int) -> Iterator[Sample]:
    """Yields windows that overlap, of a batch and of one example.

    There is no sample of the gradient, which depends on the write that the op chose.
    """
    sizes, kernel, stride = (
        _MAX_UNPOOL_SIZES[dims],
        _MAX_UNPOOL_KERNEL[dims],
        _MAX_UNPOOL_STRIDE[dims],
    )
    output_size = tuple((n - 1) * s + k for n, k, s in zip(sizes, kernel, stride, strict=True))
    for name, batch in (("batch", (2, 2)), ("one", (3,))):
        shape = (*batch, *sizes)
        index = np.random.default_rng(shape).integers(0, _DESTINATIONS, shape).astype(np.int32)
        yield Sample(
            name=name,
            facts={"dtype": "floating", "input_ndim": len(shape), "unique_indices": False},
            call=lambda ns, x, i: getattr(ns.nn.functional, f"max_unpool{dims}d")(
                x, i, kernel, stride
            ),
            arrays=(values(shape, np.float32), index),
            expected=lambda x, i: _unpooled(x, i, output_size),
            ordered=lambda x, i: _unpooled(x, i, output_size),
            accept=lambda result, x, i: _accept(result, x, i, output_size),
        )


def _max_unpool_channels(x: Array, i: Array, dims: int) -> Iterator[tuple[Array, Array]]:
    count = int(np.prod(x.shape[:-dims]))
    return zip(x.reshape(count, -1), i.reshape(count, -1), strict=True)


def _unpooled(x: Array, i: Array, size: tuple[int, ...]) -> Array:
    zeros = np.zeros(int(np.prod(size)), x.dtype)
    rows = [
        oracles.last_write(zeros, index, row)
        for row, index in _max_unpool_channels(x, i, len(size))
    ]
    return np.stack(rows).reshape(*x.shape[: -len(size)], *size)


def _accept(result: Any, x: Array, i: Array, size: tuple[int, ...]) -> None:
    result_rows = np.asarray(result).reshape(-1, int(np.prod(size)))
    zeros = np.zeros(result_rows.shape[1], x.dtype)
    channels = _max_unpool_channels(x, i, len(size))
    for result_row, (row, index) in zip(result_rows, channels, strict=True):
        one_of_the_writes(result_row, zeros, index, row)


OPS = tuple(
    OpInfo(f"nn.functional.{name}{dims}d", functools.partial(samples, dims))
    for name, samples, least in (
        ("adaptive_max_pool", _adaptive_max_pool, 1),
        ("fractional_max_pool", _fractional_max_pool, 2),
        ("max_pool", _max_pool, 1),
        ("max_unpool", _max_unpool, 1),
    )
    for dims in range(least, 4)
)
