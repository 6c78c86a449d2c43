"""Arrays of indices for several dimensions, as one flat index for the core primitives."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import countable, within, wrapped


@dataclasses.dataclass(frozen=True, eq=False)
class AxisIndex:
    """An array of indices along one axis.

    Attributes:
        axis: The axis.
        index: Integers of any shape, checked where they are known; negative ones count from the
            end.
        number: Whether it stands for an int, and has no say in where the result's dimensions are.
    """

    axis: int
    index: Array
    number: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class FlatIndex:
    """Where arrays of indices point: one index into the indexed axes, flattened together.

    The other axes are lanes, on both sides of them, so that whole rows are read and written.

    Attributes:
        shape: Shape of the array that is indexed.
        axes: Its indexed axes, in ascending order.
        before: How many of its other axes come before the dimensions of the index in the result.
        index_shape: Shape of the arrays of indices, broadcast.
        flat: One index for each element of ``index_shape``, in row-major order, shape [1, n, 1];
            outside [0, size) where an array of indices is out of range.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    before: int
    index_shape: tuple[int, ...]
    flat: jax.Array

    @property
    def others(self) -> list[int]:
        """The axes that are not indexed."""
        return [axis for axis in range(len(self.shape)) if axis not in self.axes]

    @property
    def order(self) -> list[int]:
        """All axes, the indexed ones together."""
        return [*self.others[: self.before], *self.axes, *self.others[self.before :]]

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of what is read or written."""
        lanes = [self.shape[axis] for axis in self.others]
        return (*lanes[: self.before], *self.index_shape, *lanes[self.before :])

    def fold(self, array: jax.Array) -> jax.Array:
        """An array of ``shape`` as [outer, size, inner]."""
        size = math.prod(self.shape[axis] for axis in self.axes)
        return self._three_axes(array.transpose(self.order), size)

    def unfold(self, folded: jax.Array) -> jax.Array:
        """The inverse of ``fold``."""
        ordered = folded.reshape([self.shape[axis] for axis in self.order])
        return ordered.transpose([self.order.index(axis) for axis in range(len(self.order))])

    def spread(self, values: jax.Array) -> jax.Array:
        """Values that broadcast to ``result_shape`` as [outer, n, inner]."""
        return self._three_axes(jnp.broadcast_to(values, self.result_shape), self.flat.shape[1])

    def _three_axes(self, array: jax.Array, middle: int) -> jax.Array:
        lanes = [self.shape[axis] for axis in self.others]
        return array.reshape(
            math.prod(lanes[: self.before]), middle, math.prod(lanes[self.before :])
        )


def flat_index(function: str, shape: tuple[int, ...], along: Sequence[AxisIndex]) -> FlatIndex:
    """Brings arrays of indices together, at least one, by ascending axis.

    Their dimensions stand in the result where the indexed axes were if these are neighbours, and
    in front if not. Indices that stand for an int are gone by then.

    Raises:
        IndexError: The arrays do not broadcast.
    """
    axes = tuple(one.axis for one in along)
    return FlatIndex(
        shape=shape,
        axes=axes,
        before=_lanes_before(len(shape), along),
        index_shape=_broadcast(function, [np.shape(one.index) for one in along]),
        flat=_flat(along, [shape[axis] for axis in axes]),
    )


def _lanes_before(ndim: int, along: Sequence[AxisIndex]) -> int:
    numbers = [one.axis for one in along if one.number]
    arrays = [one.axis for one in along if not one.number]
    left = [axis for axis in range(ndim) if axis not in numbers]
    spots = [left.index(axis) for axis in arrays]
    if spots and spots[-1] - spots[0] >= len(spots):
        return 0
    first = (arrays or numbers)[0]
    return sum(axis < first for axis in left)


def _broadcast(function: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise IndexError(
            f"{function}(): shape mismatch: indexing arrays could not be broadcast together with "
            f"shapes {listed}"
        ) from None


def _flat(along: Sequence[AxisIndex], sizes: list[int]) -> jax.Array:
    """One index for all axes; past the last element where one of them is out of range."""
    total = math.prod(sizes)
    dtype = countable(total)
    known = [arguments.known(one.index) for one in along]
    values = [index for index in known if index is not None]
    if len(values) == len(known):
        # Checked, so in range; computed here, nothing is compiled.
        counted = [
            np.where(i < 0, i + size, i).astype(np.int64)
            for i, size in zip(values, sizes, strict=True)
        ]
        return jnp.asarray(_offset(counted, sizes).astype(dtype)).reshape(1, -1, 1)
    traced = [
        within(wrapped(jnp.asarray(one.index), size), size)
        for one, size in zip(along, sizes, strict=True)
    ]
    inside = [i < size for i, size in zip(traced, sizes, strict=True)]
    offset = _offset([i.astype(dtype) for i in traced], sizes)
    return jnp.where(functools.reduce(operator.and_, inside), offset, total).reshape(1, -1, 1)


def _offset(indices: list[Any], sizes: list[int]) -> Any:
    """The index into axes of these sizes, flattened together; of NumPy or of JAX."""
    steps = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return functools.reduce(
        operator.add, [i * step for i, step in zip(indices, steps, strict=True)]
    )
