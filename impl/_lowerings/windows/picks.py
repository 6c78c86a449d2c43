"""Lowerings of picks, one element from each window, and of their transposes.

A transposed pick reads instead of scattering: each element looks at the windows over it, and adds
the cotangents of the windows that picked the element, in ascending order of windows. So the order
is fixed without atomics. Windows [0, 1], [1, 2, 3] and [3, 4] over 5 elements::

    operand            [3., 7., 2., 5., 1.]
    positions          [1, 1, 3]                     which element each window picks
    picks              [7., 7., 5.]
    cotangent          [10., 20., 30.]
    picks_transpose    [0., 10. + 20., 0., 30., 0.]  element 3: window 1 picked 1, window 2 picked 3

Four algorithms compute a transpose; the package's docstring has the table that chooses among them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from impl._core.axes import elements_at, rows_at, three_axes
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, fence
from impl._core.shard_axes import vary_like
from impl._families.window_table import WindowTable
from impl._lowerings.windows import cpu_even, cpu_phases
from impl._lowerings.windows.stores import Store, store_by_fence, store_on_cpu
from impl._lowerings.windows.sums import (
    UNROLLED,
    Column,
    Tables,
    at_least_0,
    fold_taps,
)

#: The distance between windows from which on it is faster to read slices of them than a table.
_LONG_STEP = 8

#: Maps picked elements and their positions, [outer, outputs, ...], to [outer, inputs, ...].
_Transpose: TypeAlias = Callable[[jax.Array, jax.Array], jax.Array]


def pick_along(
    values: jax.Array, axis: int, index: jax.Array, store: Store = store_by_fence
) -> jax.Array:
    """Takes elements at positions along an axis, which gets the length of ``index``."""
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
    """Returns whether the transpose of a pick reads one slice of windows, or a few long ones."""
    step, least, greatest = table.period
    return least == greatest or (step >= _LONG_STEP and greatest - least < UNROLLED)


def _pick_transpose_by_distance(
    picked: jax.Array, index: jax.Array, table: WindowTable
) -> jax.Array:
    """Computes the transpose from whole slices of windows.

    ``WindowTable.period`` states how far the windows over an element are from the element, in
    numbers of windows. A window at such a distance that did not pick the element adds nothing.
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
    transpose = _transpose_on_cpu(table, before, is_last_axis=inner == 1)

    def stage(picked: jax.Array, index: jax.Array) -> jax.Array:
        if transpose is None:
            out = pick_transpose_xla(picked, index, table=table)
            return out.reshape(outer, table.inputs, *inners)
        return transpose(*(part.reshape(outer, windows, *inners) for part in (picked, index)))

    result = jax.ShapeDtypeStruct((outer, table.inputs, *inners), picked.dtype)
    return store_on_cpu(stage, result, picked, index).reshape(outer, table.inputs, inner)  # type: ignore[no-any-return]


def _transpose_on_cpu(table: WindowTable, before: int, *, is_last_axis: bool) -> _Transpose | None:
    """Returns the algorithm for a CPU, or None for ``pick_transpose_xla``.

    This is the table of the package's docstring.

    Args:
        table: The table of windows.
        before: The size of the axis before, whose rows may be joined.
        is_last_axis: Whether the windows lie along the last axis.
    """
    if _from_slices(table):
        return None
    steps, phases = cpu_even.reads(table), cpu_phases.phases(table)
    if steps is not None:
        rows = cpu_phases.joined_rows(table, before) if is_last_axis else None
        if rows is None or phases is None:
            return functools.partial(cpu_even.pick_transpose, table=table, steps=steps)
        return functools.partial(cpu_phases.pick_transpose, table=table, phases=phases, rows=rows)
    if phases is not None:
        return functools.partial(cpu_phases.pick_transpose, table=table, phases=phases)
    return None


def picks_transpose_cpu(picked: jax.Array, *indices: jax.Array, tables: Tables) -> jax.Array:
    """Computes ``picks_transpose`` on a CPU."""
    return picks_transpose(picked, *indices, tables=tables, along=pick_transpose_cpu)
