"""Samples of max_unpool1d, max_unpool2d and max_unpool3d."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.cases._data import Array, one_of_the_writes, values
from conformance.suite.sample import Sample
from spec import oracles

#: The sizes of a channel by the number of dimensions, and windows that overlap.
_SIZES = {1: (600,), 2: (30, 20), 3: (5, 6, 20)}
_KERNEL = {1: (3,), 2: (3, 2), 3: (3, 2, 3)}
_STRIDE = {1: (2,), 2: (2, 1), 3: (2, 1, 2)}
#: The number of destinations in a channel. Each gets many contributions.
_DESTINATIONS = 50


def samples() -> Mapping[str, Sequence[Sample]]:
    return {f"nn.functional.max_unpool{dims}d": tuple(_max_unpool(dims)) for dims in (1, 2, 3)}


def _max_unpool(dims: int) -> Iterator[Sample]:
    """Yields windows that overlap, of a batch and of one example.

    There is no sample of the gradient, which depends on the write that the op chose.
    """
    sizes, kernel, stride = _SIZES[dims], _KERNEL[dims], _STRIDE[dims]
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


def _channels(x: Array, i: Array, dims: int) -> Iterator[tuple[Array, Array]]:
    count = int(np.prod(x.shape[:-dims]))
    return zip(x.reshape(count, -1), i.reshape(count, -1), strict=True)


def _unpooled(x: Array, i: Array, size: tuple[int, ...]) -> Array:
    zeros = np.zeros(int(np.prod(size)), x.dtype)
    rows = [oracles.last_write(zeros, index, row) for row, index in _channels(x, i, len(size))]
    return np.stack(rows).reshape(*x.shape[: -len(size)], *size)


def _accept(result: Any, x: Array, i: Array, size: tuple[int, ...]) -> None:
    result_rows = np.asarray(result).reshape(-1, int(np.prod(size)))
    zeros = np.zeros(result_rows.shape[1], x.dtype)
    channels = _channels(x, i, len(size))
    for result_row, (row, index) in zip(result_rows, channels, strict=True):
        one_of_the_writes(result_row, zeros, index, row)
