"""Samples of average pooling in one to three dimensions, and windows that other pooling shares."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from conformance.cases._data import Array
from conformance.suite.sample import Call, Sample
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
