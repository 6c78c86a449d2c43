"""Calls of max_pool, adaptive_max_pool and fractional_max_pool, in one to three dimensions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from conformance.case import Call, Sample
from conformance.cases._data import DTYPES, Array, values
from spec import Direction, FactValue, oracles

#: For each window along a dimension, the positions that it reads.
Reads: TypeAlias = list[list[int]]
#: From a channel's number to the windows of each of its dimensions.
Windows: TypeAlias = Callable[[int], list[Reads]]

#: Sizes of the input, and a kernel, a stride, a padding and a dilation for each.
_SIZES = {1: (90,), 2: (13, 17), 3: (5, 7, 12)}
_KERNEL = {1: (21,), 2: (5, 4), 3: (3, 2, 5)}
_STRIDE = {1: (1,), 2: (1, 2), 3: (1, 1, 2)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 2)}
_DILATION = {1: (2,), 2: (1, 3), 3: (2, 1, 1)}
#: Output sizes of adaptive pooling: uneven ones, and such that windows share nothing.
_UNEVEN = {1: (233,), 2: (5, 29), 3: (3, 9, 20)}
_EVEN = {1: (45,), 2: (1, 17), 3: (5, 7, 4)}
#: Sizes, a kernel and output sizes of fractional pooling, by which many windows share elements.
_FRACTIONAL = {
    2: ((11, 13), (4, 5), (7, 9)),
    3: ((5, 6, 9), (2, 3, 4), (3, 3, 5)),
}

_NANS: dict[Direction, str] = {
    "forward": "Of several NaNs in a window the first is taken; PyTorch takes the last."
}


def max_samples(dims: int) -> Iterator[Sample]:
    """Windows that overlap, in several dtypes; among equal elements; and some that are apart."""
    name, sizes = f"max_pool{dims}d", _SIZES[dims]
    given = _KERNEL[dims], _STRIDE[dims], _PADDING[dims], _DILATION[dims]
    reads = [_fixed(*along) for along in zip(sizes, *given, strict=True)]
    for dtype in ("floating", "integer", "narrow") if dims == 2 else ("floating",):
        yield _values(
            f"overlapping, {dtype}",
            lambda ns, x: getattr(ns.nn.functional, name)(x, *given),
            values((2, 3, *sizes), DTYPES[dtype]),
            reads,
            overlapping=True,
        )
    yield _equals(lambda ns, x: getattr(ns.nn.functional, name)(x, *given, False, True), reads)
    # The last window of a dimension may reach beyond the input, but not begin there.
    yield _values(
        "apart",
        lambda ns, x: getattr(ns.nn.functional, name)(x, 4, 5, 0, 1, True),
        values((3, *sizes), np.float32),
        [_fixed(n, 4, 5, 0, 1, len(range(0, n, 5))) for n in sizes],
        overlapping=False,
    )


def adaptive_samples(dims: int) -> Iterator[Sample]:
    """Windows of several lengths; among equal elements; and of one length, sharing nothing."""
    name, sizes, uneven = f"adaptive_max_pool{dims}d", _SIZES[dims], _UNEVEN[dims]
    reads = [_shares(n, m) for n, m in zip(sizes, uneven, strict=True)]
    yield _values(
        "uneven",
        lambda ns, x: getattr(ns.nn.functional, name)(x, uneven),
        values((2, 3, *sizes), np.float32),
        reads,
        overlapping=True,
    )
    yield _equals(lambda ns, x: getattr(ns.nn.functional, name)(x, uneven, True), reads)
    counts = _EVEN[dims]
    even = tuple(n // m * m for n, m in zip(sizes, counts, strict=True))
    yield _values(
        "even",
        lambda ns, x: getattr(ns.nn.functional, name)(x, counts),
        values((3, *even), np.float32),
        [_shares(n, m) for n, m in zip(even, counts, strict=True)],
        overlapping=False,
    )


def fractional_samples(dims: int) -> Iterator[Sample]:
    """Windows that overlap, among elements that differ and among equal ones."""
    name, (sizes, kernel, lengths) = f"fractional_max_pool{dims}d", _FRACTIONAL[dims]
    random = np.random.default_rng(dims).random((2, 3, dims)).astype(np.float32)

    def windows(channel: int) -> list[Reads]:
        own = random.reshape(-1, dims)[channel]
        # In two dimensions, the sample of the last one comes first.
        steps = own[::-1] if dims == 2 else own
        return [_random(*along) for along in zip(sizes, kernel, lengths, steps, strict=True)]

    def call(ns: Any, x: Any, u: Any, indices: bool = False) -> Any:
        pool = getattr(ns.nn.functional, name)
        return pool(x, kernel, lengths, None, indices, u)

    facts: dict[str, FactValue] = {"dtype": "floating", "input_ndim": dims + 2}
    yield Sample(
        name="differing",
        facts=facts,
        call=call,
        arrays=(values((2, 3, *sizes), np.float32), random),
        expected=lambda x, u: _taken(x, windows),
        ordered=lambda x, u: _taken(x, windows),
        wrt=0,
        expected_pullback=lambda ct, x, u: _given_back(ct, x, windows),
        ordered_pullback=lambda ct, x, u: _in_panels(ct, x, windows),
    )
    yield Sample(
        name="equals",
        facts=facts,
        call=lambda ns, x, u: call(ns, x, u, True)[1],
        arrays=(_few(sizes), random),
        expected=lambda x, u: _positions(x, windows),
        ordered=lambda x, u: _positions(x, windows).astype(np.int32),
        own=_NANS,
    )


def _values(name: str, call: Call, x: Array, reads: list[Reads], *, overlapping: bool) -> Sample:
    """The maxima; differentiated if they are floats."""
    integers = x.dtype.kind == "i"
    return Sample(
        name=name,
        facts={
            "dtype": "integer" if integers else "floating",
            "input_ndim": x.ndim,
            "overlapping": overlapping,
        },
        call=call,
        arrays=(x,),
        expected=lambda x: _taken(x, lambda _: reads),
        ordered=lambda x: _taken(x, lambda _: reads),
        wrt=None if integers else 0,
        expected_pullback=lambda ct, x: _given_back(ct, x, lambda _: reads),
        ordered_pullback=lambda ct, x: _dimension_by_dimension(ct, x, reads),
    )


def _equals(call: Call, reads: list[Reads]) -> Sample:
    """Where the maxima are, of few different elements, some of them NaN."""
    sizes = tuple(max(itertools.chain(*along)) + 1 for along in reads)
    return Sample(
        name="equals",
        facts={"dtype": "floating", "input_ndim": len(reads) + 2, "overlapping": True},
        call=lambda ns, x: call(ns, x)[1],
        arrays=(_few(sizes),),
        expected=lambda x: _positions(x, lambda _: reads),
        ordered=lambda x: _positions(x, lambda _: reads).astype(np.int32),
        own=_NANS,
    )


def _few(sizes: tuple[int, ...]) -> Array:
    """Elements many of which are equal, zeros of both signs among them, and some NaN."""
    rng = np.random.default_rng(sizes)
    x = rng.integers(0, 2, (2, 3, *sizes)) * np.where(rng.random((2, 3, *sizes)) < 0.5, -1.0, 1.0)
    return np.where(rng.random(x.shape) < 0.02, np.nan, x).astype(np.float32)


def _fixed(
    size: int, kernel: int, stride: int, padding: int, dilation: int, count: int | None = None
) -> Reads:
    if count is None:
        count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    starts = [o * stride - padding for o in range(count)]
    return [[i for t in range(kernel) if 0 <= (i := s + t * dilation) < size] for s in starts]


def _shares(size: int, count: int) -> Reads:
    """Windows that divide ``size`` positions, whole or shared with the next."""
    return [
        [i for i in range(size) if (i + 1) * count > o * size and i * count < (o + 1) * size]
        for o in range(count)
    ]


def _random(size: int, kernel: int, count: int, sample: np.float32) -> Reads:
    """Windows that begin at random steps, computed in float32."""
    alpha = np.float32(size - kernel) / np.float32(count - 1)
    first = int(sample * alpha)
    starts = [int((np.float32(o) + sample) * alpha) - first for o in range(count - 1)]
    return [list(range(s, s + kernel)) for s in (*starts, size - kernel)]


def _channels(x: Any, dims: int) -> Array:
    return np.asarray(x).reshape(-1, *x.shape[x.ndim - dims :])


def _dims(windows: Windows) -> int:
    return len(windows(0))


def _positions(x: Array, windows: Windows) -> Array:
    """The flat position of the greatest element of each window, the first of equals."""
    dims, found = _dims(windows), []
    for number, channel in enumerate(_channels(x, dims)):
        places = np.arange(channel.size).reshape(channel.shape)
        for window in itertools.product(*windows(number)):
            within = places[np.ix_(*window)].reshape(-1)
            # bfloat16 is no number that NumPy can sort.
            elements = channel.reshape(-1)[within].astype(np.float64)
            found.append(within[oracles.lowest_index(elements, elements.size)])
    lengths = [len(along) for along in windows(0)]
    return np.array(found).reshape(*x.shape[: x.ndim - dims], *lengths)


def _taken(x: Array, windows: Windows) -> Array:
    positions, dims = _positions(x, windows), _dims(windows)
    rows = x.reshape(int(np.prod(x.shape[:-dims])), -1)
    taken = np.take_along_axis(rows, positions.reshape(len(rows), -1), 1)
    return taken.reshape(positions.shape)


def _given_back(ct: Array, x: Array, windows: Windows) -> Array:
    """The gradient, in float64."""
    positions, dims = _positions(x, windows), _dims(windows)
    out = np.zeros((int(np.prod(x.shape[:-dims])), int(np.prod(x.shape[-dims:]))))
    for row, at, terms in zip(
        out, positions.reshape(len(out), -1), _flat(ct, len(out)), strict=True
    ):
        np.add.at(row, at, terms.astype(np.float64))
    return out.reshape(x.shape)


def _in_panels(ct: Array, x: Array, windows: Windows) -> Array:
    """The gradient, added up over windows in row-major order."""
    positions, dims = _positions(x, windows), _dims(windows)
    count = int(np.prod(x.shape[:-dims]))
    zeros = np.zeros(int(np.prod(x.shape[-dims:])), x.dtype)
    rows = [
        oracles.panel(zeros, at, terms)
        for at, terms in zip(positions.reshape(count, -1), _flat(ct, count), strict=True)
    ]
    return np.stack(rows).reshape(x.shape)


def _flat(ct: Array, count: int) -> Array:
    return np.asarray(ct).reshape(count, -1)


def _dimension_by_dimension(ct: Array, x: Array, reads: list[Reads]) -> Array:
    """The gradient, added up along the first dimension, then along the next."""
    out, taken, places = ct.astype(np.float32), x.astype(np.float32), []
    axes = range(x.ndim - len(reads), x.ndim)
    for axis, along in reversed(list(zip(axes, reads, strict=True))):
        place = functools.partial(_first_greatest, along=along)
        at = np.apply_along_axis(place, axis, taken)
        taken = np.take_along_axis(taken, at, axis)
        places.append(at)
    for axis, at in zip(axes, reversed(places), strict=True):
        out = _along(out, at, axis, x.shape[axis])
    return out.astype(x.dtype)


def _first_greatest(column: Array, along: Sequence[list[int]]) -> Array:
    return np.array([window[oracles.lowest_index(column[window], len(window))] for window in along])


def _along(ct: Array, at: Array, axis: int, size: int) -> Array:
    """Adds each element to the position, along an axis, that it was taken from."""
    ct, at = np.moveaxis(ct, axis, -1), np.moveaxis(at, axis, -1)
    out = np.zeros((*ct.shape[:-1], size), ct.dtype)
    for lane in np.ndindex(ct.shape[:-1]):
        index = np.full((size, ct.shape[-1]), -1)
        index[at[lane], np.arange(ct.shape[-1])] = np.arange(ct.shape[-1])
        out[lane] = oracles.window(ct[lane], index)
    return np.moveaxis(out, -1, axis)
