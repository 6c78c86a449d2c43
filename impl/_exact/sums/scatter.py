"""A scatter that adds in the spec's order ``nearest``, in any form of ``lax.scatter_add``.

A result is the exact sum of a destination's terms, rounded once. XLA scatters parts of all terms,
in any order, by atomics, and over devices; float64 adds the parts without error
(``nearest.exact_sum``)::

    updates               3, 0.25, 1, -2**-80       to destinations 0, 0, 1, 1
    multiples of 2**-45   3, 0.25, 1, 0             sums 3.25, 1
    multiples of 2**-93   0, 0, 0, -2**-80          sums 0, -2**-80
    results               3.25, 1

The scatter has two forms: the form of the caller, which XLA may partition, and which sums over the
axes of a mesh; and rows on one GPU. The last axes that each window covers whole form a row, and the
other axes have one coordinate for each update. A row of the operand then has one number, and no
array is transposed. For an operand of shape [5, 4, 8] and windows of shape [1, 1, 8], a row has 8
elements, and the update at (i, j) goes to row 4 * i + j. The number 20 stands for an update that is
dropped. Destinations that get many updates have replicas (``replicas``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode, ScatterDimensionNumbers

from impl._core.devices import Devices
from impl._core.shard_axes import aligned
from impl._exact.nearest.exact_sum import Addition
from impl._exact.sums.replicas import Replicas
from impl._native import scatters as native
from impl._native.scope import or_native

#: Where the scatter runs: on devices that XLA may partition it for, on one device, or on one CPU.
Target = Literal["anywhere", "device", "cpu"]


@or_native(native.scatter_add)
def scatter_add(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    mode: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    subtract: bool = False,
    target: Target = "anywhere",
    axis_names: Sequence[Any] = (),
) -> jax.Array:
    """Returns the operand with updates added to it, as ``lax.scatter_add`` does.

    Args:
        operand: float16, bfloat16, float32 or float64, any shape.
        indices: Integers, as ``lax.scatter_add`` takes them.
        updates: The dtype of ``operand``.
        dimension_numbers: As ``lax.scatter_add`` takes them.
        mode: As ``lax.scatter_add`` takes it.
        indices_are_sorted: Whether they are; nothing checks it.
        unique_indices: Whether no two updates have one destination; nothing checks it.
        subtract: Whether the updates are subtracted.
        target: Where the scatter runs. Each value gives the same bits. XLA may partition a scatter
            for ``"anywhere"`` alone.
        axis_names: The mesh axes of a ``shard_map`` to sum over: operands and updates of all
            devices are added in one sum.

    ``lax.scatter_add`` has the parameters up to ``unique_indices`` too. The other parameters choose
    the algorithm.

    Returns:
        Shape and dtype of ``operand``.
    """
    if operand.size == 0:
        return operand
    operand, indices, updates = aligned(operand, indices, updates)
    updates = lax.neg(updates) if subtract else updates
    if target == "device" and not axis_names:
        keys = keys_of(operand, indices, updates, dimension_numbers, mode)
        if keys is not None:
            return added(operand, keys, updates, unique=unique_indices)
    devices = Devices(tuple(axis_names))

    def add(operand: jax.Array, updates: jax.Array) -> jax.Array:
        total = lax.scatter_add(
            operand,
            indices,
            updates,
            dimension_numbers,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
        )
        return devices.sum(total)

    batch = dimension_numbers.scatter_indices_batching_dims
    sizes = [size for axis, size in enumerate(indices.shape[:-1]) if axis not in batch]
    # Each window writes an element at most once.
    count = (1 if unique_indices else math.prod(sizes)) + 1
    how = Addition(add, count * devices.number, devices)
    return how.rounded(operand.dtype, operand, updates)


#: Larger arrays may need row numbers of 64 bits.
_MOST = 2**31 - 2**18


def added(
    operand: jax.Array, keys: jax.Array, updates: jax.Array, *, unique: bool = False
) -> jax.Array:
    """Returns an operand with rows added to it, in the spec's order ``nearest``.

    Args:
        operand: float16, bfloat16, float32 or float64.
        keys: As ``keys_of`` returns them.
        updates: Rows of floats.
        unique: Whether no two updates have one destination.
    """
    n = keys.size
    width = updates.size // n
    shape = () if width == 1 else (width,)
    rows, updates = (each.reshape(-1, *shape) for each in (operand, updates))
    replicas = Replicas.of(keys, rows.shape[0], width=width, unique=unique)
    how = Addition(replicas.add, 2 if unique else n + 1)
    return how.rounded(operand.dtype, rows, updates).reshape(operand.shape)


def keys_of(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    numbers: ScatterDimensionNumbers,
    mode: Any,
) -> jax.Array | None:
    """Returns, for each row of updates, the number of the operand's row that it is added to.

    Args:
        operand: The array that is added to.
        indices: As ``lax.scatter_add`` takes them.
        updates: The windows.
        numbers: The dimension numbers.
        mode: The treatment of windows that are out of bounds.

    Returns:
        int32, shape [n]. An update that is dropped has the number of rows of the operand. None if
        the arrays are too large, or if there are no updates.
    """
    if max(operand.size, updates.size) > _MOST or updates.size == 0:
        return None
    indexed = list(numbers.scatter_dims_to_operand_dims)
    batch = list(numbers.operand_batching_dims)
    hidden = {*numbers.inserted_window_dims, *batch}
    windowed = [axis for axis in range(operand.ndim) if axis not in hidden]
    window = dict(zip(windowed, numbers.update_window_dims, strict=True))
    row_rank = _row_rank(operand, updates, indexed, window)
    outer = updates.shape[: updates.ndim - row_rank]
    index_axes = [axis for axis in range(updates.ndim) if axis not in numbers.update_window_dims]
    rows, inside = lax.full(outer, 0, np.int32), lax.full(outer, True)
    for axis, length in enumerate(operand.shape[: operand.ndim - row_rank]):
        coordinate = lax.full(outer, 0, np.int32)
        if axis in indexed:
            start = indices[..., indexed.index(axis)]
            last = length - (updates.shape[window[axis]] if axis in window else 1)
            if GatherScatterMode.from_any(mode) == GatherScatterMode.CLIP:
                start = start.clip(0, last)
            is_inside = (start >= 0) & (start <= last)
            inside = lax.bitwise_and(inside, lax.broadcast_in_dim(is_inside, outer, index_axes))
            coordinate = lax.broadcast_in_dim(start.astype(np.int32), outer, index_axes)
        if axis in batch:
            batch_axis = numbers.scatter_indices_batching_dims[batch.index(axis)]
            coordinate = lax.broadcasted_iota(np.int32, outer, index_axes[batch_axis])
        if axis in window:
            offset = lax.broadcasted_iota(np.int32, outer, window[axis])
            coordinate = lax.add(coordinate, offset)
        rows = lax.add(lax.mul(rows, lax.full_like(rows, length)), coordinate)
    size = math.prod(operand.shape[: operand.ndim - row_rank])
    return lax.select(inside, rows, lax.full_like(rows, size)).reshape(-1)


def _row_rank(
    operand: jax.Array, updates: jax.Array, indexed: Sequence[int], window: dict[int, int]
) -> int:
    """Returns how many axes, from the last on, each window covers whole."""
    count = 0
    while count < operand.ndim:
        axis, update_axis = operand.ndim - 1 - count, updates.ndim - 1 - count
        is_whole = window.get(axis) == update_axis and axis not in indexed
        if not is_whole or operand.shape[axis] != updates.shape[update_axis]:
            break
        count += 1
    return count
