"""The dimensions of a product, and the lines of its operands that make an element."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.shard_axes import Devices

#: The contracted dimensions of both operands, and the batch dimensions, as ``jax.lax`` has them.
DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


@dataclasses.dataclass(frozen=True)
class Layout:
    """The dimensions of a product.

    Attributes:
        numbers: The dimension numbers of ``jax.lax``.
        lhs_shape: The shape of the left operand.
        rhs_shape: The shape of the right operand.
        lhs_free: The free dimensions of ``lhs``: neither contracted nor batch dimensions.
        rhs_free: The free dimensions of ``rhs``.
        devices: The devices that share the sums.
    """

    numbers: DimensionNumbers
    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    lhs_free: tuple[int, ...]
    rhs_free: tuple[int, ...]
    devices: Devices

    @classmethod
    def of(
        cls, lhs: Sequence[int], rhs: Sequence[int], numbers: DimensionNumbers, devices: Devices
    ) -> Layout:
        (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = numbers
        lhs_free = tuple(d for d in range(len(lhs)) if d not in {*lhs_sum, *lhs_batch})
        rhs_free = tuple(d for d in range(len(rhs)) if d not in {*rhs_sum, *rhs_batch})
        return cls(numbers, tuple(lhs), tuple(rhs), lhs_free, rhs_free, devices)

    @property
    def local_terms(self) -> int:
        """The number of terms of each sum on a device."""
        return math.prod(self.lhs_shape[d] for d in self.numbers[0][0])

    @property
    def terms(self) -> int:
        """The number of terms of each sum, on all devices that share it."""
        return self.local_terms * self.devices.number

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        (_, _), (batch, _) = self.numbers
        lhs = [self.lhs_shape[d] for d in (*batch, *self.lhs_free)]
        return (*lhs, *(self.rhs_shape[d] for d in self.rhs_free))

    @property
    def most_parts(self) -> int:
        """The number of results whose sizes add up to a quarter of the operands."""
        operands = math.prod(self.lhs_shape) + math.prod(self.rhs_shape)
        return max(1, operands // (4 * math.prod(self.shape)))

    def lhs_in_result(self, lhs: jax.Array) -> jax.Array:
        """Broadcasts a value of each row of ``lhs`` to the shape of the result."""
        order = [*self.numbers[1][0], *self.lhs_free]
        return self._in_result(lhs, order, range(len(order)))

    def rhs_in_result(self, rhs: jax.Array) -> jax.Array:
        """Broadcasts a value of each column of ``rhs`` to the shape of the result."""
        batch, rank = self.numbers[1][1], len(self.shape)
        places = [*range(len(batch)), *range(rank - len(self.rhs_free), rank)]
        return self._in_result(rhs, [*batch, *self.rhs_free], places)

    def _in_result(
        self, value: jax.Array, order: Sequence[int], places: Sequence[int]
    ) -> jax.Array:
        """Broadcasts an array with the axes of an operand in ``order``, ascending."""
        moved = lax.transpose(value, [sorted(order).index(axis) for axis in order])
        return lax.broadcast_in_dim(moved, self.shape, tuple(places))

    def lines(
        self, lhs: jax.Array, rhs: jax.Array, position: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the rows and the columns, [elements, terms], of flat positions of the result."""
        (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = self.numbers
        index = _unravelled(position, self.shape)
        batch, of_lhs = len(lhs_batch), len(lhs_batch) + len(self.lhs_free)
        of_rhs = index[:, of_lhs:]
        if batch:
            of_rhs = lax.concatenate([index[:, :batch], of_rhs], 1)
        left = _rows(lhs, [*lhs_batch, *self.lhs_free], index[:, :of_lhs], lhs_sum)
        return left, _rows(rhs, [*rhs_batch, *self.rhs_free], of_rhs, rhs_sum)


def _unravelled(position: jax.Array, shape: Sequence[int]) -> jax.Array:
    """Returns the indices of positions in a flat array, shape [positions, axes]."""
    apart: list[Any] = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        apart[axis - 1] = apart[axis] * shape[axis]
    wide = (position.size, len(shape))
    steps, sizes = (lax.broadcast_in_dim(_integers(each), wide, (1,)) for each in (apart, shape))
    return lax.rem(lax.div(lax.broadcast_in_dim(position, wide, (0,)), steps), sizes)


def _integers(values: Sequence[Any]) -> Any:
    """Returns sizes as int32; a symbolic size (jax.export) is no int, but an array can have it."""
    if all(isinstance(value, int) for value in values):
        return np.array(values, np.int32)
    return jnp.stack([jnp.asarray(value, np.int32) for value in values])


def _rows(
    operand: jax.Array, kept: Sequence[int], index: jax.Array, summed: Sequence[int]
) -> jax.Array:
    """Returns the elements along ``summed`` at indices of the dimensions ``kept``, as rows."""
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(1, 1 + len(summed))),
        collapsed_slice_dims=tuple(sorted(kept)),
        start_index_map=tuple(kept),
    )
    sizes = [1 if d in kept else size for d, size in enumerate(operand.shape)]
    found = lax.gather(operand, index, numbers, sizes, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)
    order = sorted(summed)
    found = lax.transpose(found, (0, *(1 + order.index(d) for d in summed)))
    return lax.reshape(found, (index.shape[0], math.prod(found.shape[1:])))
