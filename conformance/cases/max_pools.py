"""Samples of max pooling and of max_unpool, in one to three dimensions."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from ml_dtypes import bfloat16

from conformance.cases._data import DTYPES, Array, one_of_the_writes
from conformance.cases._forms import (
    COUNT,
    NAN,
    SIDES,
    adaptive,
    apart,
    normal,
    numbers,
    ones,
    pooled,
    unlike_torch,
    windows,
)
from conformance.cases._refused import errors_of_adaptive, errors_of_max_pool
from conformance.cases.table import Call, Draw, ErrorInput, Form, OpInfo, Sample, form, refused
from conformance.cases.window_sums import adaptive_windows, sliding_windows
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


def indices(x: Array, windows: Windows) -> Array:
    """Returns the flat index of the greatest element of each window, the first of equal ones."""
    dims, flat = len(windows(0)), []
    sizes = x.shape[x.ndim - dims :]
    every_index = np.arange(math.prod(sizes)).reshape(sizes)
    channels = x.reshape(math.prod(x.shape[: x.ndim - dims]), every_index.size)
    for number, channel in enumerate(channels):
        for window in itertools.product(*windows(number)):
            index = every_index[np.ix_(*window)].reshape(-1)
            # NumPy cannot sort bfloat16.
            elements = channel[index].astype(np.float64)
            flat.append(index[oracles.lowest_index(elements, elements.size)])
    counts = [len(along) for along in windows(0)]
    return np.array(flat, int).reshape(*x.shape[: x.ndim - dims], *counts)


def _in_array(index: Array, sizes: Sequence[int]) -> Array:
    """Returns the positions of elements in a flat array, from their flat indices in a channel."""
    channels = np.arange(math.prod(index.shape[: -len(sizes)])).reshape(-1, *(1,) * len(sizes))
    by_channel = index.reshape(len(channels), *index.shape[-len(sizes) :])
    return (by_channel + channels * math.prod(sizes)).reshape(-1)


def _pooling(
    name: str, call: Call, arrays: tuple[Array, ...], windows: Windows, **facts: FactValue
) -> Sample:
    """Returns a sample of the maxima. Maxima of floats have a gradient."""
    x, dims = arrays[0], len(windows(0))

    def reached(x: Array) -> tuple[Array, tuple[int, ...]]:
        index = indices(x, windows)
        return _in_array(index, x.shape[x.ndim - dims :]), index.shape

    def maxima(x: Array, *_: Array) -> Array:
        places, shape = reached(x)
        return x.reshape(-1)[places].reshape(shape)

    def gradient(ct: Array, x: Array, *_: Array) -> Array:
        zeros, terms = np.zeros(x.size, np.float32), ct.reshape(-1).astype(np.float32)
        out = oracles.source(zeros, reached(x)[0], terms)
        return np.asarray(out.reshape(x.shape).astype(x.dtype))

    return Sample(
        name=name,
        facts=facts,
        call=call,
        arrays=arrays,
        ordered=maxima,
        wrt=None if x.dtype.kind == "i" else 0,
        ordered_gradient=gradient,
    )


def _equals(call: Call, arrays: tuple[Array, ...], windows: Windows, **facts: FactValue) -> Sample:
    """Returns a sample of the indices of the maxima, among few different elements and NaNs."""
    return Sample(
        name="equals",
        facts=facts,
        call=lambda ns, *arrays: call(ns, *arrays)[1],
        arrays=arrays,
        ordered=lambda x, *_: indices(x, windows).astype(np.int32),
        choices=NANS,
    )


def _few_values(d: Draw, *sizes: int) -> Array:
    """Returns an input with many equal elements, zeros of both signs, and some NaNs."""
    x = np.round(d.values((2, 3, *sizes), np.float32))
    x.reshape(-1)[::50] = np.nan
    return x


#: Windows that overlap, by the number of dimensions.
_MAX_POOL_KERNEL = {1: (21,), 2: (5, 4), 3: (3, 2, 5)}
_MAX_POOL_STRIDE = {1: (1,), 2: (1, 2), 3: (1, 1, 2)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 2)}
_DILATION = {1: (2,), 2: (1, 3), 3: (2, 1, 1)}
_LONG = {1: (70,), 2: (9, 8), 3: (5, 4, 4)}


def _always(reads: list[Reads]) -> Windows:
    return lambda _: reads


def _max_pool(dims: int, d: Draw) -> Iterator[Sample]:
    """Yields windows that overlap, in several dtypes and among equal elements, and some apart."""
    name, batch = f"max_pool{dims}d", d.sizes((2, 3), (0, 1))
    kernel, stride, dilation, far = (
        d.sizes(each[dims], 1) for each in (_MAX_POOL_KERNEL, _MAX_POOL_STRIDE, _DILATION, _LONG)
    )
    padding = d.sizes(_PADDING[dims], 0, [k // 2 for k in kernel])
    options, reach = (kernel, stride, padding, dilation), zip(kernel, dilation, far, strict=True)
    sizes = d.sizes(SIZES[dims], [max(r * (k - 1) + 1, n, 4) for k, r, n in reach])
    reads = [sliding_windows(*along) for along in zip(sizes, *options, strict=True)]
    # The gradient of 65 taps or more is a scatter on every device.
    long = [sliding_windows(n, k, 1) for n, k in zip(sizes, far, strict=True)]
    # The last window of a dimension may end beyond the input, but must begin inside.
    apart = [sliding_windows(n, 4, 5, count=len(range(0, n, 5))) for n in sizes]
    dtypes = ("floating", "integer", "narrow") if dims == 2 else ("floating",)
    calls: list[tuple[str, str, tuple[int, ...], tuple[Any, ...], list[Reads]]] = [
        *((f"overlapping, {dtype}", dtype, (*batch, *sizes), options, reads) for dtype in dtypes),
        ("long", "floating", (*batch, *sizes), (far, 1), long),
        ("apart", "floating", (*batch[1:], *sizes), (4, 5, 0, 1, True), apart),
    ]
    # Only the rows of max_pool3d ask whether there are indices.
    for label, dtype, shape, arguments, own in calls:
        yield _pooling(
            label,
            lambda ns, x, rest=arguments: getattr(ns.nn.functional, name)(x, *rest),
            (d.values(shape, DTYPES[dtype]),),
            _always(own),
            **({"returns_indices": False} if dims == 3 else {}),
        )
    yield _equals(
        lambda ns, x: getattr(ns.nn.functional, name)(x, *options, False, True),
        (_few_values(d, *sizes),),
        _always(reads),
        **({"returns_indices": True} if dims == 3 else {}),
    )


#: Output sizes by the number of dimensions. Windows have several lengths, and where the output is
#: the larger one, several windows read the same element.
_UNEVEN = {1: (233,), 2: (5, 29), 3: (3, 9, 20)}
#: Output sizes for which no two windows share an element.
_EVEN = {1: (45,), 2: (1, 17), 3: (5, 7, 4)}


def _adaptive_max_pool(dims: int, d: Draw) -> Iterator[Sample]:
    """Yields windows of several lengths, also among equal elements; and windows of one length."""
    name, sizes = f"adaptive_max_pool{dims}d", d.sizes(SIZES[dims], 1)
    batch, uneven, few = d.sizes((2, 3), (0, 1)), d.sizes(_UNEVEN[dims], 1), d.sizes(_EVEN[dims], 1)
    even = tuple(max(n // m, 1) * m for n, m in zip(sizes, few, strict=True))
    for label, shape, counts in (
        ("uneven", (*batch, *sizes), uneven),
        ("even", (*batch[1:], *even), few),
    ):
        reads = [adaptive_windows(n, m) for n, m in zip(shape[-dims:], counts, strict=True)]
        # No other rows ask for it.
        facts = {"overlapping": label == "uneven"} if dims == 3 else {}

        def call(ns: Any, x: Any, indices: bool = False, counts: Any = counts) -> Any:
            return getattr(ns.nn.functional, name)(x, counts, indices)

        windows = _always(reads)
        yield _pooling(label, call, (d.values(shape, np.float32),), windows, **facts)
        if label == "uneven":
            with_indices = functools.partial(call, indices=True)
            yield _equals(with_indices, (_few_values(d, *sizes),), windows, **facts)


#: Sizes, a kernel and output sizes for which many windows share elements.
_FRACTIONAL = {2: ((11, 13), (4, 5), (7, 9)), 3: ((5, 6, 9), (2, 3, 4), (3, 3, 5))}


def _fractional(dims: int, d: Draw) -> Iterator[Sample]:
    """Yields windows that overlap, among different elements and among equal ones."""
    name, (sizes, kernel, output_size) = f"fractional_max_pool{dims}d", _FRACTIONAL[dims]
    kernel, output_size = d.sizes(kernel, 1), d.sizes(output_size, 1)
    sizes = d.sizes(sizes, np.add(kernel, output_size))
    random = np.random.default_rng(dims).random((2, 3, dims)).astype(np.float32)

    def windows(channel: int) -> list[Reads]:
        numbers = random.reshape(-1, dims)[channel]
        # In two dimensions, the random number of the last dimension comes first.
        by_dim = numbers[::-1] if dims == 2 else numbers
        return [
            _fractional_windows(*along)
            for along in zip(sizes, kernel, output_size, by_dim, strict=True)
        ]

    def call(ns: Any, x: Any, u: Any, indices: bool = False) -> Any:
        pool = getattr(ns.nn.functional, name)
        return pool(x, kernel, output_size, None, indices, u)

    numbers = d.values((2, 3, *sizes), np.float32)
    yield _pooling("differing", call, (numbers, random), windows)
    yield _equals(functools.partial(call, indices=True), (_few_values(d, *sizes), random), windows)


def _fractional_windows(size: int, kernel: int, count: int, random: np.float32) -> Reads:
    """Returns windows that begin at random steps, computed in float32."""
    alpha = np.float32(size - kernel) / np.float32(max(count - 1, 1))
    first = int(random * alpha)
    starts = [int((np.float32(o) + random) * alpha) - first for o in range(count - 1)]
    return [list(range(s, s + kernel)) for s in (*starts, size - kernel)]


#: The sizes of a channel by the number of dimensions, and windows that overlap.
_UNPOOLED = {
    1: ((600,), (3,), (2,)),
    2: ((30, 20), (3, 2), (2, 1)),
    3: ((5, 6, 20), (3, 2, 3), (2, 1, 2)),
}


def _max_unpool(dims: int, d: Draw) -> Iterator[Sample]:
    """Yields windows that overlap, of a batch and of one example.

    There is no sample of the gradient, which depends on the write that the op chose.
    """
    sizes, kernel, stride = (d.sizes(each, 1) for each in _UNPOOLED[dims])
    output_size = tuple((n - 1) * s + k for n, k, s in zip(sizes, kernel, stride, strict=True))
    for name, batch in (("batch", (2, 2)), ("one", (3,))):
        shape = (*batch, *sizes)
        # Each destination in a channel gets many contributions.
        index = d.indices(shape, min(50, math.prod(output_size)))
        yield Sample(
            name=name,
            facts={"unique_indices": False},
            call=lambda ns, x, i: getattr(ns.nn.functional, f"max_unpool{dims}d")(
                x, i, kernel, stride
            ),
            arrays=(d.values(shape, np.float32), index),
            ordered=lambda x, i: _unpooled(x, i, output_size),
            accept=lambda result, x, i: one_of_the_writes(
                np.asarray(result).reshape(-1),
                np.zeros(np.size(result), x.dtype),
                _in_array(i, output_size),
                x.reshape(-1),
            ),
        )


def _unpooled(x: Array, i: Array, size: tuple[int, ...]) -> Array:
    shape = (*x.shape[: -len(size)], *size)
    zeros = np.zeros(math.prod(shape), x.dtype)
    out = oracles.last_write(zeros, _in_array(i, size), x.reshape(-1))
    return np.asarray(out).reshape(shape)


def _with_ties(shape: tuple[int, ...]) -> Array:
    """Returns an array in which many elements are equal."""
    return np.random.default_rng(shape).integers(0, 6, shape).astype(np.float32)


def _forms_of_fractional(dims: int) -> Iterator[Form]:
    rng = np.random.default_rng(dims)
    for number in range(COUNT[dims]):
        sizes, kernel = tuple(int(n) for n in rng.integers(4, 9, dims)), numbers(rng, 4, dims)
        lengths = tuple(int(rng.integers(1, n - k + 2)) for n, k in zip(sizes, kernel, strict=True))
        shape = (2, 3, *sizes)[number % 2 :]
        random = rng.random((2 - number % 2, 3, dims), np.float32)
        random.flat[0] = [0, 0.5, 1 - 2**-24][number % 3]
        how: dict[str, Any] = {"output_size": lengths}
        window: Any = kernel
        if number % 4 == 0:
            window, how = min(kernel), {"output_size": min(lengths)}
        elif number % 4 == 1:
            # The integer part of a size times this ratio is the length.
            ratio = tuple(float(m + 0.5) / n for m, n in zip(lengths, sizes, strict=True))
            how = {"output_ratio": ratio}
        how |= {"return_indices": True, "_random_samples": random}
        yield form(_with_ties(shape), window, **how).having(traced=1)
    random = rng.random((2, 3, 2), np.float32)
    if dims == 2:
        # A loop reads windows of this length.
        how = {"return_indices": True, "_random_samples": random}
        yield form(_with_ties((2, 3, 60, 4)), (50, 2), (9, 2), **how).having(traced=1)
        for shape, how in (
            ((2, 3, 5, 4), {"output_size": (3, 0)}),
            ((2, 3, 5, 4), {"output_ratio": (0.1, 0.5)}),
            ((0, 3, 5, 4), {"output_size": 2}),
        ):
            how |= {"return_indices": True, "_random_samples": random[: shape[0]]}
            yield form(_with_ties(shape), 2, **how).having(traced=1)
        arrays = apart(2, 2, 4, 4), random[:, :2]
        yield Form(arrays, call=_pool_by_two).named(traced=1, batch=(0,))


def _pool_by_two(ns: Any, x: Any, random: Any) -> Any:
    return ns.nn.functional.fractional_max_pool2d(x, 2, 2, _random_samples=random)


def _forms_of_unpool(dims: int) -> Iterator[Form]:
    """Yields calls whose indices are unique in each channel."""
    rng = np.random.default_rng(dims)
    calls: dict[int, list[tuple[tuple[int, ...], tuple[Any, ...], tuple[int, ...]]]] = {
        1: [
            ((2, 3, 4), (2,), (8,)),
            ((3, 4), ((3,), 2, 1), (7,)),
            ((3, 4), (3, 2, 1, (8,)), (8,)),
            ((2, 3, 4), (2, 2, 0, (2, 3, 9)), (9,)),
        ],
        2: [
            ((2, 2, 3, 2), (2,), (6, 4)),
            ((2, 3, 2), ((2, 3), (2, 1), (0, 1)), (6, 2)),
            ((2, 2, 3, 2), ([2, 3], 2, 0, [5, 6]), (5, 6)),
            ((2, 2, *SIDES[2]), (2,), (10, 8)),
        ],
        3: [
            ((2, 2, 3, 2, 2), (2,), (6, 4, 4)),
            ((2, 3, 2, 2), ((2, 3, 1), (1, 2, 3), 0, (2, 2, 4, 5, 4)), (4, 5, 4)),
        ],
    }
    for shape, arguments, size in calls[dims]:
        channels, length = shape[:-dims], math.prod(shape[-dims:])
        rows = [rng.permutation(math.prod(size))[:length] for _ in np.ndindex(channels)]
        unpool = form(normal(*shape), np.reshape(rows, shape).astype(np.int64), *arguments)
        yield unpool.named() if shape[2:] == SIDES[2] else unpool
        # The first form stands for float64, and the last one for the op.
        for dtype in (np.float16, bfloat16) if size == (7,) else ():
            yield form(normal(2, 4).astype(dtype), np.array([[0, 3, 2, 7], [1, 5, 4, 3]]), 2)


def _forms_of_adaptive(dims: int) -> Iterator[Form]:
    yield from adaptive(dims, _with_ties, return_indices=True)
    yield pooled(dims, (3, 2, 2)[:dims])


def _forms_of_max_pool(dims: int) -> Iterator[Form]:
    for shape, rest in windows(dims, dilated=True):
        yield form(_with_ties(shape), *rest, return_indices=True)
    columns = (40, 1), (3, 1), (20, 0), (2, 1), True
    if dims == 2:
        given: list[tuple[Any, ...]] = [(2,), ([2],), ((2,), []), ([2, 2], (2,), [0], [1])]
        yield from (form(normal(3, 6, 6), *each) for each in given)
        yield form(_with_ties((2, 3, 70, 1)), *columns, return_indices=True)
    if dims == 1:
        # Long windows have other algorithms than short ones.
        x = _with_ties((2, 3, 70))
        x[0, 0, 5:60], x[1, 1, 30:] = -np.inf, np.where(np.arange(40) % 3, -0.0, 0.0)
        for long in ((17, 1, 8), (40, 3, 20, 2, True), (23, 23), (70,), (20, 60, 9, 3)):
            yield form(x, *long, return_indices=True)
        for dtype in (np.int8, np.uint8, np.int16, np.int32):
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            ends = np.array([[low, high, 5, 7, low, low]], dtype)
            yield form(ends, 2, 2, 1, return_indices=True)
            yield form(np.resize(ends, (1, 70)), 70, return_indices=True)
    yield pooled(dims, 2 + (dims < 3), 2, 1)


def _errors_of_fractional(dims: int) -> Iterator[ErrorInput]:
    x, random, wide = ones(3, *[6] * dims), ones(1, 3, dims) / 2, ones(1, dims + 1, dims + 1)
    drawn: dict[str, Any] = {"_random_samples": random}
    numbers = f"{dims + 1} or {dims + 2} (batch mode)"
    yield refused(RuntimeError, numbers, x[None, None], 2, 3, **drawn)
    yield refused(RuntimeError, "non-zero size", x[None, ..., :0, :], 2, 3, **drawn)
    yield refused(ValueError, "output_ratio, but got neither", x, 2, **drawn)
    yield refused(RuntimeError, "equal to 0, but got [-1, -1", x, 2, -1, **drawn)
    yield refused(RuntimeError, "be at most the input's size", x, 2, 6, **drawn)
    yield refused(RuntimeError, "] is too large", x, (*[2] * (dims - 1), 7), 1, **drawn)
    several, words = (3,) * (dims + 1), f"must be an int or {dims}"
    yield refused(RuntimeError, f"'kernel_size' {words}", x, several, 3, **drawn)
    yield refused(RuntimeError, f"'output_size' {words}", x, 2, several, **drawn)
    for words, other in (
        (f"[1 or more, 3, {dims}], but got {list(wide.shape)}", wide),
        (f"but got [1, 2, {dims}]", random[:, :2]),
        (f"but got [3, {dims}]", random[0]),
        (f"but got [0, 3, {dims}]", random[:0]),
        ("the dtype of input, float32, but got float16", random.astype(np.float16)),
    ):
        yield refused(RuntimeError, words, x, 2, 3, _random_samples=other)
    # PyTorch takes these arguments, or has none such.
    yield from unlike_torch(
        refused(RuntimeError, f"got shape {[6] * dims}", x[0], 2, 3, **drawn),
        refused(RuntimeError, "kernel_size should be greater than", x, 0, 3, **drawn),
        refused(ValueError, "output_ratio, but got both", x, 2, 3, 0.5, **drawn),
        refused(ValueError, "no hidden random state", x, 2, 3),
        refused(ValueError, "got both", x, 2, 3, key=np.zeros(2, np.uint32), **drawn),
        refused(TypeError, f"number or {dims} of them", x, 2, output_ratio="1", **drawn),
        refused(ValueError, f"number or {dims} of them", x, 2, output_ratio=several, **drawn),
        refused(NotImplementedError, "for int", x.astype(int), 2, 3, **drawn),
        refused(TypeError, "not bool", x, 2, output_ratio=True, **drawn),
        *(
            refused(ValueError, "between 0 and 1", x, 2, output_ratio=ratio, **drawn)
            for ratio in (0, 1, 1.5, -0.5, (*[0.5] * (dims - 1), 0.0), NAN)
        ),
    )


def _errors_of_unpool(dims: int) -> Iterator[ErrorInput]:
    x = normal(1, 2, *[4] * dims)
    index = np.zeros(x.shape, np.int64)
    size = "x".join(["8"] * dims)
    words = f"index {8**dims} is out of bounds for a result of size {size}"
    yield refused(RuntimeError, words, x, index + 8**dims, 2)
    yield refused(RuntimeError, "of argument 'indices'", x, index - 1, 2)
    yield refused(RuntimeError, "for indices but got: int16", x, index.astype(np.int16), 2)
    yield refused(RuntimeError, "for indices but got: float32", x, x, 2)
    for dtype in (np.int32, bool):
        words = f"{np.dtype(dtype)} in argument 'input'"
        yield refused(NotImplementedError, words, x.astype(dtype), index, 2)
    yield refused(RuntimeError, "got shape [1, 1, 2, 4", x[None], index[None], 2)
    words = f"{dims + 1}d or {dims + 2}d array"
    yield refused(RuntimeError, words, x[0, 0], index[0, 0], 2)
    yield refused(RuntimeError, "but got indices with shape", x, index[..., 1:], 2)
    yield refused(RuntimeError, "non-batch dimensions", x[:, :0], index[:, :0], 2)
    if dims == 3:
        yield refused(RuntimeError, "strides should be greater than zero", x, index, 2, 0)
    if dims > 1:
        words = f"must be an int or {dims} of them, but got 1"
        yield refused(RuntimeError, words, x, index, (2,))
    of_one = (8,) * (dims - 1)
    for words, sizes in (
        ("must be between 6 and 10", (10, *of_one)),
        ("must be between 6 and 10", (*of_one, 6)),
        ('invalid output_size "(6', (6, *of_one)),
        (f"containing {dims} or {dims + 2} elements", (8,) * (dims + 1)),
    ):
        yield refused(ValueError, words, x, index, 2, 2, 0, sizes)
    yield refused(ValueError, "non-negative spatial dimensions", x, index, 2, 2, 10)
    words = f"'stride' must be an int or {dims} of them"
    yield from unlike_torch(
        refused(RuntimeError, "strides should be greater than zero", x, index, 8, 0),
        refused(RuntimeError, words, x, index, 2, (2,) * (dims + 1)),
    )


def _plain_pool(jax: Any, x: Any) -> Any:
    """Takes the maxima of windows of two elements in each dimension, in plain JAX."""
    window = (1, 1, *(2,) * (x.ndim - 2))
    return jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, window, window, "VALID")


OPS = tuple(
    OpInfo(
        f"nn.functional.{name}{dims}d",
        functools.partial(samples, dims),
        functools.partial(forms, dims),
        functools.partial(errors, dims),
        plain=_plain_pool if name == "max_pool" else None,
    )
    for name, samples, forms, errors, least in (
        ("adaptive_max_pool", _adaptive_max_pool, _forms_of_adaptive, errors_of_adaptive, 1),
        ("fractional_max_pool", _fractional, _forms_of_fractional, _errors_of_fractional, 2),
        ("max_pool", _max_pool, _forms_of_max_pool, errors_of_max_pool, 1),
        ("max_unpool", _max_unpool, _forms_of_unpool, _errors_of_unpool, 1),
    )
    for dims in range(least, 4)
)
