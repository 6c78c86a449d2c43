"""Sums over axes, over devices, and along an axis, in the spec's order ``nearest``.

``impl._exact.nearest.sums`` adds the terms. The functions here say how: by one sum of float64, and
by a maximum and a minimum of magnitudes. None depends on an order, so XLA may partition them.

For an array of float32 with two rows::

    x                      [[1, 2**-24, 2**-60], [3, 4, 5]]
    reduce_sum(x, (1,))    [1 + 2**-23, 12]
    cumsum(x, 1)           [[1, 1, 1 + 2**-23], [3, 7, 12]]
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import lax

from impl._exact.nearest import trees
from impl._exact.nearest.any_sums import rounded_sums
from impl._exact.nearest.sums import Measured, Sums
from impl._exact.nearest.trees import Tree
from impl._native import sums as native
from impl._native.scope import or_native

#: The names of mesh axes.
Names: TypeAlias = Sequence[Any]
#: Groups of indices along a named axis; each group has a sum of its own.
Groups: TypeAlias = Sequence[Sequence[int]] | None


@dataclasses.dataclass(frozen=True)
class _Devices:
    """The devices of a ``shard_map`` that share sums.

    Attributes:
        names: The mesh axes to sum over.
        groups: As ``lax.psum`` takes them.
        number: The number of devices that share a sum.
    """

    names: tuple[Any, ...]
    groups: Groups
    number: int

    @classmethod
    def of(cls, names: Names, groups: Groups) -> _Devices:
        return cls(tuple(names), groups, _members(names, groups) if names else 1)

    def sum(self, value: jax.Array) -> jax.Array:
        return self._reduced(lax.psum, value)

    def sums(
        self, value: jax.Array, magnitudes: jax.Array | None
    ) -> tuple[jax.Array, jax.Array | None]:
        return self.sum(value), None if magnitudes is None else self.sum(magnitudes)

    def max(self, value: jax.Array) -> jax.Array:
        return self._reduced(lax.pmax, value)

    def min(self, value: jax.Array) -> jax.Array:
        return self._reduced(lax.pmin, value)

    def _reduced(self, over: Callable[..., jax.Array], value: jax.Array) -> jax.Array:
        return over(value, self.names, axis_index_groups=self.groups) if self.names else value


#: The least length of a partitioned axis whose running sums are computed by blocks.
_LONG = 1024


@or_native(native.reduce_sum)
def reduce_sum(
    x: jax.Array,
    axes: Sequence[int],
    dtype: jax.typing.DTypeLike | None = None,
    *,
    axis_names: Names = (),
    axis_index_groups: Groups = None,
    at_once: bool = False,
) -> jax.Array:
    """Returns the sum over axes and over named axes, rounded once.

    Args:
        x: float16, bfloat16, float32 or float64, any shape.
        axes: The axes to sum over.
        dtype: The dtype of the result; None for the dtype of ``x``.
        axis_names: The mesh axes of a ``shard_map`` to sum over.
        axis_index_groups: As ``lax.psum`` takes them.
        at_once: Whether one reduction may compute all that is needed of the terms: not if XLA may
            partition the axes, nor if rules of the mode lower its equations.

    Returns:
        Shape of ``x`` without ``axes``. If there is nothing to sum over, ``x`` itself.
    """
    dtype = x.dtype if dtype is None else dtype
    if not axes and not axis_names:
        return lax.convert_element_type(x, dtype)
    axes = sorted(axis % x.ndim for axis in axes)
    if x.size == 0:
        shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
        return lax.full(shape, 0, dtype)
    devices = _Devices.of(axis_names, axis_index_groups)
    tree = Tree.of(x.shape, axes, dtype, at_once=at_once)

    def measured(terms: jax.Array) -> Measured:
        found = trees.measured(terms, tree)
        value, magnitudes = devices.sums(found.value, found.magnitudes)
        return Measured(value, devices.max(found.top), devices.min(found.last), magnitudes)

    how = Sums(
        math.prod(x.shape[axis] for axis in axes) * devices.number,
        add=lambda terms: devices.sum(lax.reduce_sum(terms, tree.axes)),
        greatest=lambda magnitudes: devices.max(lax.reduce_max(magnitudes, tree.axes)),
        least=lambda magnitudes: devices.min(lax.reduce_min(magnitudes, tree.axes)),
        chains=None if tree.chains is None else (tree.chains[0], tree.chains[1] + devices.number),
        in_stages=lambda terms: devices.sums(*trees.reduce_sum(terms, tree)),
        at_once=measured if at_once and axes else None,
    )
    return rounded_sums(x if tree.shape == x.shape else x.reshape(tree.shape), dtype, how)


def psum(x: jax.Array, axis_names: Names, axis_index_groups: Groups = None) -> jax.Array:
    """Returns the sum of ``x`` over named axes.

    Args:
        x: float16, bfloat16, float32 or float64, any shape.
        axis_names: The mesh axes of a ``shard_map``.
        axis_index_groups: As ``lax.psum`` takes them.

    Returns:
        Shape and dtype of ``x``.
    """
    return reduce_sum(x, (), axis_names=axis_names, axis_index_groups=axis_index_groups)


def reduce_scatter(
    x: jax.Array,
    axis_name: Any,
    *,
    scatter_dimension: int,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> jax.Array:
    """Returns one part of the sum of ``x`` over a named axis, as ``lax.psum_scatter`` does.

    Args:
        x: float16, bfloat16, float32 or float64.
        axis_name: The mesh axis, or several.
        scatter_dimension: The axis of ``x`` of which each device gets a part.
        axis_index_groups: As ``lax.psum_scatter`` takes them.
        tiled: Whether the axis stays, with a part of its elements.

    Returns:
        The device's part of the sum, of the dtype of ``x``.
    """
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    groups = axis_index_groups

    def scattered(value: jax.Array) -> jax.Array:
        part: jax.Array = lax.psum_scatter(
            value,
            axis_name,
            scatter_dimension=scatter_dimension,
            axis_index_groups=groups,
            tiled=tiled,
        )
        return part

    devices = _Devices.of(names, groups)

    def own_part(value: jax.Array) -> jax.Array:
        # All devices have the same value, so a sum over the devices is ``number`` times it.
        times = scattered(value)
        return lax.div(times, lax.full_like(times, devices.number))

    how = Sums(
        devices.number,
        add=scattered,
        greatest=devices.max,
        least=devices.min,
        to_sums=own_part,
        # Each device has other sums, and all of them go on together.
        over_devices=devices.max,
    )
    return rounded_sums(x, x.dtype, how)


@or_native(native.cumsum)
def cumsum(
    x: jax.Array, axis: int, *, reverse: bool = False, is_partitioned: bool = False
) -> jax.Array:
    """Returns the running sums along an axis.

    Args:
        x: float16, bfloat16, float32 or float64.
        axis: The axis.
        reverse: Whether the sums start at the end.
        is_partitioned: Whether XLA may partition the axis over devices.

    Returns:
        Shape and dtype of ``x``.
    """
    if x.size == 0:
        return x
    axis %= x.ndim
    # A bounded symbolic size (jax.export) is refused here: XLA calls no such program, because the
    # windows of running sums of digits are as long as the axis ("Error refining shapes").
    is_long = operator.index(x.shape[axis]) >= _LONG
    add = _running_in_blocks if is_partitioned and is_long else lax.cumsum
    how = Sums(
        x.shape[axis],
        add=lambda terms: add(terms, axis, reverse=reverse),
        greatest=lambda magnitudes: lax.reduce_max(magnitudes, (axis,)),
        least=lambda magnitudes: lax.reduce_min(magnitudes, (axis,)),
        to_sums=functools.partial(along, shape=x.shape, without=(axis,)),
    )
    return rounded_sums(x, x.dtype, how)


def _running_in_blocks(digit: jax.Array, axis: int, *, reverse: bool) -> jax.Array:
    """Returns running sums of integers: sums within a block, plus sums of the blocks before.

    Along a partitioned axis, XLA adds all terms before an element anew for each element: an axis of
    four times the length takes sixteen times as long. Here an element takes the terms of its block
    and the sums of the blocks before, which are about as many as the square root of the length.
    """
    *before, length = digit.shape[: axis + 1]
    after = digit.shape[axis + 1 :]
    size = 1 << (length.bit_length() // 2)
    count = -(-length // size)
    missing = [(0, count * size - length if each == axis else 0, 0) for each in range(digit.ndim)]
    padded = lax.pad(digit, lax.full((), 0, digit.dtype), missing)
    blocks = lax.reshape(padded, (*before, count, size, *after))
    within = lax.cumsum(blocks, axis + 1, reverse=reverse)
    ends = lax.index_in_dim(within, 0 if reverse else size - 1, axis + 1)
    # The sum of a block must not count for the block itself. Subtracting it would make NaN of an
    # infinity, so the sums of blocks move by one block instead.
    step = (-1, 1, 0) if reverse else (1, -1, 0)
    moves = [step if each == axis else (0, 0, 0) for each in range(ends.ndim)]
    others = lax.cumsum(lax.pad(ends, lax.full((), 0, ends.dtype), moves), axis, reverse=reverse)
    whole = lax.reshape(
        lax.add(within, lax.broadcast_in_dim(others, within.shape, range(within.ndim))),
        padded.shape,
    )
    return lax.slice_in_dim(whole, 0, length, axis=axis)


def along(value: jax.Array, shape: Sequence[int], *, without: Sequence[int]) -> jax.Array:
    """Returns ``value``, which lacks some axes of ``shape``, repeated along these axes."""
    own_axes = [axis for axis in range(len(shape)) if axis not in without]
    return lax.broadcast_in_dim(value, tuple(shape), own_axes)


def _members(axis_names: Names, groups: Groups) -> int:
    """Returns how many devices are summed over."""
    if groups is not None:
        return max(map(len, groups))
    return int(np.prod([lax.axis_size(name) for name in axis_names], dtype=np.int64))
