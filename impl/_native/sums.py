"""Sums over axes, running sums, and sums of arrays, as calls of the engine ``native``.

The C++ takes a row-major array whose axes are kept and summed by turns, a kept one first, so that
neighbours of one kind are merged::

    shape (2, 3, 4, 5)      over (1, 2)     sizes 2 12 5
                            over (0, 3)     sizes 1 2 12 5
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.shard_axes import Devices, Groups
from impl._jax.shardings import Names
from impl._native import scope
from impl._native.call import Found, computed
from impl._native.operation import (
    Call,
    Elementwise,
    Operation,
    Summing,
    are_ascending,
    longs,
    names,
    takes,
)

#: The least number of elements for each device where devices share a sum of arrays.
_FEW = 64
#: The most sizes that the C++ takes: twice ``Axes::kMost`` of ``src/reduction.h``.
_MOST_SIZES = 32
#: The most arrays that ``add`` adds: ``kMostParts`` of ``src/parts.cc``.
_MOST_PARTS = 256


def by_turns(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    """Returns the sizes of kept and of summed axes by turns, a kept one first."""
    sizes, is_summed = [1], False
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        if (axis in axes) == is_summed:
            sizes[-1] *= size
        else:
            sizes.append(size)
            is_summed = not is_summed
    return sizes if len(sizes) > 1 else [*sizes, 1]


@dataclasses.dataclass(frozen=True)
class Reduction(Summing):
    """The sums of an array over axes.

    Attributes:
        axes: The summed axes, in order.
        rank: The number of axes of the array.
        dtype: The dtype of the result.
    """

    axes: tuple[int, ...]
    rank: int
    dtype: Any

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        return (names(self.rank),)

    @property
    def result(self) -> Names:  # type: ignore[override]
        return tuple(self._without_axes(names(self.rank)))

    has_cheap_digits = True
    _name = "samebits_reduce"
    reads_sources = True

    def reading(self, *axes: Sequence[int]) -> Reduction | None:
        (own,) = axes
        if not are_ascending(self._without_axes(own)):
            return None
        summed = tuple(sorted(own[axis] for axis in self.axes))
        return dataclasses.replace(self, axes=summed)

    def layout(self, *operands: Sequence[int]) -> tuple[tuple[int, ...], dict[str, Any]]:
        (shape,) = operands
        return tuple(self._without_axes(shape)), {"sizes": longs(by_turns(shape, self.axes))}

    def _without_axes(self, values: Sequence[Any]) -> list[Any]:
        return [value for axis, value in enumerate(values) if axis not in self.axes]


def reduce_sum(
    x: jax.Array,
    axes: Sequence[int],
    dtype: jax.typing.DTypeLike | None = None,
    *,
    axis_names: Sequence[Any] = (),
    axis_index_groups: Groups = None,
    **_: Any,
) -> jax.Array | None:
    """Returns what the function of ``impl._exact.sums.reduction`` does; None without a call."""
    dtype = jnp.dtype(x.dtype if dtype is None else dtype)
    if not takes([x], dtype):
        return None
    if not axes and not axis_names:
        return lax.convert_element_type(x, dtype)
    if not axes and scope.devices() == 1:
        return _psum(x, dtype, Devices(tuple(axis_names), axis_index_groups))
    if axis_index_groups is not None:
        return None
    found = reduction(x, axes, dtype)
    return None if found is None else computed(*found, axis_names)


def reduction(
    x: jax.Array, axes: Sequence[int], dtype: jax.typing.DTypeLike | None = None, **_: Any
) -> Found | None:
    """Returns the operation of ``lax.reduce_sum``; None if the engine has no call."""
    dtype = jnp.dtype(x.dtype if dtype is None else dtype)
    axes = tuple(sorted(axis % x.ndim for axis in axes))
    if not takes([x], dtype) or len(by_turns(x.shape, axes)) > _MOST_SIZES:
        return None
    return Reduction(axes, x.ndim, dtype), (x,)


def _psum(x: jax.Array, dtype: np.dtype[Any], devices: Devices) -> jax.Array:
    """Returns the sum of the arrays of devices, each of which has a part of them to add.

    A reduce-scatter and an all-gather send each element twice, as any sum over devices does.
    """
    gather = functools.partial(
        lax.all_gather, axis_name=devices.names, axis_index_groups=devices.groups
    )
    if x.size < devices.number * _FEW:
        rows = gather(x)
        return Reduction((0,), rows.ndim, dtype).nearest(rows)
    flat = x.reshape(-1)
    flat = lax.pad(flat, np.zeros((), x.dtype), [(0, -flat.size % devices.number, 0)])
    whole = gather(_scattered(flat, devices, 0, dtype), tiled=True)
    return lax.slice_in_dim(whole, 0, x.size).reshape(x.shape)


def reduce_scatter(
    x: jax.Array,
    axis_name: Any,
    *,
    scatter_dimension: int,
    axis_index_groups: Groups = None,
    tiled: bool = False,
    **_: Any,
) -> jax.Array | None:
    """Returns what the function of ``impl._exact.sums.reduction`` does; None without a call."""
    if scope.devices() != 1 or x.size == 0 or not takes([x], x.dtype):
        return None
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    part = _scattered(x, Devices(names, axis_index_groups), scatter_dimension, x.dtype)
    return part if tiled else lax.squeeze(part, (scatter_dimension,))


def _scattered(x: jax.Array, devices: Devices, axis: int, dtype: Any) -> jax.Array:
    """Returns this device's part of an axis, summed over devices: they exchange all parts."""
    number = devices.number
    shape = [*x.shape[:axis], number, x.shape[axis] // number, *x.shape[axis + 1 :]]
    parts = lax.all_to_all(
        x.reshape(shape), devices.names, axis, 0, axis_index_groups=devices.groups
    )
    return Reduction((0,), parts.ndim, dtype).nearest(parts)


@dataclasses.dataclass(frozen=True)
class Running(Operation):
    """The running sums of an array along an axis.

    Attributes:
        axis: The axis, which each device needs whole.
        rank: The number of axes of the array.
        reverse: Whether the sums start at the end.
    """

    axis: int
    rank: int
    reverse: bool

    @property
    def result(self) -> Names:  # type: ignore[override]
        return tuple(
            None if axis == self.axis else name for axis, name in enumerate(names(self.rank))
        )

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        return (self.result,)

    def call(self, *operands: Any) -> Call:
        (x,) = operands
        outer, inner = x.shape[: self.axis], x.shape[self.axis + 1 :]
        sizes = longs([math.prod(outer), x.shape[self.axis], math.prod(inner)])
        result = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return Call("samebits_running", result, {"sizes": sizes, "reverse": self.reverse})


def cumsum(x: jax.Array, axis: int, *, reverse: bool = False, **_: Any) -> jax.Array | None:
    """Returns what the function of ``impl._exact.sums.reduction`` does; None without a call."""
    if not takes([x], x.dtype):
        return None
    if x.size == 0:
        return x
    return computed(Running(axis % x.ndim, x.ndim, reverse), [x])


@dataclasses.dataclass(frozen=True)
class Parts(Elementwise):
    """The sum of arrays of one dtype, element by element."""

    def call(self, *operands: Any) -> Call:
        first = operands[0]
        return Call("samebits_parts", jax.ShapeDtypeStruct(first.shape, first.dtype), {})


def add(*terms: jax.Array) -> jax.Array | None:
    """Returns what the function of ``impl._exact.sums.reduction`` does; None without a call."""
    first = terms[0]
    if len(terms) > _MOST_PARTS or not takes(terms, first.dtype):
        return None
    if first.size == 0:
        return first
    return computed(Parts(len(terms), first.ndim), terms)
