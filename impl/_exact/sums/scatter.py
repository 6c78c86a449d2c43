"""A scatter that adds in the spec's order ``nearest``, in any form of ``lax.scatter_add``.

A result is the exact sum of a destination's terms, rounded once. XLA scatters parts of all terms,
in any order, by atomics, and over devices; float64 adds the parts without error
(``nearest.exact_sum``)::

    updates               3, 0.25, 1, -2**-80       to destinations 0, 0, 1, 1
    multiples of 2**-45   3, 0.25, 1, 0             sums 3.25, 1
    multiples of 2**-93   0, 0, 0, -2**-80          sums 0, -2**-80
    results               3.25, 1

No kernel is needed: XLA's scatter of float64 is one relaxed reduction for each update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
from jax import lax
from jax.lax import ScatterDimensionNumbers

from impl._core.shard_axes import Devices, aligned
from impl._exact.nearest.exact_sum import Addition
from impl._native import scatters as native
from impl._native.scope import or_native


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
        axis_names: The mesh axes of a ``shard_map`` to sum over: operands and updates of all
            devices are added in one sum.

    Returns:
        Shape and dtype of ``operand``.
    """
    if operand.size == 0:
        return operand
    operand, indices, updates = aligned(operand, indices, updates)
    updates = lax.neg(updates) if subtract else updates
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
