"""Lowerings of sums over windows, and of their transposes.

A sum reads: each element of the result adds the elements that its table names, one tap after
another. A transpose is the sum over the windows of the inverse table. The sums are separable: one
dimension is summed after another. For average pooling (without its division) of 5 elements by
windows [0, 1], [1, 2, 3] and [3, 4]:

    values            [1., 2., 3., 4., 5.]      sums          [3., 9., 9.]
    cotangents        [10., 20., 30.]           transposes    [10., 30., 20., 50., 30.]

A transpose reads too, so no atomics add its terms.
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

from impl._core.axes import rows_at
from impl._core.lax_functions import where
from impl._core.numerics import (
    accumulator,
    convert,
    fence,
    isolate,
    product,
)
from impl._core.shard_axes import vary_like
from impl._families.window_table import WindowTable
from impl._kernels.launch import MAX_ELEMENTS
from impl._lowerings.windows.stores import store_by_branch

#: The number of taps that are unrolled; a loop goes through more, this many at a time.
UNROLLED = 16
#: The greatest number of windows at the edges that do not copy the element at the common distance.
_FEW_EDGES = 8
#: The greatest number of taps of evenly spaced windows that are slices, which make the program
#: longer.
_MOST_SLICES = 64
#: The number of equal windows from which on one is computed and copied.
_MANY_EQUAL = 4
#: The greatest number of taps of a window that XLA may compute again wherever the window is read.
_CHEAP_TAPS = 2

Tables = tuple[WindowTable, ...]
#: The indices of one tap of every window.
Column: TypeAlias = jax.Array | npt.NDArray[np.int32]


def sum_xla(values: jax.Array, *, tables: Tables, transposed: bool) -> jax.Array:
    """Computes sums over windows, [lanes, *inputs] to [lanes, *outputs], by reading.

    ``transposed`` computes the transpose, from outputs to inputs. The sums go over the last
    dimension first, the sums of the transpose over the first.
    """
    stages = _stages(tables, transposed)
    out = values if _only_copies(stages) else convert(values, accumulator(values.dtype))
    if _are_joined(out, [table for _, table in stages]):
        return convert(_sum_jointly(out, stages), values.dtype)
    for number, (dim, table) in enumerate(stages, 1):
        out = _sum_along(out, axis=dim + 1, table=table)
        # XLA computes a dimension again for each tap of the next. That is faster if the dimension
        # is cheap. Otherwise it is up to fifty times slower, in a layout that suits neither.
        if out.size and number < len(stages) and not _is_cheap(table):
            out = fence(out)
    return convert(out, values.dtype)


def sum_cpu(values: jax.Array, *, tables: Tables, transposed: bool) -> jax.Array:
    """Computes ``sum_xla`` on a CPU, also of values that are not rounded yet.

    Whatever a stage reads more than once is put into memory first.
    """
    stages = _stages(tables, transposed)
    only_copies, wide = _only_copies(stages), accumulator(values.dtype)
    if not only_copies and values.dtype != wide:
        values = isolate(values)
    out = values if only_copies else convert(values, wide)
    stages, copies = stages_and_copies(stages)
    for number, (dim, table) in enumerate(stages, 1):
        stage = functools.partial(_read_along, axis=dim + 1, table=table)
        is_last = number == len(stages)
        # The first stage adds values that the user's program may compute, perhaps as products.
        adds_open_values = number == 1 and not only_copies
        reads_again = adds_open_values and table.shape[1] > 1
        if out.size and (reads_again or (copies if is_last else not _is_cheap(table))):
            sizes = (*out.shape[: dim + 1], table.outputs, *out.shape[dim + 2 :])
            out = store_by_branch(stage, jax.ShapeDtypeStruct(sizes, out.dtype), out)
        else:
            out = stage(isolate(out) if adds_open_values else out)
    for dim, table in copies:
        out = _sum_along(out, axis=dim + 1, table=table)
    return convert(out, values.dtype)


def _stages(tables: Tables, transposed: bool) -> list[tuple[int, WindowTable]]:
    """Returns the dimensions in the order of their sums, each with the table that it reads by."""
    dims = range(len(tables)) if transposed else reversed(range(len(tables)))
    stages = [(dim, tables[dim].inverse if transposed else tables[dim]) for dim in dims]
    return [(dim, table) for dim, table in stages if not table.identity]


def _only_copies(stages: Sequence[tuple[int, WindowTable]]) -> bool:
    """Returns whether nothing is added: values then keep their bits in their own dtype."""
    return all(table.only_reads for _, table in stages)


def _is_cheap(table: WindowTable) -> bool:
    """Returns whether XLA may compute a window again wherever it is read."""
    return table.factors is None and table.shape[1] <= _CHEAP_TAPS


def _are_joined(values: jax.Array, tables: Sequence[WindowTable]) -> bool:
    """Returns whether sums over windows of several dimensions are computed from one operand."""
    fits = math.prod(values.shape[1:]) <= MAX_ELEMENTS and values.size > 0
    return fits and len(tables) > 1 and all(map(_is_cheap, tables))


def _sum_jointly(values: jax.Array, stages: Sequence[tuple[int, WindowTable]]) -> jax.Array:
    """Computes stages of few taps from their operand, with the same additions.

    A tap of the last stage reads sums of the stage before it, which are computed where they are
    read. XLA for a GPU might otherwise write the first sums to memory, and read them twice.
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
    shorter, copies = [], []
    for number, (dim, table) in enumerate(stages, 1):
        distinct, which = table.distinct
        many = number < len(stages) and _MANY_EQUAL * distinct.outputs <= table.outputs
        shorter.append((dim, distinct if many else table))
        if many:
            copies.append((dim, which))
    return shorter, copies[::-1]


def _read_along(values: jax.Array, axis: int, table: WindowTable) -> jax.Array:
    """Computes ``_sum_along``, without a table where windows are evenly spaced or copy neighbours.

    XLA for a CPU makes vector code of slices, and of a shift of the last axis, and shares their
    loops among all cores. It copies whole rows fast by a table too.
    """
    if _is_even(table) and values.size:
        return _sum_slices(values, axis, table)
    index = table.index[:, 0]
    # Most windows copy the element at one distance from their own number; the edges do not.
    distance = index - np.arange(table.outputs)
    shift = 0
    if distance.size:
        shift = int(np.bincount(distance + table.outputs).argmax()) - table.outputs
    window_at_edge = np.flatnonzero(distance != shift)
    if (
        not table.only_reads
        or axis < values.ndim - 1
        or values.size == 0
        or window_at_edge.size > _FEW_EDGES
    ):
        return _sum_along(values, axis, table)
    along = (-shift, table.outputs + shift - table.inputs, 0)
    edges = (*((0, 0, 0) for _ in range(axis)), along)
    zero = jnp.zeros((), values.dtype)
    out = jax.lax.pad(values, zero, edges)
    number = jnp.arange(table.outputs, dtype=jnp.int32)
    for window in window_at_edge.tolist():
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
    """Returns indices, with 0 for a tap that a window lacks, whose index is negative."""
    return np.maximum(index, 0) if isinstance(index, np.ndarray) else jnp.maximum(index, 0)


def fold_taps(
    add: Callable[..., Any], total: Any, index: npt.NDArray[Any], factors: jax.Array | None
) -> Any:
    """Calls ``add`` for each tap from the second on, in order.

    The indices of a tap are a NumPy array, except in a loop, where they are an array of JAX.
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
