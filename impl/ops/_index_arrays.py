"""Arrays of indices for several dimensions, combined to one flat index for the core primitives."""

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
from impl._core.axes import index_dtype, within, wrapped
from impl._core.lax_functions import where


@dataclasses.dataclass(frozen=True, eq=False)
class AxisIndex:
    """An array of indices along one axis.

    Attributes:
        axis: The axis.
        index: Integers of any shape, checked where they are known; negative ones count from the
            end.
        number: Whether it stands for an int, which does not affect the order of the result's
            dimensions.
    """

    axis: int
    index: Array
    number: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class FlatIndex:
    """One index into the indexed axes of an array, flattened to one axis.

    The other axes are folded into an outer and an inner axis, so that whole rows are read and
    written.

    Attributes:
        shape: Shape of the array that is indexed.
        axes: Its indexed axes, in ascending order.
        before: Number of the other axes that come before the dimensions of the index in the result.
        index_shape: Shape to which the arrays of indices broadcast.
        flat: One index for each element of ``index_shape``, in row-major order, shape [1, n, 1].
            Where an array of indices is out of range, it is outside [0, size).
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
        """All axes, with the indexed ones next to each other."""
        return [*self.others[: self.before], *self.axes, *self.others[self.before :]]

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the elements that are read or written."""
        lengths = [self.shape[axis] for axis in self.others]
        return (*lengths[: self.before], *self.index_shape, *lengths[self.before :])

    def fold(self, array: jax.Array) -> jax.Array:
        """Returns an array of ``shape`` as [outer, size, inner]."""
        size = math.prod(self.shape[axis] for axis in self.axes)
        return self._three_axes(array.transpose(self.order), size)

    def unfold(self, folded: jax.Array) -> jax.Array:
        """Returns an array of ``shape`` from [outer, size, inner]: the inverse of ``fold``."""
        ordered = folded.reshape([self.shape[axis] for axis in self.order])
        return ordered.transpose([self.order.index(axis) for axis in range(len(self.order))])

    def spread(self, values: jax.Array) -> jax.Array:
        """Returns values, broadcast to ``result_shape``, as [outer, n, inner]."""
        return self._three_axes(jnp.broadcast_to(values, self.result_shape), self.flat.shape[1])

    def _three_axes(self, array: jax.Array, middle: int) -> jax.Array:
        lengths = [self.shape[axis] for axis in self.others]
        return array.reshape(
            math.prod(lengths[: self.before]), middle, math.prod(lengths[self.before :])
        )


def flat_index(function: str, shape: tuple[int, ...], indices: Sequence[AxisIndex]) -> FlatIndex:
    """Combines arrays of indices, at least one, in ascending order of axes.

    As in NumPy, their dimensions replace the indexed axes in the result if these are neighbours,
    and come first if they are not. An index that stands for an int removes its axis before that.

    Raises:
        IndexError: The arrays do not broadcast.
    """
    axes = tuple(index.axis for index in indices)
    return FlatIndex(
        shape=shape,
        axes=axes,
        before=_axes_before(len(shape), indices),
        index_shape=_broadcast(function, [np.shape(index.index) for index in indices]),
        flat=_flat(indices, [shape[axis] for axis in axes]),
    )


def _axes_before(ndim: int, indices: Sequence[AxisIndex]) -> int:
    numbers = [index.axis for index in indices if index.number]
    arrays = [index.axis for index in indices if not index.number]
    remaining = [axis for axis in range(ndim) if axis not in numbers]
    positions = [remaining.index(axis) for axis in arrays]
    if positions and positions[-1] - positions[0] >= len(positions):
        return 0
    first = (arrays or numbers)[0]
    return sum(axis < first for axis in remaining)


def _broadcast(function: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise IndexError(
            f"{function}(): shape mismatch: indexing arrays could not be broadcast together with "
            f"shapes {listed}"
        ) from None


def _flat(indices: Sequence[AxisIndex], sizes: list[int]) -> jax.Array:
    """Returns one index for all axes; past the last element where one of them is out of range."""
    total = math.prod(sizes)
    dtype = index_dtype(total)
    known = [arguments.if_known(index.index) for index in indices]
    values = [index for index in known if index is not None]
    if len(values) == len(known):
        # The caller has checked the range. NumPy computes the index, so that nothing is compiled.
        wrapped_values = [
            np.where(i < 0, i + size, i).astype(np.int64)
            for i, size in zip(values, sizes, strict=True)
        ]
        return jnp.asarray(_offset(wrapped_values, sizes).astype(dtype)).reshape(1, -1, 1)
    shape = np.broadcast_shapes(*(np.shape(index.index) for index in indices))
    traced = [
        jnp.broadcast_to(within(wrapped(jnp.asarray(index.index), size), size), shape)
        for index, size in zip(indices, sizes, strict=True)
    ]
    if len(traced) == 1:
        return traced[0].astype(dtype).reshape(1, -1, 1)
    inside = [i < size for i, size in zip(traced, sizes, strict=True)]
    offset = _offset([i.astype(dtype) for i in traced], sizes)
    return where(functools.reduce(operator.and_, inside), offset, total).reshape(1, -1, 1)


def _offset(indices: list[Any], sizes: list[int]) -> Any:
    """Returns the row-major index into axes of these sizes, from NumPy's or JAX's arrays."""
    steps = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return functools.reduce(
        operator.add, [i * step for i, step in zip(indices, steps, strict=True)]
    )
