"""Calls of avg_pool, adaptive_avg_pool and lp_pool, in one to three dimensions."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from conformance.case import Call, Sample
from conformance.cases._data import DTYPES, Array, values
from spec import oracles

#: For each window along a dimension, the positions that it reads.
Reads: TypeAlias = list[list[int]]

#: Sizes of the input, and a kernel, a stride and a padding for each, with which windows overlap.
_SIZES = {1: (90,), 2: (13, 17), 3: (5, 9, 12)}
_KERNEL = {1: (9,), 2: (5, 4), 3: (3, 2, 5)}
_STRIDE = {1: (2,), 2: (1, 3), 3: (2, 1, 2)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 2)}
#: Output sizes of adaptive pooling: uneven ones, of which one has several windows for each element,
#: and such that windows share nothing.
_UNEVEN = {1: (211,), 2: (5, 29), 3: (3, 9, 20)}
_EVEN = {1: (45,), 2: (1, 17), 3: (5, 3, 4)}


def avg_samples(dims: int) -> Iterator[Sample]:
    """Windows that overlap, with zeros around the input, in two dtypes; and some that do not."""
    name, sizes, kernel = f"avg_pool{dims}d", _SIZES[dims], _KERNEL[dims]
    stride, padding = _STRIDE[dims], _PADDING[dims]
    reads = [
        _windows(n, k, s, p, (n + 2 * p - k) // s + 1)
        for n, k, s, p in zip(sizes, kernel, stride, padding, strict=True)
    ]
    for dtype in _dtypes(dims):
        yield _mean(
            f"overlapping, {dtype}",
            lambda ns, x: getattr(ns.nn.functional, name)(x, kernel, stride, padding),
            values((2, 3, *sizes), DTYPES[dtype]),
            reads,
            np.full([len(along) for along in reads], np.prod(kernel)),
            overlapping=True,
        )
    # The last window of a dimension may reach beyond the input, but not begin there.
    apart = [_windows(n, 4, 5, 0, len(range(0, n, 5))) for n in sizes]
    yield _mean(
        "apart",
        lambda ns, x: getattr(ns.nn.functional, name)(x, 4, 5, 0, True, False),
        values((3, *sizes), np.float32),
        apart,
        _counts(apart),
        overlapping=False,
    )


def adaptive_samples(dims: int) -> Iterator[Sample]:
    """Windows of several lengths; those of one length that share nothing; and one for all."""
    name, sizes = f"adaptive_avg_pool{dims}d", _SIZES[dims]
    even = tuple(n // m * m for n, m in zip(sizes, _EVEN[dims], strict=True))
    for label, dtype, shape, output_size in (
        *((f"uneven, {dtype}", dtype, (2, 3, *sizes), _UNEVEN[dims]) for dtype in _dtypes(dims)),
        ("even", "floating", (3, *even), _EVEN[dims]),
        ("one", "floating", (2, 3, *sizes), (1,) * dims),
    ):
        reads = [_shares(n, m) for n, m in zip(shape[-dims:], output_size, strict=True)]
        yield _mean(
            label,
            lambda ns, x, to=output_size: getattr(ns.nn.functional, name)(x, to),
            values(shape, DTYPES[dtype]),
            reads,
            _counts(reads),
            overlapping=label.startswith("uneven"),
            output_size_is_one=label == "one",
        )


def lp_samples(dims: int) -> Iterator[Sample]:
    """Squares, and greatest elements, of windows that overlap; cubes of some that do not."""
    name, sizes = f"lp_pool{dims}d", _SIZES[dims]
    # No two of a magnitude, so that one element is the greatest.
    count = 6 * int(np.prod(sizes))
    magnitudes = (1 + np.random.default_rng(dims).permutation(count)) / count
    x: Array = magnitudes.astype(np.float32).reshape(2, 3, *sizes)
    signed = x * np.where(np.indices(x.shape).sum(0) % 3, np.float32(1), np.float32(-1))
    for label, power, array, kernel, stride in (
        ("squares", 2, signed, 5, 2),
        ("cubes", 3.0, x[0], 2, 2),
        ("greatest", float("inf"), signed, 5, 2),
    ):
        reads = [_windows(n, kernel, stride, 0, (n - kernel) // stride + 1) for n in sizes]
        yield Sample(
            name=label,
            facts={
                "dtype": "floating",
                "input_ndim": array.ndim,
                "overlapping": stride < kernel,
            },
            call=lambda ns, x, p=power, k=kernel, s=stride: getattr(ns.nn.functional, name)(
                x, p, k, s
            ),
            arrays=(array,),
            expected=functools.partial(_norm, reads=reads, power=power),
            wrt=0,
            expected_pullback=functools.partial(_norm_pullback, reads=reads, power=power),
        )


def _dtypes(dims: int) -> Sequence[str]:
    """What dtypes to try, of ``DTYPES``; dimensions do not matter to what is rounded at the end."""
    return ("floating", "narrow") if dims == 2 else ("floating",)


def _mean(
    name: str, call: Call, x: Array, reads: list[Reads], divisor: Array, **facts: bool
) -> Sample:
    """A call that divides the sum of each window, of what ``reads`` names in each dimension."""
    return Sample(
        name=name,
        facts={"dtype": "floating", "input_ndim": x.ndim, **facts},
        call=call,
        arrays=(x,),
        expected=lambda x: _unfolded(_lanes(x, reads) @ _matrix(reads, x).T, x, reads) / divisor,
        wrt=0,
        expected_pullback=lambda ct, x: (_lanes(ct / divisor, reads) @ _matrix(reads, x)).reshape(
            x.shape
        ),
        ordered_pullback=lambda ct, x: _ordered_pullback(ct, x, reads, divisor),
    )


def _ordered_pullback(ct: Array, x: Array, reads: list[Reads], divisor: Array) -> Array:
    """Products with reciprocals, added up along the first dimension, then the next."""
    out = ct.astype(np.float32) * (1 / divisor).astype(np.float32)
    for axis, along in enumerate(reads, ct.ndim - len(reads)):
        readers = [[o for o, w in enumerate(along) if i in w] for i in range(x.shape[axis])]
        index = np.full((len(readers), max(map(len, readers))), -1)
        for row, outputs in zip(index, readers, strict=True):
            row[: len(outputs)] = outputs
        out = np.moveaxis(oracles.window(np.moveaxis(out, axis, 0), index), 0, axis)
    return out.astype(x.dtype)


def _norm(x: Array, reads: list[Reads], power: float) -> Array:
    lanes, member = _lanes(x, reads), _matrix(reads, x)
    if np.isinf(power):
        out = np.where(member > 0, np.abs(lanes)[:, None], 0).max(-1)
    else:
        out = (lanes**power @ member.T) ** (1 / power)
    return _unfolded(out, x, reads)


def _norm_pullback(ct: Array, x: Array, reads: list[Reads], power: float) -> Array:
    lanes, member = _lanes(x, reads), _matrix(reads, x)
    if np.isinf(power):
        greatest = np.where(member > 0, np.abs(lanes)[:, None], 0).argmax(-1)
        each = np.eye(member.shape[1])[greatest] * np.sign(lanes)[:, None]
    else:
        root = _lanes(_norm(x, reads, power), reads)
        each = member * (lanes[:, None] / root[..., None]) ** (power - 1)
    return np.asarray(np.einsum("no,noi->ni", _lanes(ct, reads), each).reshape(x.shape))


def _windows(size: int, kernel: int, stride: int, padding: int, count: int) -> Reads:
    starts = [o * stride - padding for o in range(count)]
    return [[i for i in range(s, s + kernel) if 0 <= i < size] for s in starts]


def _shares(size: int, count: int) -> Reads:
    """Windows that divide ``size`` positions, whole or shared with the next."""
    return [
        [i for i in range(size) if (i + 1) * count > o * size and i * count < (o + 1) * size]
        for o in range(count)
    ]


def _counts(reads: list[Reads]) -> Array:
    """The number of elements of each window."""
    lengths = [np.array([len(window) for window in along]) for along in reads]
    return np.asarray(functools.reduce(np.multiply.outer, lengths))


def _matrix(reads: list[Reads], x: Array) -> Array:
    """Which elements each window has: shape [windows, elements of a channel]."""
    parts = []
    for along, size in zip(reads, x.shape[-len(reads) :], strict=True):
        parts.append(np.array([[float(i in window) for i in range(size)] for window in along]))
    return np.asarray(functools.reduce(np.kron, parts))


def _lanes(x: Any, reads: list[Reads]) -> Array:
    """In float64, a row for each channel."""
    wide: Array = np.asarray(x).astype(np.float64)
    return wide.reshape(int(np.prod(wide.shape[: -len(reads)])), -1)


def _unfolded(rows: Array, x: Array, reads: list[Reads]) -> Array:
    return rows.reshape(*x.shape[: -len(reads)], *(len(along) for along in reads))
