"""Sums over axes, over devices, and along an axis, in the spec's order ``nearest``.

``impl._exact.nearest.exact_sum`` splits the terms into parts. The functions here say how float64
adds them, which depends on no order, so XLA may partition the sums.

For an array of float32 with two rows::

    x                      [[1, 2**-24, 2**-60], [3, 4, 5]]
    reduce_sum(x, (1,))    [1 + 2**-23, 12]
    cumsum(x, 1)           [[1, 1, 1 + 2**-23], [3, 7, 12]]
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
from jax import lax

from impl._core.devices import Devices, Groups
from impl._exact.nearest.exact_sum import Addition
from impl._native import sums as native
from impl._native.scope import or_native

#: The names of mesh axes.
Names: TypeAlias = Sequence[Any]


@or_native(native.reduce_sum)
def reduce_sum(
    x: jax.Array,
    axes: Sequence[int],
    dtype: jax.typing.DTypeLike | None = None,
    *,
    axis_names: Names = (),
    axis_index_groups: Groups = None,
) -> jax.Array:
    """Returns the sum over axes and over named axes, rounded once.

    Args:
        x: float16, bfloat16, float32 or float64, any shape.
        axes: The axes to sum over.
        dtype: The dtype of the result; None for the dtype of ``x``.
        axis_names: The mesh axes of a ``shard_map`` to sum over.
        axis_index_groups: As ``lax.psum`` takes them.

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
    devices = Devices(tuple(axis_names), axis_index_groups)
    count = math.prod(x.shape[axis] for axis in axes) * devices.number

    def add(terms: jax.Array) -> jax.Array:
        return devices.sum(lax.reduce_sum(terms, axes))

    return Addition(add, count, devices).rounded(dtype, x)


@or_native(native.reduce_scatter)
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
    devices = Devices(names, axis_index_groups)
    add = functools.partial(
        lax.psum_scatter,
        axis_name=axis_name,
        scatter_dimension=scatter_dimension,
        axis_index_groups=axis_index_groups,
        tiled=tiled,
    )
    return Addition(add, devices.number, devices).rounded(x.dtype, x)


@or_native(native.cumsum)
def cumsum(x: jax.Array, axis: int, *, reverse: bool = False) -> jax.Array:
    """Returns the running sums along an axis.

    Args:
        x: float16, bfloat16, float32 or float64.
        axis: The axis.
        reverse: Whether the sums start at the end.

    Returns:
        Shape and dtype of ``x``.
    """
    if x.size == 0:
        return x
    axis %= x.ndim
    # A bounded symbolic size (jax.export) is refused here: XLA calls no such program, because the
    # windows of running sums of digits are as long as the axis ("Error refining shapes").
    length = operator.index(x.shape[axis])
    add = functools.partial(lax.cumsum, axis=axis, reverse=reverse)
    return Addition(add, length).rounded(x.dtype, x)
