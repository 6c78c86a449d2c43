"""The results of an operation of the engine ``native``, on the devices that it is traced for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
from jax import lax

from impl._core.devices import Devices
from impl._jax import lowering
from impl._native import devices, partitioned, scope
from impl._native.operation import Operation, Summing

#: An operation and its operands.
Found: TypeAlias = tuple[Summing, Sequence[jax.Array]]


def computes(operation: Callable[..., Found | None]) -> Callable[..., jax.Array | None]:
    """Returns the function that computes an operation, or returns None if the engine has no call.

    Args:
        operation: Takes the operands, and parameters by their names. The function takes
            ``axis_names`` too (``computed``).
    """

    @functools.wraps(operation)
    def compute(*operands: Any, axis_names: Sequence[Any] = (), **params: Any) -> jax.Array | None:
        found = operation(*operands, **params)
        return None if found is None else computed(*found, axis_names)

    return compute


def computed(
    operation: Operation, operands: Sequence[jax.Array], axis_names: Sequence[Any] = ()
) -> jax.Array | None:
    """Returns the results of an operation; None if the engine cannot share it among the devices.

    Args:
        operation: The operation.
        operands: The operands; the devices along ``axis_names`` have operands of their own.
        axis_names: The mesh axes of a ``shard_map`` over which terms of a sum are sharded.
    """
    if 0 in (size for each in operands for size in each.shape):
        if not isinstance(operation, Summing) or operation.once:
            return None
        empty = operation.call(*operands).result
        return lax.full(empty.shape, 0, empty.dtype)
    number = scope.devices()
    if axis_names:
        # XLA partitions the axes that a shard_map leaves to it, in another way.
        if number > 1 or not isinstance(operation, Summing):
            return None
        group = Devices(tuple(axis_names))
        add = lowering.native(lambda *own: devices.add_exactly(operation, own, group))
        result: jax.Array = add(*operands)
        return result
    return partitioned.call(operation, operands, number)
