"""Lowerings of maxima of windows, of picks from windows, and of the transpose of a pick."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from impl._core.axes import elements_at, rows_at, three_axes
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, fence, lowest
from impl._core.shard_axes import vary_like
from impl._families.reductions import ADD
from impl._families.sort_keys import sort_keys
from impl._families.window_table import WindowTable
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl._lowerings import scatter_accumulate
from impl._lowerings.windows import cpu_even, cpu_phases
from impl._lowerings.windows.sums import (
    FEW_READERS,
    UNROLLED,
    Column,
    Store,
    Tables,
    at_least_0,
    fold_taps,
    store_by_fence,
    store_on_cpu,
)

#: The most elements that are read at once, as a multiple of the number of elements.
_AT_ONCE = 4
#: The most windows that a CPU reads one by one, which makes the program longer, and the taps from
#: which on that is faster.
_FEW_WINDOWS, _LONG_WINDOW = 16, 8


def argmax(values: jax.Array, table: WindowTable) -> jax.Array:
    """Returns the position of the maximum of each window along the middle axis.

    Of several equal elements it is the lowest position. A window without taps has -1.
    """
    many = table.shape[1] > UNROLLED
    if many and math.prod(table.shape) <= _AT_ONCE * table.inputs:
        return _argmax_at_once(values, table)
    if many and (step := table.step):
        return _argmax_by_doubling(values, table, step)

    def read(column: Column) -> tuple[jax.Array, Column]:
        value = rows_at(values, at_least_0(column))
        return value, column[None, :, None]

    return _fold_argmax(read, table.index.T)


def argmax_cpu(values: jax.Array, table: WindowTable) -> jax.Array:
    """Computes ``argmax``; reads each of a few windows of neighbours as a whole."""
    index, counts = table.index, table.counts
    if not reads_whole(table) or values.size == 0:
        return argmax(values, table)

    def first_greatest(start: int, length: int) -> jax.Array:
        # XLA for a CPU computes maxima of integers side by side, and may lose a NaN of floats
        # (https://github.com/openxla/xla/issues/21461).
        keys = sort_keys(lax.slice_in_dim(values, start, start + length, axis=1))
        position = start + lax.broadcasted_iota(jnp.int32, keys.shape, 1)
        equal = keys == keys.max(axis=1, keepdims=True)
        return where(equal, position, table.inputs).min(axis=1, keepdims=True)

    windows = zip(index[:, 0].tolist(), counts.tolist(), strict=True)
    return fence(jnp.concatenate([first_greatest(*window) for window in windows], axis=1))


def reads_whole(table: WindowTable) -> bool:
    """Returns whether a CPU reads each of a few long windows of neighbours as a whole."""
    few = table.outputs <= _FEW_WINDOWS and table.shape[1] >= _LONG_WINDOW
    return few and table.step == 1 and bool(table.counts.all())


def argmax_from(values: jax.Array, start: jax.Array, length: int) -> jax.Array:
    """Returns the same for windows of one length that begin at ``start``, [outer, outputs]."""

    def read(step: Column) -> tuple[jax.Array, Column]:
        position = (start + step[None])[:, :, None]
        value = elements_at(values, position)
        return value, position

    return _fold_argmax(read, np.arange(length, dtype=np.int32)[:, None])


def _fold_argmax(
    read: Callable[[Column], tuple[jax.Array, Column]], columns: npt.NDArray[np.int32]
) -> jax.Array:
    """Returns the position of the maximum of the elements that ``read`` returns for each column.

    ``read`` returns values and their positions, which are -1 for elements to leave out.
    """

    def step(best: Any, column: Column, _: None) -> Any:
        value, position = read(column)
        return _greater(best, (value, position), position >= 0)

    value, position = read(columns[0])
    first = value, vary_like(jnp.broadcast_to(position, value.shape), value)
    # Without the fence XLA goes through the windows again for each operation that reads the result.
    return fence(fold_taps(step, first, columns, None)[1])


def _greater(before: Any, after: Any, valid: jax.typing.ArrayLike = True) -> Any:
    """Selects the greater of two values, and its position; the first if they are equal.

    Where ``valid`` is False it selects the first.
    """
    old, new = before[0], after[0]
    is_first_nan = lax.bitwise_and(lax.ne(new, new), lax.eq(old, old))
    greater = lax.bitwise_or(lax.gt(new, old), is_first_nan)
    if isinstance(valid, jax.Array) or not np.all(valid):
        greater &= valid
    return tuple(where(greater, b, a) for a, b in zip(before, after, strict=True))


def _argmax_at_once(values: jax.Array, table: WindowTable) -> jax.Array:
    """Computes ``argmax`` with all taps of all windows in memory."""
    index = table.index
    if table.positions == np.arange(table.inputs, dtype=np.int32).tobytes():
        taps = values.reshape(values.shape[0], *table.shape, values.shape[2])
    else:
        taps = rows_at(values, np.maximum(index, 0))
    # NaNs are compared apart, since XLA may lose a NaN in a maximum on a CPU
    # (https://github.com/openxla/xla/issues/21461).
    inside, nan = (index >= 0)[None, :, :, None], jnp.isnan(taps)
    number = where(inside & ~nan, taps, lowest(values.dtype))
    maximum = number.max(axis=2, keepdims=True)
    equal = where((inside & nan).any(axis=2, keepdims=True), nan, number == maximum)
    position = where(inside & equal, index[None, :, :, None], table.inputs).min(axis=2)
    return fence(where(position < table.inputs, position, -1))


def _argmax_by_doubling(values: jax.Array, table: WindowTable, step: int) -> jax.Array:
    """Computes ``argmax`` of windows of evenly spaced taps.

    The maximum of a window is that of two windows whose length is a power of two. They may overlap.
    """
    counts = table.counts
    positions = jnp.arange(table.inputs, dtype=jnp.int32)[None, :, None]
    # For each position the maximum of the ``length`` taps that begin there. Near the end of the
    # axis, where there are fewer taps, it is not used.
    best: Any = values, vary_like(jnp.broadcast_to(positions, values.shape), values)
    shape = (values.shape[0], table.outputs, values.shape[2])
    out = vary_like(jnp.full(shape, -1, jnp.int32), values)
    length = 1
    while True:
        ends = (length <= counts) & (counts < 2 * length)
        if ends.any():
            starts = np.where(ends, table.index[:, 0], 0)
            lasts = np.where(ends, starts + (counts - length) * step, 0)
            halves = [tuple(rows_at(part, at) for part in best) for at in (starts, lasts)]
            out = where(ends[None, :, None], _greater(halves[0], halves[1])[1], out)
        if counts.max() < 2 * length:
            return fence(out)
        distance = length * step
        shift = ((0, 0, 0), (-distance, distance, 0), (0, 0, 0))
        later = tuple(lax.pad(part, jnp.zeros((), part.dtype), shift) for part in best)
        best = fence(_greater(best, later))
        length *= 2


def pick_along(
    values: jax.Array, axis: int, index: jax.Array, store: Store = store_by_fence
) -> jax.Array:
    """Takes elements at positions along an axis, whose length is that of ``index``."""
    result = jax.ShapeDtypeStruct(index.shape, values.dtype)

    def stage(values: jax.Array, index: jax.Array) -> jax.Array:
        picked = elements_at(three_axes(values, axis), three_axes(index, axis))
        return picked.reshape(index.shape)

    return (store if values.size else store_by_fence)(stage, result, values, index)  # type: ignore[no-any-return]


def picks(
    values: jax.Array, *indices: jax.Array, tables: Tables, store: Store = store_by_fence
) -> jax.Array:
    """Takes one element of each window, [lanes, *inputs] to [lanes, *outputs].

    Args:
        values: Shape [lanes, *inputs].
        *indices: Positions along each dimension, as ``maxima.places`` returns them.
        tables: The table of windows of each dimension.
        store: Computes a stage whose result is then in memory.
    """
    for axis, index in zip(reversed(range(1, 1 + len(tables))), indices, strict=True):
        values = pick_along(values, axis, index, store)
    return values


#: Computes the same on a CPU.
picks_cpu = functools.partial(picks, store=store_on_cpu)


def picks_transpose(
    picked: jax.Array,
    *indices: jax.Array,
    tables: Tables,
    along: Callable[..., jax.Array] | None = None,
) -> jax.Array:
    """Computes the transpose of ``picks``, along the first dimension first.

    Args:
        picked: Shape [lanes, *outputs].
        *indices: Positions along each dimension, as ``maxima.places`` returns them.
        tables: The table of windows of each dimension.
        along: Computes the transpose along the middle axis, and takes the size of the axis before
            as ``before``; None means ``pick_transpose_xla``.
    """
    for axis, (table, index) in enumerate(zip(tables, reversed(indices), strict=True), 1):
        shape = (*picked.shape[:axis], table.inputs, *picked.shape[axis + 1 :])
        three = (three_axes(part, axis) for part in (picked, index))
        if along is None:
            picked = pick_transpose_xla(*three, table=table).reshape(shape)
        else:
            picked = along(*three, table=table, before=picked.shape[axis - 1]).reshape(shape)
    return picked


def pick_transpose_xla(picked: jax.Array, index: jax.Array, *, table: WindowTable) -> jax.Array:
    """Computes the transpose of ``pick``.

    Each element adds what windows picked there, in ascending order of the windows.
    """
    outer, _, inner = picked.shape
    if picked.size == 0 or table.inputs == 0:
        return jnp.zeros((outer, table.inputs, inner), picked.dtype)
    if _from_slices(table):
        return _pick_transpose_by_distance(picked, index, table)
    return _pick_transpose_by_table(picked, index, table)


def _from_slices(table: WindowTable) -> bool:
    """Returns whether the transpose of a pick reads few slices of windows, or long ones."""
    step, least, greatest = table.period
    return least == greatest or (step >= _LONG_WINDOW and greatest - least < UNROLLED)


def _pick_transpose_by_distance(
    picked: jax.Array, index: jax.Array, table: WindowTable
) -> jax.Array:
    """Computes the transpose from whole slices of windows, which lie beside what they read.

    ``WindowTable.period`` states where. A window that is there, and does not read an element, did
    not pick it.
    """
    step, least, greatest = table.period
    outer, windows, inner = picked.shape
    blocks = table.inputs // step
    if not table.counts.all():
        index = where((table.counts > 0)[None, :, None], index, -1)
    # A last axis of one element would have another layout, and the result would be copied.
    inners = () if inner == 1 else (inner,)
    picked, index = (part.reshape(outer, windows, *inners) for part in (picked, index))
    before = max(0, -least)
    along = before, blocks + max(0, greatest) - windows, 0
    edges = ((0, 0, 0), along, *((0, 0, 0) for _ in inners))
    wide = accumulator(picked.dtype)
    index = lax.pad(index, jnp.full((), -1, index.dtype), edges)
    values = lax.pad(convert(picked, wide), jnp.zeros((), wide), edges)
    position = jnp.arange(table.inputs, dtype=index.dtype).reshape(
        1, blocks, step, *(1 for _ in inners)
    )
    out = vary_like(jnp.zeros((outer, blocks, step, *inners), wide), picked, index)
    has_terms: Any = False
    for distance in range(least, greatest + 1):
        start = before + distance
        chosen, value = (
            lax.slice_in_dim(part, start, start + blocks, axis=1)[:, :, None]
            for part in (index, values)
        )
        is_term = chosen == position
        # The first term is selected, not added to 0: 0 + -0 is 0, which is another number.
        out = where(is_term, where(has_terms, out + value, value), out)
        has_terms |= is_term
    return fence(convert(out.reshape(outer, table.inputs, inner), picked.dtype))


def _pick_transpose_by_table(picked: jax.Array, index: jax.Array, table: WindowTable) -> jax.Array:
    """Computes the transpose by reading, for each element, the windows of its table."""
    inverse = table.inverse
    position = jnp.arange(table.inputs, dtype=index.dtype)[None, :, None]
    outer, _, inner = picked.shape
    shape = (outer, table.inputs, inner)
    if outer > inner and inverse.shape[1] > 2 * UNROLLED:
        # The loop reads row by row, which is much faster with long rows.
        turned = [
            jnp.moveaxis(part, 0, 2).reshape(1, -1, outer * inner) for part in (picked, index)
        ]
        out = _pick_transpose_by_table(turned[0], turned[1], table)
        out = out.reshape(table.inputs, inner, outer)
        return jnp.moveaxis(out, 2, 0)
    converted = convert(picked, accumulator(picked.dtype))

    def add(state: Any, window: Column, _: None) -> Any:
        out, has_terms = state
        safe = at_least_0(window)
        chosen, value = (rows_at(a, safe) for a in (index, converted))
        is_term = (window >= 0)[None, :, None] & (chosen == position)
        # The first term is selected, not added to 0: 0 + -0 is 0, which is another number.
        total = where(is_term, where(has_terms, out + value, value), out)
        return total, has_terms | is_term

    empty = jnp.zeros(shape, converted.dtype), jnp.zeros(shape, bool)
    initial = tuple(vary_like(part, picked, index) for part in empty)
    windows = inverse.index.T
    out = fold_taps(add, add(initial, windows[0], None), windows, None)[0]
    return fence(convert(out, picked.dtype))


def pick_transpose_cpu(
    picked: jax.Array, index: jax.Array, *, table: WindowTable, before: int = 1
) -> jax.Array:
    """Computes the same in loops that are fast on a CPU, with each operand and result in memory.

    ``before`` is the size of the last axis that was merged into the first.
    """
    if picked.size == 0:
        return pick_transpose_xla(picked, index, table=table)
    outer, windows, inner = picked.shape
    # Of an array with a last axis of one element a branch would return a copy.
    inners = () if inner == 1 else (inner,)
    steps = phases = None
    rows: int | None = 1
    if not _from_slices(table):
        steps, phases = cpu_even.reads(table), cpu_phases.phases(table)
    if steps is not None:
        # Along the last axis it takes longer to copy windows than to read the two over an element.
        rows = cpu_phases.joined_rows(table, before) if inner == 1 else None
        steps, phases = (steps, None) if rows is None else (None, phases)

    def stage(picked: jax.Array, index: jax.Array) -> jax.Array:
        parts = [part.reshape(outer, windows, *inners) for part in (picked, index)]
        if steps is not None:
            return cpu_even.pick_transpose(parts[0], parts[1], table, steps, store_on_cpu)
        if phases is not None:
            return cpu_phases.pick_transpose(parts[0], parts[1], table, phases, rows or 1)
        out = pick_transpose_xla(picked, index, table=table)
        return out.reshape(outer, table.inputs, *inners)

    result = jax.ShapeDtypeStruct((outer, table.inputs, *inners), picked.dtype)
    return store_on_cpu(stage, result, picked, index).reshape(outer, table.inputs, inner)  # type: ignore[no-any-return]


def pick_transpose_atomic_kernel(
    picked: jax.Array, index: jax.Array, *, table: WindowTable, before: int, launch: Launch
) -> jax.Array:
    """Computes the transpose of ``pick`` by one pass of atomics.

    Where no two windows overlap it calls ``pick_transpose_xla``, which needs no atomics. Where few
    do, that reads and writes less.
    """
    del before
    shape = (picked.shape[0], table.inputs, picked.shape[2])
    large = max(picked.size, math.prod(shape)) > MAX_ELEMENTS
    few = table.inverse.shape[1] <= FEW_READERS
    if picked.size == 0 or large or few or not table.overlapping:
        return pick_transpose_xla(picked, index, table=table)
    zeros = vary_like(jnp.zeros(shape, picked.dtype), picked, index)
    return scatter_accumulate.atomic_kernel(zeros, index, picked, reduction=ADD, launch=launch)


def picks_transpose_cpu(picked: jax.Array, *indices: jax.Array, tables: Tables) -> jax.Array:
    """Computes ``picks_transpose`` on a CPU."""
    return picks_transpose(picked, *indices, tables=tables, along=pick_transpose_cpu)


def picks_transpose_atomic_kernel(
    picked: jax.Array, *indices: jax.Array, tables: Tables, launch: Launch
) -> jax.Array:
    """Computes ``picks_transpose`` by a pass of atomics along each dimension."""
    along = functools.partial(pick_transpose_atomic_kernel, launch=launch)
    return picks_transpose(picked, *indices, tables=tables, along=along)
