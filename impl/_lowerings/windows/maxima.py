"""Lowerings of the maxima of windows of several dimensions, one dimension after another.

Where windows are evenly spaced, one tap of all windows is one strided slice of the operand, and the
maxima are a fold over the taps. XLA makes vector code of slices, and a program has at most
``UNROLLED`` of them. Other windows are read by their table (``argmax``).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.axes import three_axes
from impl._core.numerics import lowest
from impl._core.shard_axes import vary_like
from impl._families.window_table import EvenWindows, WindowTable
from impl._lowerings.windows.argmax import argmax, argmax_cpu, reads_whole
from impl._lowerings.windows.picks import pick_along
from impl._lowerings.windows.stores import Store, store_by_fence, store_on_cpu
from impl._lowerings.windows.sums import UNROLLED, Tables


def maxima(values: jax.Array, *, tables: Tables, on_cpu: bool = False) -> jax.Array:
    """Returns the maximum of each window, [lanes, *inputs] to [lanes, *outputs].

    A NaN is greater than any number. The first of equal elements is taken, in row-major order.

    Args:
        values: Shape [lanes, *inputs].
        tables: The table of windows of each dimension.
        on_cpu: Whether the program is for a CPU.
    """
    store = _store(values, on_cpu)
    stages = [(dim + 1, table) for dim, table in enumerate(tables) if not table.identity][::-1]
    fused: list[tuple[int, WindowTable]] = []
    for number, (axis, table) in enumerate(stages, 1):
        if not _is_sliced(table):
            index = _argmax(values, axis, table, on_cpu)
            values = pick_along(values, axis, index, store)
            continue
        fused.append((axis, table))
        # A value that the next dimension reads once may be computed where it is read.
        following = stages[number][1] if number < len(stages) else None
        if following is None or following.overlapping or not _is_sliced(following):
            result = _pooled_shape(values, fused)
            values = store(functools.partial(_of_slices, stages=fused), result, values)
            fused = []
    return values


def places(values: jax.Array, *, tables: Tables, on_cpu: bool = False) -> tuple[jax.Array, ...]:
    """Returns the maximum of each window, and its position along each dimension.

    Args:
        values: Shape [lanes, *inputs].
        tables: The table of windows of each dimension.
        on_cpu: Whether the program is for a CPU.

    Returns:
        The maxima, and for each dimension, the last first, the positions along it, int32. This
        dimension and those after it have the sizes of the result, and those before it have the
        sizes of the operand. A window without taps has 0.
    """
    store, indices = _store(values, on_cpu), []
    for axis, table in reversed([*enumerate(tables, 1)]):
        if _is_sliced(table) and not (on_cpu and reads_whole(table)):
            shape = _pooled_shape(values, [(axis, table)])
            results = shape, jax.ShapeDtypeStruct(shape.shape, jnp.int32)
            stage = functools.partial(_place_of_slices, axis=axis, table=table)
            values, index = store(stage, results, values)
        else:
            index = _argmax(values, axis, table, on_cpu)
            values = pick_along(values, axis, index, store)
        indices.append(index)
    return values, *indices


def _store(values: jax.Array, on_cpu: bool) -> Store:
    return store_on_cpu if on_cpu and values.size else store_by_fence


def _is_sliced(table: WindowTable) -> bool:
    return table.even is not None and table.even.taps <= UNROLLED


def _pooled_shape(
    values: jax.Array, stages: Sequence[tuple[int, WindowTable]]
) -> jax.ShapeDtypeStruct:
    shape = [*values.shape]
    for axis, table in stages:
        shape[axis] = table.outputs
    return jax.ShapeDtypeStruct(shape, values.dtype)


def _argmax(values: jax.Array, axis: int, table: WindowTable, on_cpu: bool) -> jax.Array:
    """Returns the positions of maxima along an axis, and 0 for windows without taps."""
    index = (argmax_cpu if on_cpu else argmax)(three_axes(values, axis), table)
    # Where each window has a tap this changes nothing, but XLA for a CPU before jax 0.11 takes
    # twice as long to pick at positions that a loop over taps returns as they are.
    index = lax.max(index, lax.full_like(index, 0))
    return index.reshape(*values.shape[:axis], table.outputs, *values.shape[axis + 1 :])


def _of_slices(values: jax.Array, stages: Sequence[tuple[int, WindowTable]]) -> jax.Array:
    """Returns maxima of evenly spaced windows of several axes."""
    for axis, table in stages:
        values = functools.reduce(
            lambda old, new: lax.select(is_greater(old, new), new, old), _taps(values, axis, table)
        )
    return values


def _place_of_slices(
    values: jax.Array, axis: int, table: WindowTable
) -> tuple[jax.Array, jax.Array]:
    """Returns maxima of evenly spaced windows of one axis, and their positions."""
    taps, even = _taps(values, axis, table), _even(table)
    value = taps[0]
    number = vary_like(lax.full(value.shape, 0, jnp.int32), values)
    for tap, new in enumerate(taps[1:], 1):
        greater = is_greater(value, new)
        value = lax.select(greater, new, value)
        number = lax.select(greater, lax.full_like(number, tap * even.spacing), number)
    starts = even.start + even.step * np.arange(table.outputs)
    along = functools.partial(lax.broadcast_in_dim, shape=value.shape, broadcast_dimensions=(axis,))
    # Where no element is greater than the padding, the first element is the maximum.
    index, least = (np.asarray(n, np.int32) for n in (starts, table.index[:, 0]))
    position = lax.add(number, vary_like(along(index), number))
    if (index != least).any():
        position = lax.max(position, vary_like(along(least), number))
    return value, position


def is_greater(old: jax.Array, new: jax.Array) -> jax.Array:
    """Returns whether a new element is the maximum, and not the one before; NaN is the greatest."""
    if not jnp.issubdtype(old.dtype, jnp.floating):
        return lax.gt(new, old)
    # For an old NaN both comparisons are false; for a new NaN and an old number only the second is.
    return lax.gt(lax.eq(old, old), lax.ge(old, new))


def _even(table: WindowTable) -> EvenWindows:
    return cast("EvenWindows", table.even)


def _taps(values: jax.Array, axis: int, table: WindowTable) -> list[jax.Array]:
    """Returns each tap of all windows along an axis; one that a window lacks is the least value."""
    even = _even(table)
    last = even.start + (table.outputs - 1) * even.step
    before = max(0, -even.start)
    after = max(0, last + (even.taps - 1) * even.spacing + 1 - table.inputs)
    if before or after:
        edges = [(0, 0, 0)] * values.ndim
        edges[axis] = before, after, 0
        least: Any = lowest(values.dtype)
        values = lax.pad(values, least, edges)
    starts = (even.start + before + tap * even.spacing for tap in range(even.taps))
    reach = last - even.start + 1
    return [lax.slice_in_dim(values, first, first + reach, even.step, axis) for first in starts]
