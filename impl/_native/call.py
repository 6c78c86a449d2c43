"""The results of an operation of the engine ``native``, on the devices that it is traced for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from impl._native import devices, partitioned, scope
from impl._native.operation import Operation, Summing


def computed(
    operation: Operation, operands: Sequence[jax.Array], axis_names: Sequence[Any] = ()
) -> jax.Array | None:
    """Returns the results of an operation; None if the engine cannot share it among the devices.

    Args:
        operation: The operation.
        operands: The operands; the devices along ``axis_names`` have operands of their own.
        axis_names: The mesh axes of a ``shard_map`` over which terms of a sum are sharded.
    """
    result = jax.eval_shape(operation.nearest, *operands)
    if result.size == 0 or (isinstance(operation, Summing) and 0 in map(_size, operands)):
        return None
    number = scope.devices()
    if axis_names:
        # XLA partitions the axes that a shard_map leaves to it, in another way.
        if number > 1 or not isinstance(operation, Summing):
            return None
        return devices.add_exactly(operation, operands, devices.AxesOfMesh(tuple(axis_names)))
    if number > 1:
        return partitioned.call(operation, operands, number)
    return operation.nearest(*operands)


def _size(operand: jax.Array) -> int:
    return operand.size
