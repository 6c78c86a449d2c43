"""Lowerings of sums over windows, and of their transposes.

A gather reads: each element of the result adds the elements that its table names, one tap after
another. A scatter writes: atomics add each element of the operand to all elements that read it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from impl import _kernels
from impl._core.axes import rows_at
from impl._core.jax_internals.releases import FENCES_HOLD
from impl._core.lax_functions import where
from impl._core.numerics import (
    accumulator,
    by_parts,
    convert,
    fence,
    isolate,
    product,
)
from impl._core.shard_axes import vary_like
from impl._families.window_table import WindowTable
from impl._kernels.launch import MAX_ELEMENTS, Launch

#: The number of taps that are unrolled; a loop goes through more, this many at a time.
UNROLLED = 16
#: The most windows that copy another element than the shifted one.
_FEW_EDGES = 8
#: The most taps of evenly spaced windows that are slices, which make the program longer.
_MOST_SLICES = 64
#: The number of equal windows from which on one is computed and copied.
_MANY_EQUAL = 4
#: The most windows of an element whose transpose is read, not scattered, with the mode off too. The
#: sum of two numbers has no order.
FEW_READERS = 2

Tables = tuple[WindowTable, ...]
#: The indices of one tap of every window.
Column: TypeAlias = jax.Array | npt.NDArray[np.int32]
#: From values to sums over windows of one dimension.
Stage = Callable[..., Any]
#: Computes a stage in such a way that its results are in memory before another operation reads
#: them. It takes the stage, the shapes of the results and the operands.
Store = Callable[..., Any]


def sum_xla(
    values: jax.Array, *, tables: Tables, transposed: bool, store: Store | None = None
) -> jax.Array:
    """Computes sums over windows, [lanes, *inputs] to [lanes, *outputs], by reading.

    ``transposed`` computes the transpose, from outputs to inputs. The sums go over the last
    dimension first, and those of the transpose over the first. With a ``store``, the values need
    not be rounded yet.
    """
    dims = range(len(tables)) if transposed else reversed(range(len(tables)))
    stages = [(dim, tables[dim].inverse if transposed else tables[dim]) for dim in dims]
    stages = [(dim, table) for dim, table in stages if not table.identity]
    # Values that are only copied keep their bits in their own dtype.
    only_read = all(table.only_reads for _, table in stages)
    wide = accumulator(values.dtype)
    if store is not None and not only_read and values.dtype != wide:
        values = isolate(values)
    out = values if only_read else convert(values, wide)
    stages, copies = stages_and_copies(stages) if store else (stages, [])
    if store is None and _are_joined(out, [table for _, table in stages]):
        return convert(_sum_jointly(out, stages), values.dtype)
    for number, (dim, table) in enumerate(stages, 1):
        stage = functools.partial(_read_along if store else _sum_along, axis=dim + 1, table=table)
        # Without a store XLA computes a dimension again for each tap of the next. That is faster if
        # the dimension is cheap. Otherwise it is up to fifty times slower, in a layout that suits
        # neither dimension.
        last = number == len(stages)
        is_open = store is not None and number == 1 and not only_read
        # What a store computes is in memory, and so is what it reads. XLA would compute a value
        # that is not in memory again for each tap, and for each tap of the next dimension.
        shared = is_open and table.shape[1] > 1
        if out.size and (shared or (copies if last else not _is_cheap(table))):
            sizes = (*out.shape[: dim + 1], table.outputs, *out.shape[dim + 2 :])
            result = jax.ShapeDtypeStruct(sizes, out.dtype)
            out = (store or store_by_fence)(stage, result, out)
        else:
            out = stage(isolate(out) if is_open else out)
    for dim, table in copies:
        out = _sum_along(out, axis=dim + 1, table=table)
    return convert(out, values.dtype)


def _is_cheap(table: WindowTable) -> bool:
    """Returns whether XLA may compute a window again wherever it is read."""
    return table.factors is None and table.shape[1] <= FEW_READERS


def _are_joined(values: jax.Array, tables: Sequence[WindowTable]) -> bool:
    """Returns whether sums over windows of several dimensions are computed from one operand."""
    fits = math.prod(values.shape[1:]) <= MAX_ELEMENTS and values.size > 0
    return fits and len(tables) > 1 and all(map(_is_cheap, tables))


def _sum_jointly(values: jax.Array, stages: Sequence[tuple[int, WindowTable]]) -> jax.Array:
    """Computes stages of few taps from their operand, with the same additions.

    A tap of the last stage reads sums of the stage before it, which are computed where they are
    read. As an operation of their own XLA for a GPU may write them to memory, and read them twice.
    """
    sizes = values.shape[1:]
    flat = values.reshape(values.shape[0], -1, 1)

    def along(column: npt.NDArray[Any], dim: int) -> jax.Array:
        axes = [k for k in range(len(sizes)) if k != dim]
        return jax.lax.expand_dims(jnp.asarray(column), axes)

    def sums(number: int, taps: dict[int, npt.NDArray[np.int32]]) -> jax.Array:
        if number < 0:
            columns = [
                taps.get(dim, np.arange(size, dtype=np.int32))
                * np.int32(math.prod(sizes[dim + 1 :]))
                for dim, size in enumerate(sizes)
            ]
            offsets = (along(column, dim) for dim, column in enumerate(columns))
            return rows_at(flat, functools.reduce(jnp.add, offsets))[..., 0]
        dim, table = stages[number]
        total: jax.Array | None = None
        for index in table.index.T:
            term = sums(number - 1, {**taps, dim: np.maximum(index, 0)})
            added = term if total is None else total + term
            if (index < 0).any():
                is_tap = along(index >= 0, dim)[None]
                added = where(is_tap, added, jnp.zeros_like(added) if total is None else total)
            total = added
        return cast("jax.Array", total)

    return sums(len(stages) - 1, {})


def stages_and_copies(
    stages: list[tuple[int, WindowTable]],
) -> tuple[list[tuple[int, WindowTable]], list[tuple[int, WindowTable]]]:
    """Returns the stages with each window once, and those that copy equal windows at the end.

    A row of the last dimension is then computed once and copied, which is as fast as the memory.
    """
    found, copies = [], []
    for number, (dim, table) in enumerate(stages, 1):
        distinct, which = table.distinct
        many = number < len(stages) and _MANY_EQUAL * distinct.outputs <= table.outputs
        found.append((dim, distinct if many else table))
        if many:
            copies.append((dim, which))
    return found, copies[::-1]


def sum_cpu(values: jax.Array, *, tables: Tables, transposed: bool) -> jax.Array:
    """Computes the same where XLA fuses past every fence, as it does on a CPU before jax 0.11."""
    return sum_xla(values, tables=tables, transposed=transposed, store=store_by_branch)


def store_by_fence(stage: Stage, _: Any, *operands: jax.Array) -> Any:
    """Computes a stage whose results XLA stores, since a fence follows."""
    return fence(stage(*operands))


def store_by_branch(stage: Stage, results: Any, *operands: jax.Array) -> Any:
    """Computes a stage inside a branch, whose operands and results XLA stores.

    The condition is never true, so the stage always runs, but XLA cannot know that.

    Args:
        stage: Takes the operands; returns an array, or a tuple of arrays.
        results: The shapes and dtypes of what it returns.
        *operands: Arrays, of which the first has an element.
    """
    values = operands[0]
    first = jax.lax.slice(values, (0,) * values.ndim, (1,) * values.ndim).reshape(()).real

    def zeros(*operands: jax.Array) -> Any:
        return jax.tree.map(
            lambda of: vary_like(jax.lax.full(of.shape, 0, of.dtype), *operands), results
        )

    never = jax.lax.bitwise_and(jax.lax.ne(first, first), jax.lax.gt(first, first.dtype.type(0)))
    return jax.lax.cond(never, zeros, stage, *operands)


def _store_between_fences(stage: Stage, _: Any, *operands: jax.Array) -> Any:
    """Computes a stage whose operands and results XLA stores."""
    return fence(stage(*map(fence, operands)))


#: Stores operands and results on a CPU, where XLA fused past every fence before jax 0.11.
store_on_cpu: Store = _store_between_fences if FENCES_HOLD else store_by_branch


def _read_along(values: jax.Array, axis: int, table: WindowTable) -> jax.Array:
    """Computes ``_sum_along``, without a table where windows are evenly spaced or copy neighbours.

    XLA for a CPU makes vector code of slices, and of a shift of the last axis, and shares their
    loops among all cores. Rows it copies fast by a table too.
    """
    if _is_even(table) and values.size:
        return _sum_slices(values, axis, table)
    index = table.index[:, 0]
    # The windows that are not the same distance from what they copy as most are.
    offset = index - np.arange(table.outputs)
    most = int(np.bincount(offset + table.outputs).argmax()) - table.outputs if offset.size else 0
    others = np.flatnonzero(offset != most)
    if (
        not table.only_reads
        or axis < values.ndim - 1
        or values.size == 0
        or others.size > _FEW_EDGES
    ):
        return _sum_along(values, axis, table)
    along = (-most, table.outputs + most - table.inputs, 0)
    edges = (*((0, 0, 0) for _ in range(axis)), along)
    zero = jnp.zeros((), values.dtype)
    out = jax.lax.pad(values, zero, edges)
    number = jnp.arange(table.outputs, dtype=jnp.int32)
    for window in others.tolist():
        at = int(index[window])
        # A window without taps has 0.
        one = jax.lax.slice_in_dim(values, at, at + 1, axis=axis) if at >= 0 else zero
        out = where(number == window, one, out)
    return out


def _is_even(table: WindowTable) -> bool:
    """Returns whether windows are evenly spaced, and each has all of its few taps."""
    steps = np.diff(table.index, axis=0)
    full = table.weight is None and table.index.size > 0 and bool((table.index >= 0).all())
    few = table.index.shape[1] <= _MOST_SLICES
    return (
        full and few and (not steps.size or bool((steps == steps[0, 0]).all() and steps[0, 0] > 0))
    )


def _sum_slices(values: jax.Array, axis: int, table: WindowTable) -> jax.Array:
    """Computes ``_sum_along`` for evenly spaced windows: a tap of all windows is one slice."""
    step = int(table.index[1, 0] - table.index[0, 0]) if table.outputs > 1 else 1

    def tap(first: int, last: int) -> jax.Array:
        return jax.lax.slice_in_dim(values, first, last + 1, step, axis)

    ends = zip(table.index[0].tolist(), table.index[-1].tolist(), strict=True)
    return functools.reduce(jax.lax.add, itertools.starmap(tap, ends))


def _sum_along(values: jax.Array, axis: int, table: WindowTable) -> jax.Array:
    """Sums over windows of one axis, from the first tap to the last; 0 for one without taps."""
    index, weight = table.index.T, table.weight
    factors = None if weight is None else jnp.asarray(weight.T, values.dtype)
    before, after = values.shape[:axis], values.shape[axis + 1 :]
    three = values.reshape(math.prod(before), values.shape[axis], math.prod(after))

    def term(index: Column, factor: jax.Array | None) -> jax.Array:
        rows = rows_at(three, at_least_0(index))
        return rows if factor is None else product(rows, factor[None, :, None])

    def add(total: jax.Array, index: Column, factor: jax.Array | None) -> jax.Array:
        added = total + term(index, factor)
        if isinstance(index, np.ndarray) and (index >= 0).all():
            return added
        return where((index >= 0)[None, :, None], added, total)

    factor = None if factors is None else factors[0]
    if values.size == 0 or table.inputs == 0:
        return vary_like(jnp.zeros((*before, table.outputs, *after), values.dtype), values)
    out = term(index[0], factor)
    if not (index[0] >= 0).all():
        out = where((index[0] >= 0)[None, :, None], out, jnp.zeros_like(out))
    out = fold_taps(add, out, index, factors)
    return out.reshape(*before, table.outputs, *after)  # type: ignore[no-any-return]


def at_least_0(index: Column) -> Column:
    """Returns indices; those of taps that a window lacks, which are negative, are 0."""
    return np.maximum(index, 0) if isinstance(index, np.ndarray) else jnp.maximum(index, 0)


def fold_taps(
    add: Callable[..., Any], total: Any, index: npt.NDArray[Any], factors: jax.Array | None
) -> Any:
    """Calls ``add`` for each tap from the second on, in order.

    The indices of a tap are known, but in a loop, where they are an array of JAX.
    """
    taps = index.shape[0]

    def add_tap(total: Any, t: jax.Array | int) -> Any:
        # Plain indexing takes longer to trace than all other operations.
        row = functools.partial(jax.lax.dynamic_index_in_dim, index=t, keepdims=False)
        column = index[t] if isinstance(t, int) else row(jnp.asarray(index))
        return add(total, column, None if factors is None else row(factors))

    def block(k: jax.Array, total: Any) -> Any:
        first = 1 + k * UNROLLED
        return functools.reduce(lambda total, t: add_tap(total, first + t), range(UNROLLED), total)

    blocks = (taps - 1) // UNROLLED if taps > 2 * UNROLLED else 0
    if blocks:
        total = jax.lax.fori_loop(0, blocks, block, total)
    return functools.reduce(add_tap, range(1 + blocks * UNROLLED, taps), total)


def sum_atomic_kernel(
    values: jax.Array, *, tables: Tables, transposed: bool, launch: Launch
) -> jax.Array:
    """Computes the transpose by one pass of atomics.

    Where no two windows overlap it calls ``sum_xla``, which needs no atomics. Where windows copy an
    element each, as padding does, and few copy the same, that takes fewer launches too.
    """
    sizes = [t.inputs for t in tables]
    numbers = 2 if jnp.iscomplexobj(values) else 1
    large = numbers * max(values.size, values.shape[0] * math.prod(sizes)) > MAX_ELEMENTS
    overlapping = any(t.overlapping for t in tables)
    overlapping &= not all(t.only_reads and t.inverse.shape[1] <= FEW_READERS for t in tables)
    if not transposed or not overlapping or values.size == 0 or large:
        return sum_xla(values, tables=tables, transposed=transposed)
    if jnp.iscomplexobj(values):
        return by_parts(functools.partial(_scatter_parts, tables=tables, launch=launch), values)
    converted = convert(values, accumulator(values.dtype))
    return convert(_kernels.windows.scatter(converted, tables, launch=launch), values.dtype)


def _scatter_parts(parts: jax.Array, *, tables: Tables, launch: Launch) -> jax.Array:
    """Computes the transpose of real and imaginary parts, which a leading axis holds."""
    lanes = parts.reshape(-1, *parts.shape[2:])
    out = _kernels.windows.scatter(lanes, tables, launch=launch)
    return out.reshape(*parts.shape[:2], *out.shape[1:])
