"""Conversions between PyTorch's shapes and the three axes of the core primitives.

The core primitives see an array as [outer, n, inner]: the dimension that an op works along is the
middle axis, and the dimensions before and after it are folded into one axis each.

``spread`` adds elements inside an array and at its borders, as ``lax.pad`` does.
XLA's partitioner fails at paddings between elements (jax 0.10.2 to 0.12.0.1; no upstream issue is
known). If the operand is whole on each device and the result is sharded, it slices the operand
before it dilates it. At the end of the operand the slice is clamped and gives wrong values, or the
program does not compile. This program shows it::

    x = lax.with_sharding_constraint(jnp.arange(1.0, 9.0), NamedSharding(mesh, P()))
    y = lax.pad(x, 0.0, [(0, 0, 1)])
    y = lax.with_sharding_constraint(y, NamedSharding(mesh, P("a")))
    y on three devices                  1 0 2 0 3 | 4 0 5 0 6 | 6 0 7 0 8

A sharded operand may end the process. So an axis is whole on each device where ``spread`` dilates
it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.lax_functions import filled, number
from impl._jax.shardings import whole


def within(index: jax.Array, size: int) -> jax.Array:
    """Returns ``index`` with ``size`` for each element outside [0, size), in int32 if that fits.

    The replacement comes before the conversion: in 32 bits, a wide index out of range could equal
    one in range. A narrow index becomes wide first: its dtype may not hold ``size``.
    """
    index = index.astype(jnp.int32) if index.dtype.itemsize < 4 else index
    # Nearly every op calls this. Each function of jax.numpy is a trace of its own.
    not_before = jax.lax.ge(index, number(index, 0))
    is_inside = jax.lax.bitwise_and(not_before, jax.lax.lt(index, number(index, size)))
    replaced = jax.lax.select(is_inside, index, filled(index, size))
    return replaced.astype(jnp.int32) if size < jnp.iinfo(jnp.int32).max else replaced


def index_dtype(size: int) -> jnp.dtype:
    """Returns the narrowest dtype of an index that can count ``size`` elements.

    Raises:
        NotImplementedError: x64 is off, and 32 bits are too few.
    """
    for dtype in (jnp.dtype(jnp.int32), jnp.dtype(jnp.result_type(int))):
        if size <= jnp.iinfo(dtype).max:
            return dtype
    raise NotImplementedError(
        f"an index of 32 bits cannot count {size} elements; set jax_enable_x64"
    )


def wrapped(index: jax.Array, size: int) -> jax.Array:
    """Returns ``index`` with ``size`` added to negative elements, which count from the end."""
    index = index.astype(jnp.promote_types(index.dtype, index_dtype(size)))
    from_end = jax.lax.add(index, number(index, size))
    return jax.lax.select(jax.lax.lt(index, number(index, 0)), from_end, index)


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Returns whether an array of ``shape`` broadcasts to ``target``."""
    try:
        return jnp.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def at_least_1d(value: jax.Array) -> jax.Array:
    """Returns ``value``; a 0-d array becomes an array of one element."""
    return value.reshape(1) if value.ndim == 0 else value


def corner_slices(shape: tuple[int, ...], dim: int) -> tuple[slice, ...]:
    """Returns slices of the first ``shape`` elements of an array, and of all along ``dim``."""
    return tuple(slice(None) if axis == dim else slice(length) for axis, length in enumerate(shape))


def three_axes(value: jax.Array, dim: int) -> jax.Array:
    """Returns ``value`` as [outer, n, inner], where n is the length of ``dim``; 1 if it is 0-d."""
    shape = value.shape or (1,)
    sizes = (math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))
    return jax.lax.reshape(value, sizes)


def rows_at(values: jax.Array, index: jax.typing.ArrayLike) -> jax.Array:
    """Returns ``values[:, index]`` of [outer, n, inner]; every index must be in [0, n).

    This is one operation of XLA. Indexing in brackets would be a dozen, most of them for negative
    indices.
    """
    if not isinstance(index, jax.Array):
        index = np.asarray(index)
    numbers = jax.lax.GatherDimensionNumbers(
        offset_dims=(0, index.ndim + 1), collapsed_slice_dims=(1,), start_index_map=(1,)
    )
    sizes = (values.shape[0], 1, values.shape[2])
    return jax.lax.gather(values, index[..., None], numbers, sizes, mode="promise_in_bounds")


def elements_at(values: jax.Array, index: jax.Array) -> jax.Array:
    """Returns ``values[a, index[a, i, b], b]`` of [outer, n, inner]; every index must be in [0, n).

    Along an axis where the indices have one element, all values share it. This is one operation:
    ``jnp.take_along_axis`` would wrap negative indices.

    Args:
        values: Shape [outer, n, inner].
        index: Integers of at least 32 bits, shape [outer or 1, m, inner or 1].
    """
    outer, _, inner = values.shape
    batch = tuple(axis for axis in (0, 2) if index.shape[axis] != 1)
    numbers = jax.lax.GatherDimensionNumbers(
        offset_dims=tuple(axis for axis in (0, 2) if axis not in batch),
        collapsed_slice_dims=(1,),
        start_index_map=(1,),
        operand_batching_dims=batch,
        start_indices_batching_dims=tuple(axis if 0 in batch else 1 for axis in batch),
    )
    shape = tuple(n for axis, n in enumerate(index.shape) if axis in (1, *batch))
    sizes = (min(1, outer) if 0 in batch else outer, 1, min(1, inner) if 2 in batch else inner)
    starts = jax.lax.reshape(index, (*shape, 1))
    return jax.lax.gather(values, starts, numbers, sizes, mode="promise_in_bounds")


def spread(
    value: jax.Array, fill: Any, padding: Sequence[tuple[int, int]], apart: Sequence[int]
) -> jax.Array:
    """Returns an array with elements between its elements, and then at its borders.

    Dilation, padding and cropping are three steps, since XLA's partitioner aborts at an interior
    padding that crops. ``fill`` is the new elements, a scalar, ``padding`` the low and the high
    padding of each dimension (negative ones crop), and ``apart`` the distance of neighbours in each
    dimension.
    """
    axes = [axis for axis, step in enumerate(apart) if step > 1]
    if axes:
        dilated = lax.pad(whole(value, axes), fill, [(0, 0, step - 1) for step in apart])
        value = whole(dilated, axes)
    if any(edge > 0 for edges in padding for edge in edges):
        value = lax.pad(value, fill, [(max(low, 0), max(high, 0), 0) for low, high in padding])
    if any(edge < 0 for edges in padding for edge in edges):
        starts = [max(-low, 0) for low, _ in padding]
        cut = [max(-high, 0) for _, high in padding]
        ends = [size - less for size, less in zip(value.shape, cut, strict=True)]
        value = lax.slice(value, starts, ends)
    return value


def spread_with_zeros(
    value: jax.Array, padding: Sequence[tuple[int, int]], apart: Sequence[int]
) -> jax.Array:
    """Returns ``spread`` with zeros."""
    return spread(value, lax.full((), 0, value.dtype), padding, apart)
