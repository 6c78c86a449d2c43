"""Samples of average pooling and of lp_pool."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from conformance.cases._data import DTYPES, Array, values
from conformance.suite.sample import Call, OpInfo, Sample
from spec import oracles

#: For each window along a dimension, the indices that it reads.
Reads: TypeAlias = list[list[int]]

#: The sizes of the input by the number of dimensions.
SIZES = {1: (90,), 2: (13, 17), 3: (5, 9, 12)}


def dtypes(dims: int) -> Sequence[str]:
    """Returns the keys of ``DTYPES`` to test.

    The rounding at the end does not depend on the number of dimensions, so bfloat16 is tested in
    two dimensions alone.
    """
    return ("floating", "narrow") if dims == 2 else ("floating",)


def mean(
    name: str,
    call: Call,
    x: Array,
    reads: list[Reads],
    divisor: Array,
    *,
    separable: bool = False,
    **facts: bool,
) -> Sample:
    """Returns a sample that divides the sum of each window.

    Args:
        name: The name of the sample.
        call: Calls the op.
        x: Its array.
        reads: The windows along each dimension.
        divisor: An array of the shape of a channel of the result.
        separable: Whether the op adds, and rounds, one dimension after another.
        **facts: The facts of the call besides its dtype and its number of dimensions.
    """
    return Sample(
        name=name,
        facts={"dtype": "floating", "input_ndim": x.ndim, **facts},
        call=call,
        arrays=(x,),
        expected=lambda x: unfolded(lanes(x, reads) @ membership(reads, x).T, x, reads) / divisor,
        wrt=0,
        expected_gradient=lambda ct, x: (lanes(ct / divisor, reads) @ membership(reads, x)).reshape(
            x.shape
        ),
        ordered_gradient=lambda ct, x: _ordered_gradient(
            ct, x, reads, divisor, separable=separable
        ),
    )


def _ordered_gradient(
    ct: Array, x: Array, reads: list[Reads], divisor: Array, *, separable: bool
) -> Array:
    """Returns exact sums of the products with reciprocals, over all dimensions or over each."""
    out = ct.astype(np.float32) * (1 / divisor).astype(np.float32)
    if not separable:
        weights = membership(reads, x).astype(np.float32)
        return (
            oracles.nearest_product(out.reshape(-1, len(weights)), weights, np.float32)
            .astype(x.dtype)
            .reshape(x.shape)
        )
    for axis, along in enumerate(reads, ct.ndim - len(reads)):
        weights = membership([along], np.empty(x.shape[axis])).astype(np.float32)
        total = oracles.nearest_product(np.moveaxis(out, axis, -1), weights, np.float32)
        out = np.moveaxis(total, -1, axis)
    return out.astype(x.dtype)


def windows(size: int, kernel: int, stride: int, padding: int, count: int) -> Reads:
    """Returns windows of a fixed length and distance, without the padding."""
    starts = [o * stride - padding for o in range(count)]
    return [[i for i in range(s, s + kernel) if 0 <= i < size] for s in starts]


def adaptive_windows(size: int, count: int) -> Reads:
    """Returns windows that divide ``size`` elements. Neighbours may share an element."""
    return [
        [i for i in range(size) if (i + 1) * count > o * size and i * count < (o + 1) * size]
        for o in range(count)
    ]


def lengths(reads: list[Reads]) -> Array:
    """Returns the number of elements of each window."""
    by_dim = [np.array([len(window) for window in along]) for along in reads]
    return np.asarray(functools.reduce(np.multiply.outer, by_dim))


def membership(reads: list[Reads], x: Array) -> Array:
    """Returns 1 where a window has an element and else 0: [windows, elements of a channel]."""
    by_dim = []
    for along, size in zip(reads, x.shape[-len(reads) :], strict=True):
        by_dim.append(np.array([[float(i in window) for i in range(size)] for window in along]))
    return np.asarray(functools.reduce(np.kron, by_dim))


def lanes(x: Any, reads: list[Reads]) -> Array:
    """Returns an array in float64, with a row for each channel."""
    wide: Array = np.asarray(x).astype(np.float64)
    return wide.reshape(int(np.prod(wide.shape[: -len(reads)])), -1)


def unfolded(rows: Array, x: Array, reads: list[Reads]) -> Array:
    """Returns rows of windows in the shape of the result."""
    return rows.reshape(*x.shape[: -len(reads)], *(len(along) for along in reads))


#: Windows that overlap, by the number of dimensions.
_KERNEL = {1: (9,), 2: (5, 4), 3: (3, 2, 5)}
_STRIDE = {1: (2,), 2: (1, 3), 3: (2, 1, 2)}
_PADDING = {1: (4,), 2: (2, 1), 3: (1, 0, 2)}


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


#: Output sizes by the number of dimensions. Windows have several lengths, and where the output is
#: the larger one, several windows read the same element.
_UNEVEN = {1: (211,), 2: (5, 29), 3: (3, 9, 20)}
#: Output sizes for which no two windows share an element.
_EVEN = {1: (45,), 2: (1, 17), 3: (5, 3, 4)}


def _adaptive_avg_pool(dims: int) -> Iterator[Sample]:
    """Yields windows of several lengths, windows that share no element, and one window."""
    name, sizes = f"adaptive_avg_pool{dims}d", SIZES[dims]
    even = tuple(n // m * m for n, m in zip(sizes, _EVEN[dims], strict=True))
    for label, dtype, shape, output_size in (
        *((f"uneven, {dtype}", dtype, (2, 3, *sizes), _UNEVEN[dims]) for dtype in dtypes(dims)),
        ("even", "floating", (3, *even), _EVEN[dims]),
        ("one", "floating", (2, 3, *sizes), (1,) * dims),
    ):
        reads = [adaptive_windows(n, m) for n, m in zip(shape[-dims:], output_size, strict=True)]
        yield mean(
            label,
            lambda ns, x, to=output_size: getattr(ns.nn.functional, name)(x, to),
            values(shape, DTYPES[dtype]),
            reads,
            lengths(reads),
            separable=True,
            output_size_is_one=label == "one",
        )


def _lp_pool(dims: int) -> Iterator[Sample]:
    """Yields squares and maxima of windows that overlap, and cubes of windows that do not."""
    name, sizes = f"lp_pool{dims}d", SIZES[dims]
    # No two elements have the same magnitude, so that the maximum is one element.
    count = 6 * int(np.prod(sizes))
    magnitudes = (1 + np.random.default_rng(dims).permutation(count)) / count
    x: Array = magnitudes.astype(np.float32).reshape(2, 3, *sizes)
    signed = x * np.where(np.indices(x.shape).sum(0) % 3, np.float32(1), np.float32(-1))
    for label, power, array, kernel, stride in (
        ("squares", 2, signed, 5, 2),
        ("cubes", 3.0, x[0], 2, 2),
        # The gradient of 65 taps or more is a scatter on every device.
        ("greatest", float("inf"), signed, 70 if dims == 1 else 9, 1),
    ):
        reads = [windows(n, kernel, stride, 0, (n - kernel) // stride + 1) for n in sizes]
        yield Sample(
            name=label,
            facts={"dtype": "floating", "input_ndim": array.ndim},
            call=lambda ns, x, p=power, k=kernel, s=stride: getattr(ns.nn.functional, name)(
                x, p, k, s
            ),
            arrays=(array,),
            expected=functools.partial(_norm, reads=reads, power=power),
            wrt=0,
            expected_gradient=functools.partial(_gradient, reads=reads, power=power),
        )


def _norm(x: Array, reads: list[Reads], power: float) -> Array:
    rows, member = lanes(x, reads), membership(reads, x)
    if np.isinf(power):
        out = np.where(member > 0, np.abs(rows)[:, None], 0).max(-1)
    else:
        out = (rows**power @ member.T) ** (1 / power)
    return unfolded(out, x, reads)


def _gradient(ct: Array, x: Array, reads: list[Reads], power: float) -> Array:
    rows, member = lanes(x, reads), membership(reads, x)
    if np.isinf(power):
        index = np.where(member > 0, np.abs(rows)[:, None], 0).argmax(-1)
        derivatives = np.eye(member.shape[1])[index] * np.sign(rows)[:, None]
    else:
        norms = lanes(_norm(x, reads, power), reads)
        derivatives = member * (rows[:, None] / norms[..., None]) ** (power - 1)
    gradient = np.einsum("no,noi->ni", lanes(ct, reads), derivatives)
    return np.asarray(gradient.reshape(x.shape))


OPS = tuple(
    OpInfo(f"nn.functional.{name}{dims}d", functools.partial(samples, dims))
    for name, samples, most in (
        ("adaptive_avg_pool", _adaptive_avg_pool, 3),
        ("avg_pool", _avg_pool, 3),
        ("lp_pool", _lp_pool, 2),
    )
    for dims in range(1, most + 1)
)
