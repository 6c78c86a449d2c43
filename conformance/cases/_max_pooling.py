"""Samples of max pooling in one to three dimensions, and their references."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import spec
from conformance.cases._data import Array
from conformance.suite.sample import Call, Sample
from spec import Direction, oracles

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


def _channels(x: Any, dims: int) -> Array:
    return np.asarray(x).reshape(-1, *x.shape[x.ndim - dims :])


def _dims(windows: Windows) -> int:
    return len(windows(0))


def indices(x: Array, windows: Windows) -> Array:
    """Returns the flat index of the greatest element of each window, the first of equal ones."""
    dims, flat_indices = _dims(windows), []
    for number, channel in enumerate(_channels(x, dims)):
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
