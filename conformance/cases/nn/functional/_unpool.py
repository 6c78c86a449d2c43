"""Calls of max_unpool1d, max_unpool2d and max_unpool3d."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import Array, one_of_the_writes, values
from spec import oracles

#: Lengths of a channel, by the number of dimensions; windows and steps, which overlap.
_LENGTHS = {1: (600,), 2: (30, 20), 3: (5, 6, 20)}
_KERNEL = {1: (3,), 2: (3, 2), 3: (3, 2, 3)}
_STEP = {1: (2,), 2: (2, 1), 3: (2, 1, 2)}
#: FlatIndex of a channel that are written to, each by many elements.
_PLACES = 50


def unpool_samples(dims: int) -> Iterator[Sample]:
    """Overlapping windows, of a batch and of one example."""
    # Which write stayed is the op's decision, and its pullback goes by it: no pullback is tried.
    lengths, kernel, step = _LENGTHS[dims], _KERNEL[dims], _STEP[dims]
    size = tuple((n - 1) * s + k for n, k, s in zip(lengths, kernel, step, strict=True))
    for name, batch in (("batch", (2, 2)), ("one", (3,))):
        shape = (*batch, *lengths)
        places = np.random.default_rng(shape).integers(0, _PLACES, shape).astype(np.int32)
        yield Sample(
            name=name,
            facts={"dtype": "floating", "input_ndim": len(shape), "unique_indices": False},
            call=lambda ns, x, i: getattr(ns.nn.functional, f"max_unpool{dims}d")(
                x, i, kernel, step
            ),
            arrays=(values(shape, np.float32), places),
            expected=lambda x, i: _unpooled(x, i, size),
            ordered=lambda x, i: _unpooled(x, i, size),
            accept=lambda result, x, i: _accept(result, x, i, size),
        )


def _channels(x: Array, i: Array, dims: int) -> Iterator[tuple[Array, Array]]:
    count = int(np.prod(x.shape[:-dims]))
    return zip(x.reshape(count, -1), i.reshape(count, -1), strict=True)


def _unpooled(x: Array, i: Array, size: tuple[int, ...]) -> Array:
    empty = np.zeros(int(np.prod(size)), x.dtype)
    rows = [oracles.last_write(empty, at, row) for row, at in _channels(x, i, len(size))]
    return np.stack(rows).reshape(*x.shape[: -len(size)], *size)


def _accept(result: Any, x: Array, i: Array, size: tuple[int, ...]) -> None:
    found = np.asarray(result).reshape(-1, int(np.prod(size)))
    empty = np.zeros(found.shape[1], x.dtype)
    for got, (row, at) in zip(found, _channels(x, i, len(size)), strict=True):
        one_of_the_writes(got, empty, at, row)
