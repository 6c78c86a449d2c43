"""Samples of ops that read elements by indices: gather, getitem, take and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.cases._data import DTYPES, FEW, MANY, Array, Reach, indices, values, written
from conformance.suite.sample import Call, OpInfo, Sample


def _reading(
    name: str, call: Call, arrays: tuple[Array, ...], reach: Reach, **options: Any
) -> Sample:
    """Returns a sample of a read, whose gradient adds to each element that was read.

    Args:
        name: The name of the sample.
        call: Calls the op.
        arrays: The input and the indices.
        reach: Returns the result.
        **options: Other fields of the sample.
    """
    return Sample(
        name=name,
        call=call,
        arrays=arrays,
        ordered=reach,
        wrt=0,
        ordered_gradient=lambda ct, x, *index: written(np.zeros_like(x), index, ct, reach),
        **options,
    )


def _gather() -> Iterator[Sample]:
    """Yields a number, one dimension, and two dimensions."""
    number = (np.ones((), np.float32), np.zeros((), np.int32))
    yield _reading("number", lambda ns, x, i: ns.gather(x, 0, i), number, lambda x, i: x)
    for lanes in ((), (3,)):
        yield _reading(
            f"{len(lanes) + 1}d",
            lambda ns, x, i: ns.gather(x, 0, i),
            (values((FEW, *lanes), np.float32), indices((MANY, *lanes))),
            lambda x, i: np.take_along_axis(x, i, 0),
        )


def _getitem() -> Iterator[Sample]:
    """Yields an array of indices, a list with two arrays around a slice, and slices alone."""
    yield _reading(
        "array",
        lambda ns, x, i: ns.getitem(x, i),
        (values((FEW, 3), np.float32), indices((MANY,))),
        lambda x, i: x[i],
        facts={"index_is_list": True},
    )
    yield _reading(
        "list_of_arrays",
        lambda ns, x, i, j: ns.getitem(x, [i, slice(1, None), j]),
        (
            values((2, 4, FEW), np.float32),
            indices((MANY // 50, 1), 2) - 1,  # Negative indices count from the end.
            indices((50,)),
        ),
        lambda x, i, j: x[i, 1:, j],
        facts={"index_is_list": True},
    )
    yield _reading(
        "slices",
        lambda ns, x: ns.getitem(x, (slice(None, None, 2), None, -1, ...)),
        (values((FEW, 4, 3), np.float32),),
        lambda x: x[::2, None, -1],
        facts={"index_is_list": False},
    )


def _index_select() -> Iterator[Sample]:
    """Yields rows along the first dimension, for each dtype that has a gradient."""
    for name in ("floating", "narrow"):
        yield _reading(
            name,
            lambda ns, x, i: ns.index_select(x, 0, i),
            (values((FEW, 3), DTYPES[name]), indices((MANY,))),
            lambda x, i: x[i],
        )


def _take() -> Iterator[Sample]:
    """Yields elements of two dimensions, with indices from both ends."""
    yield _reading(
        "2d",
        lambda ns, x, i: ns.take(x, i),
        (values((2, FEW), np.float32), indices((2, MANY), 2 * FEW) - FEW),
        lambda x, i: x.reshape(-1)[i],
    )


def _take_along_dim() -> Iterator[Sample]:
    """Yields a read along a dimension while another is broadcast, and a read of all elements."""
    yield _reading(
        "repeated",
        lambda ns, x, i: ns.take_along_dim(x, i, 1),
        (values((1, FEW, 3), np.float32), indices((5, MANY // 5, 3)) - 1),
        lambda x, i: np.take_along_axis(np.broadcast_to(x, (5, FEW, 3)), i % FEW, 1),
    )
    yield _reading(
        "flat",
        lambda ns, x, i: ns.take_along_dim(x, i),
        (values((2, FEW), np.float32), indices((2, MANY), 2 * FEW)),
        lambda x, i: x.reshape(-1)[i.reshape(-1)],
    )


def _repeat_interleave() -> Iterator[Sample]:
    """Yields a number of repetitions for each row, and one number for all elements."""
    # Some counts are zero, and one is large.
    repeats = np.bincount(np.minimum(indices((MANY,)), 3), minlength=FEW).astype(np.int32)
    yield _reading(
        "array",
        lambda ns, x, r: ns.repeat_interleave(x, r, 0, output_size=MANY),
        (values((FEW, 3), np.float32), repeats),
        lambda x, r: np.repeat(x, r, 0),
    )
    yield _reading(
        "number",
        lambda ns, x: ns.repeat_interleave(x, MANY),
        (values((FEW,), np.float32),),
        lambda x: np.repeat(x, MANY),
    )


OPS = (
    OpInfo("gather", _gather),
    OpInfo("getitem", _getitem),
    OpInfo("index_select", _index_select),
    OpInfo("repeat_interleave", _repeat_interleave),
    OpInfo("take", _take),
    OpInfo("take_along_dim", _take_along_dim),
)
