"""Rewrites a scatter of any form as a scatter of rows: of [n, width] into [size, width].

``lax.scatter`` writes windows of any number of dimensions, whose starts are vectors of indices.
Every ``lax.scatter`` can be written with rows. The axes of a batch, and the axes that an index
starts a window in, become one axis of rows, by the row-major formula ``row = i * stride_i + j *
stride_j``. A window that is longer than 1 along such an axis becomes several rows, one for each
offset. The other axes become the width of a row.

For example, for ``x.at[i, j].add(u)`` with x of [4, 5, 6], i and j of [9] and u of [9, 6]::

    operand   [20, 6]   indexed axes 4 * 5, and 6 numbers in each row
    keys      [9]       5 * i + j; 20, one beyond the last row, where (i, j) is out of bounds
    updates   [9, 6]

``FlatScatter.restore`` brings the result of [20, 6] back to [4, 5, 6].
"""

from __future__ import annotations

import dataclasses
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode, ScatterDimensionNumbers

from impl._core.partitioning import Axes


@dataclasses.dataclass(frozen=True)
class FlatScatter:
    """A scatter of rows, and the way back to the operand's own shape.

    Attributes:
        operand: Shape [size, width].
        keys: The row of each update, int32, shape [n]; ``size`` for one that is dropped.
        updates: Shape [n, width].
        restore: Takes the result, of shape [size, width], and returns it with the shape of the
            operand of the scatter.
    """

    operand: jax.Array
    keys: jax.Array
    updates: jax.Array
    restore: Callable[[jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class _Axes:
    """The axes of a scatter by their use.

    Attributes:
        batch: Axes of the operand that the indices share.
        indexed: Axes of the operand that an index starts a window in, ascending.
        others: The other axes of the operand, where every window starts at 0.
        index_batch: The axes of the indices for ``batch``.
        index_rest: The other axes of the indices, without the last, which the vectors lie along.
        of_index: The axis of the updates for each axis of the indices.
        of_window: The axis of the updates for each axis of the operand that windows extend along.
        extents: The length of a window along each axis of the operand.
    """

    batch: tuple[int, ...]
    indexed: tuple[int, ...]
    others: tuple[int, ...]
    index_batch: tuple[int, ...]
    index_rest: tuple[int, ...]
    of_index: tuple[int, ...]
    of_window: dict[int, int]
    extents: tuple[int, ...]

    def windows(self, axes: Sequence[int]) -> list[int]:
        """Returns the axes of the updates for axes of the operand, if the updates have them."""
        return [self.of_window[axis] for axis in axes if axis in self.of_window]


def flatten(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    mode: GatherScatterMode,
) -> FlatScatter:
    """Returns the scatter of rows that does the same.

    Args:
        operand: The array that is written to.
        indices: Vectors of indices, along the last axis.
        updates: The windows.
        dimension_numbers: As ``lax.scatter`` takes them.
        mode: The treatment of windows that are out of bounds. Under ``PROMISE_IN_BOUNDS`` too, they
            are dropped.
    """
    axes = _axes(operand, indices, updates, dimension_numbers)
    # Outside of this part no window writes.
    part = tuple(
        slice(0, axes.extents[axis] if axis in axes.others else size)
        for axis, size in enumerate(operand.shape)
    )
    written = operand[part] if _is_smaller(part, operand) else operand
    order = (*axes.batch, *axes.indexed, *axes.others)
    rows = _rows(operand, indices, dimension_numbers, axes, clip=_clips(mode))
    rest = [axes.of_index[axis] for axis in (*axes.index_batch, *axes.index_rest)]
    update_order = (*rest, *axes.windows(axes.indexed), *axes.windows(axes.others))
    transposed = [written.shape[axis] for axis in order]
    width = _product(written.shape, axes.others)

    def restore(result: jax.Array) -> jax.Array:
        whole = jnp.transpose(result.reshape(transposed), np.argsort(order).tolist())
        if not _is_smaller(part, operand):
            return whole
        return lax.dynamic_update_slice(operand, whole, [0] * operand.ndim)

    size = _product(written.shape, (*axes.batch, *axes.indexed))
    return FlatScatter(
        operand=jnp.transpose(written, order).reshape(size, width),
        keys=rows,
        updates=jnp.transpose(updates, update_order).reshape(rows.shape[0], width),
        restore=restore,
    )


def free_axes(
    operand: Any, indices: Any, updates: Any, *, numbers: ScatterDimensionNumbers
) -> Axes:
    """Returns the axes along which devices may share a scatter: of batches, and of whole windows.

    Args:
        operand: The array that is written to, or its type.
        indices: The indices, or their type.
        updates: The windows, or their type.
        numbers: As ``lax.scatter`` takes them.
    """
    axes = _axes(operand, indices, updates, numbers)
    words = [["."] * each.ndim for each in (operand, indices, updates)]
    letters = iter(string.ascii_lowercase)
    for axis, of_indices in zip(axes.batch, axes.index_batch, strict=True):
        letter = next(letters)
        words[0][axis] = words[1][of_indices] = words[2][axes.of_index[of_indices]] = letter
    for axis in axes.others:
        if axis in axes.of_window and axes.extents[axis] == operand.shape[axis]:
            words[0][axis] = words[2][axes.of_window[axis]] = next(letters)
    of_operand, *others = map("".join, words)
    return Axes(f"{of_operand}, {', '.join(others)} -> {of_operand}")


def _axes(operand: Any, indices: Any, updates: Any, numbers: ScatterDimensionNumbers) -> _Axes:
    batch = tuple(numbers.operand_batching_dims)
    index_batch = tuple(numbers.scatter_indices_batching_dims)
    indexed = tuple(sorted(numbers.scatter_dims_to_operand_dims))
    hidden = {*numbers.inserted_window_dims, *batch}
    windowed = [axis for axis in range(operand.ndim) if axis not in hidden]
    of_window = dict(zip(windowed, numbers.update_window_dims, strict=True))
    return _Axes(
        batch=batch,
        indexed=indexed,
        others=tuple(a for a in range(operand.ndim) if a not in batch and a not in indexed),
        index_batch=index_batch,
        index_rest=tuple(a for a in range(indices.ndim - 1) if a not in index_batch),
        of_index=tuple(a for a in range(updates.ndim) if a not in numbers.update_window_dims),
        of_window=of_window,
        extents=tuple(
            updates.shape[of_window[axis]] if axis in of_window else 1
            for axis in range(operand.ndim)
        ),
    )


def _rows(
    operand: jax.Array,
    indices: jax.Array,
    numbers: ScatterDimensionNumbers,
    axes: _Axes,
    *,
    clip: bool,
) -> jax.Array:
    """Returns the row of each element of each window; int32, one axis."""
    starts = lax.transpose(indices, (*axes.index_batch, *axes.index_rest, indices.ndim - 1))
    batch = _product(indices.shape, axes.index_batch)
    starts = starts.reshape(batch, _product(indices.shape, axes.index_rest), -1)
    sizes = {axis: operand.shape[axis] for axis in axes.indexed}
    strides = {
        axis: math.prod(sizes[later] for later in axes.indexed if later > axis)
        for axis in axes.indexed
    }
    row = jnp.zeros(starts.shape[:2], jnp.int32)
    inside = jnp.ones(starts.shape[:2], bool)
    for column, axis in enumerate(numbers.scatter_dims_to_operand_dims):
        start = starts[:, :, column]
        # Where the last start does not fit into a narrow dtype of indices, no index can exceed it.
        last = min(sizes[axis] - axes.extents[axis], int(jnp.iinfo(start.dtype).max))
        within = (start >= 0) & (start <= last)
        if clip:
            start = lax.clamp(start.dtype.type(0), start, start.dtype.type(max(last, 0)))
        else:
            inside &= within
            start = lax.select(within, start, lax.full_like(start, 0))
        row += start.astype(jnp.int32) * strides[axis]
    offsets = np.zeros((1,) * len(axes.indexed), np.int32)
    for position, axis in enumerate(axes.indexed):
        shape = [-1 if other == position else 1 for other in range(len(axes.indexed))]
        offsets = offsets + np.arange(axes.extents[axis], dtype=np.int32).reshape(shape) * np.int32(
            strides[axis]
        )
    size = math.prod(sizes.values())
    first = size * lax.broadcasted_iota(jnp.int32, row.shape, 0)
    rows = (row + first)[:, :, None] + offsets.reshape(1, 1, -1)
    inside = lax.broadcast_in_dim(inside, rows.shape, (0, 1))
    return lax.select(inside, rows, lax.full_like(rows, batch * size)).reshape(-1)


def _clips(mode: Any) -> bool:
    return GatherScatterMode.from_any(mode) == GatherScatterMode.CLIP


def _is_smaller(part: tuple[slice, ...], operand: jax.Array) -> bool:
    return any(each.stop != size for each, size in zip(part, operand.shape, strict=True))


def _product(shape: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod(shape[axis] for axis in axes)
