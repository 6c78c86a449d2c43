"""Lowerings of sums over windows, of maxima of windows, and of their transposes.

A gather reads: each element of the result adds the elements that its table names, one tap after
another. A scatter writes: atomics add each element of the operand to all elements that read it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from impl._core.axes import rows_at
from impl._core.numerics import accumulator, by_parts, convert, fence, isolate, lowest, product
from impl._core.reductions import ADD
from impl._core.shard_axes import vary_like
from impl._core.sort_keys import sort_keys
from impl._core.window_table import WindowTable
from impl._kernels import windows as kernels
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl._lowerings import scatter_accumulate, window_phases

#: The number of taps that are unrolled; a loop goes through more, this many at a time.
_UNROLLED = 16
#: The most elements that are read at once, as a multiple of the number of elements.
_AT_ONCE = 4
#: The most windows that copy another element than the shifted one.
_FEW_EDGES = 8
#: The number of equal windows from which on one is computed and copied.
_MANY_EQUAL = 4
#: The most windows that a CPU reads one by one, which makes the program longer, and the taps from
#: which on that is faster.
_FEW_WINDOWS, _LONG_WINDOW = 16, 8

Tables = tuple[WindowTable, ...]
#: From values to sums over windows of one dimension.
Stage = Callable[[jax.Array], jax.Array]
#: Computes a stage in such a way that its result is in memory before another operation reads it.
Store = Callable[[Stage, jax.Array], jax.Array]


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
    for number, (dim, table) in enumerate(stages, 1):
        stage = functools.partial(_read_along if store else _sum_along, axis=dim + 1, table=table)
        # Without a store XLA computes a dimension again for each tap of the next. That is faster if
        # the dimension is cheap. Otherwise it is up to fifty times slower, in a layout that suits
        # neither dimension.
        cheap = table.factors is None and table.shape[1] <= 2
        last = number == len(stages)
        if out.size and (copies if last else not cheap):
            out = (store or _store_by_fence)(stage, out)
        else:
            # What a store computes is in memory, and so is what it reads.
            is_open = store is not None and number == 1 and not only_read
            out = stage(isolate(out) if is_open else out)
    for dim, table in copies:
        out = _sum_along(out, axis=dim + 1, table=table)
    return convert(out, values.dtype)


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
    return sum_xla(values, tables=tables, transposed=transposed, store=_store_by_branch)


def _store_by_fence(stage: Stage, values: jax.Array) -> jax.Array:
    return fence(stage(values))


def _store_by_branch(stage: Stage, values: jax.Array) -> jax.Array:
    """Computes a stage inside a branch, whose operands and result XLA stores.

    The condition is never true, so the stage always runs, but XLA cannot know that.
    """
    first = values[(0,) * values.ndim].real
    zeros = jnp.zeros(jax.eval_shape(stage, values).shape, values.dtype)
    never = jnp.isnan(first) & (first > 0)
    return jax.lax.cond(never, lambda _: vary_like(zeros, values), stage, values)  # type: ignore[no-any-return]


def _read_along(values: jax.Array, axis: int, table: WindowTable) -> jax.Array:
    """Computes ``_sum_along``; where nearly all windows copy neighbours, it shifts the last axis.

    XLA for a CPU makes vector code of a shift. Rows it copies fast by a table too.
    """
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
    out = jax.lax.pad(values, jnp.zeros((), values.dtype), edges)
    number = jnp.arange(table.outputs, dtype=jnp.int32)
    for window in others.tolist():
        at = int(index[window])
        # A window without taps keeps the zero.
        if at >= 0:
            one = jax.lax.slice_in_dim(values, at, at + 1, axis=axis)
            out = jnp.where(number == window, one, out)
    return out


def _sum_along(values: jax.Array, axis: int, table: WindowTable) -> jax.Array:
    """Sums over windows of one axis, from the first tap to the last; 0 for one without taps."""
    index, weight = table.index.T, table.weight
    factors = None if weight is None else jnp.asarray(weight.T, values.dtype)
    before, after = values.shape[:axis], values.shape[axis + 1 :]
    three = values.reshape(math.prod(before), values.shape[axis], math.prod(after))

    def term(index: jax.Array, factor: jax.Array | None) -> jax.Array:
        rows = rows_at(three, jnp.maximum(index, 0))
        return rows if factor is None else product(rows, factor[None, :, None])

    def add(total: jax.Array, index: jax.Array, factor: jax.Array | None) -> jax.Array:
        return jnp.where((index >= 0)[None, :, None], total + term(index, factor), total)

    factor = None if factors is None else factors[0]
    if values.size == 0 or table.inputs == 0:
        return vary_like(jnp.zeros((*before, table.outputs, *after), values.dtype), values)
    out = term(jnp.asarray(index[0]), factor)
    if not (index[0] >= 0).all():
        out = jnp.where((index[0] >= 0)[None, :, None], out, jnp.zeros_like(out))
    out = _fold_taps(add, out, index, factors)
    return out.reshape(*before, table.outputs, *after)  # type: ignore[no-any-return]


def _fold_taps(
    add: Callable[..., Any], total: Any, index: npt.NDArray[Any], factors: jax.Array | None
) -> Any:
    """Calls ``add`` for each tap from the second on, in order."""
    taps = index.shape[0]
    indices = jnp.asarray(index)

    def add_tap(total: Any, t: jax.Array | int) -> Any:
        # Plain indexing takes longer to trace than all other operations.
        row = functools.partial(jax.lax.dynamic_index_in_dim, index=t, keepdims=False)
        return add(total, row(indices), None if factors is None else row(factors))

    def block(k: jax.Array, total: Any) -> Any:
        first = 1 + k * _UNROLLED
        return functools.reduce(lambda total, t: add_tap(total, first + t), range(_UNROLLED), total)

    blocks = (taps - 1) // _UNROLLED if taps > 2 * _UNROLLED else 0
    if blocks:
        total = jax.lax.fori_loop(0, blocks, block, total)
    return functools.reduce(add_tap, range(1 + blocks * _UNROLLED, taps), total)


def sum_atomic_kernel(
    values: jax.Array, *, tables: Tables, transposed: bool, launch: Launch
) -> jax.Array:
    """Computes the transpose by one pass of atomics.

    Where no two windows overlap it calls ``sum_xla``, which needs no atomics.
    """
    sizes = [t.inputs for t in tables]
    numbers = 2 if jnp.iscomplexobj(values) else 1
    large = numbers * max(values.size, values.shape[0] * math.prod(sizes)) > MAX_ELEMENTS
    overlapping = any(t.overlapping for t in tables)
    if not transposed or not overlapping or values.size == 0 or large:
        return sum_xla(values, tables=tables, transposed=transposed)
    if jnp.iscomplexobj(values):
        return by_parts(functools.partial(_scatter_parts, tables=tables, launch=launch), values)
    converted = convert(values, accumulator(values.dtype))
    return convert(kernels.scatter(converted, tables, launch=launch), values.dtype)


def _scatter_parts(parts: jax.Array, *, tables: Tables, launch: Launch) -> jax.Array:
    """Computes the transpose of real and imaginary parts, which a leading axis holds."""
    lanes = parts.reshape(-1, *parts.shape[2:])
    out = kernels.scatter(lanes, tables, launch=launch)
    return out.reshape(*parts.shape[:2], *out.shape[1:])


def argmax(values: jax.Array, table: WindowTable) -> jax.Array:
    """Returns the position of the maximum of each window along the middle axis.

    Of several equal elements it is the lowest position. A window without taps has -1.
    """
    many = table.shape[1] > _UNROLLED
    if many and math.prod(table.shape) <= _AT_ONCE * table.inputs:
        return _argmax_at_once(values, table)
    if many and (step := table.step):
        return _argmax_by_doubling(values, table, step)

    def read(column: jax.Array) -> tuple[jax.Array, jax.Array]:
        value = rows_at(values, jnp.maximum(column, 0))
        return value, column[None, :, None]

    return _fold_argmax(read, table.index.T)


def argmax_cpu(values: jax.Array, table: WindowTable) -> jax.Array:
    """Computes ``argmax``; reads each of a few windows of neighbours as a whole."""
    index, counts = table.index, table.counts
    neighbours = table.step == 1 and counts.all()
    few = table.outputs <= _FEW_WINDOWS and table.shape[1] >= _LONG_WINDOW
    if not (neighbours and few) or values.size == 0:
        return argmax(values, table)

    def first_greatest(start: int, length: int) -> jax.Array:
        # XLA for a CPU computes maxima of integers side by side, and may lose a NaN of floats
        # (https://github.com/openxla/xla/issues/21461).
        keys = sort_keys(jax.lax.slice_in_dim(values, start, start + length, axis=1))
        position = start + jax.lax.broadcasted_iota(jnp.int32, keys.shape, 1)
        equal = keys == keys.max(axis=1, keepdims=True)
        return jnp.where(equal, position, table.inputs).min(axis=1, keepdims=True)

    windows = zip(index[:, 0].tolist(), counts.tolist(), strict=True)
    return fence(jnp.concatenate([first_greatest(*window) for window in windows], axis=1))


def argmax_from(values: jax.Array, start: jax.Array, length: int) -> jax.Array:
    """Returns the same for windows of one length that begin at ``start``, [outer, outputs]."""

    def read(step: jax.Array) -> tuple[jax.Array, jax.Array]:
        position = (start + step[None])[:, :, None]
        value = jnp.take_along_axis(values, position, axis=1, mode="promise_in_bounds")
        return value, position

    return _fold_argmax(read, np.arange(length, dtype=np.int32)[:, None])


def _fold_argmax(
    read: Callable[[jax.Array], tuple[jax.Array, jax.Array]], columns: npt.NDArray[np.int32]
) -> jax.Array:
    """Returns the position of the maximum of the elements that ``read`` returns for each column.

    ``read`` returns values and their positions, which are -1 for elements to leave out.
    """

    def step(best: Any, column: jax.Array, _: None) -> Any:
        value, position = read(column)
        return _greater(best, (value, position), position >= 0)

    value, position = read(jnp.asarray(columns[0]))
    first = value, vary_like(jnp.broadcast_to(position, value.shape), value)
    # Without the fence XLA goes through the windows again for each operation that reads the result.
    return fence(_fold_taps(step, first, columns, None)[1])


def _greater(before: Any, after: Any, valid: jax.typing.ArrayLike = True) -> Any:
    """Selects the greater of two values, and its position; the first if they are equal.

    Where ``valid`` is False it selects the first.
    """
    greater = (after[0] > before[0]) | (jnp.isnan(after[0]) & ~jnp.isnan(before[0]))
    return tuple(jnp.where(greater & valid, b, a) for a, b in zip(before, after, strict=True))


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
    number = jnp.where(inside & ~nan, taps, lowest(values.dtype))
    maximum = number.max(axis=2, keepdims=True)
    equal = jnp.where((inside & nan).any(axis=2, keepdims=True), nan, number == maximum)
    position = jnp.where(inside & equal, index[None, :, :, None], table.inputs).min(axis=2)
    return fence(jnp.where(position < table.inputs, position, -1))


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
            out = jnp.where(ends[None, :, None], _greater(halves[0], halves[1])[1], out)
        if counts.max() < 2 * length:
            return fence(out)
        distance = length * step
        shift = ((0, 0, 0), (-distance, distance, 0), (0, 0, 0))
        later = tuple(jax.lax.pad(part, jnp.zeros((), part.dtype), shift) for part in best)
        best = fence(_greater(best, later))
        length *= 2


def pick_xla(values: jax.Array, index: jax.Array) -> jax.Array:
    """Takes the elements of [outer, n, inner] at positions [outer, m, inner] of the middle axis."""
    return fence(jnp.take_along_axis(values, index, axis=1, mode="promise_in_bounds"))


def pick_cpu(values: jax.Array, index: jax.Array) -> jax.Array:
    """Computes the same where XLA fuses past every fence, as it does on a CPU before jax 0.11."""
    if values.size == 0:
        return pick_xla(values, index)
    return _store_by_branch(functools.partial(pick_xla, index=index), values)


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
    return least == greatest or (step >= _LONG_WINDOW and greatest - least < _UNROLLED)


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
        index = jnp.where((table.counts > 0)[None, :, None], index, -1)
    # A last axis of one element would have another layout, and the result would be copied.
    inners = () if inner == 1 else (inner,)
    picked, index = (part.reshape(outer, windows, *inners) for part in (picked, index))
    before = max(0, -least)
    along = before, blocks + max(0, greatest) - windows, 0
    edges = ((0, 0, 0), along, *((0, 0, 0) for _ in inners))
    wide = accumulator(picked.dtype)
    index = jax.lax.pad(index, jnp.full((), -1, index.dtype), edges)
    values = jax.lax.pad(convert(picked, wide), jnp.zeros((), wide), edges)
    position = jnp.arange(table.inputs, dtype=index.dtype).reshape(
        1, blocks, step, *(1 for _ in inners)
    )
    out = vary_like(jnp.zeros((outer, blocks, step, *inners), wide), picked, index)
    has_terms: Any = False
    for distance in range(least, greatest + 1):
        start = before + distance
        chosen, value = (
            jax.lax.slice_in_dim(part, start, start + blocks, axis=1)[:, :, None]
            for part in (index, values)
        )
        is_term = chosen == position
        # The first term is selected, not added to 0: 0 + -0 is 0, which is another number.
        out = jnp.where(is_term, jnp.where(has_terms, out + value, value), out)
        has_terms |= is_term
    return fence(convert(out.reshape(outer, table.inputs, inner), picked.dtype))


def _pick_transpose_by_table(picked: jax.Array, index: jax.Array, table: WindowTable) -> jax.Array:
    """Computes the transpose by reading, for each element, the windows of its table."""
    inverse = table.inverse
    position = jnp.arange(table.inputs, dtype=index.dtype)[None, :, None]
    outer, _, inner = picked.shape
    shape = (outer, table.inputs, inner)
    if outer > inner and inverse.shape[1] > 2 * _UNROLLED:
        # The loop reads row by row, which is much faster with long rows.
        turned = [
            jnp.moveaxis(part, 0, 2).reshape(1, -1, outer * inner) for part in (picked, index)
        ]
        out = _pick_transpose_by_table(turned[0], turned[1], table)
        out = out.reshape(table.inputs, inner, outer)
        return jnp.moveaxis(out, 2, 0)
    converted = convert(picked, accumulator(picked.dtype))

    def add(state: Any, window: jax.Array, _: None) -> Any:
        out, has_terms = state
        safe = jnp.maximum(window, 0)
        chosen, value = (rows_at(a, safe) for a in (index, converted))
        is_term = (window >= 0)[None, :, None] & (chosen == position)
        # The first term is selected, not added to 0: 0 + -0 is 0, which is another number.
        total = jnp.where(is_term, jnp.where(has_terms, out + value, value), out)
        return total, has_terms | is_term

    empty = jnp.zeros(shape, converted.dtype), jnp.zeros(shape, bool)
    initial = tuple(vary_like(part, picked, index) for part in empty)
    windows = inverse.index.T
    out = _fold_taps(add, add(initial, jnp.asarray(windows[0]), None), windows, None)[0]
    return fence(convert(out, picked.dtype))


def pick_transpose_cpu(picked: jax.Array, index: jax.Array, *, table: WindowTable) -> jax.Array:
    """Computes the same where XLA fuses past every fence, as it does on a CPU before jax 0.11."""
    if picked.size == 0:
        return pick_transpose_xla(picked, index, table=table)
    outer, windows, inner = picked.shape
    shape = outer, table.inputs, inner
    phases = None if _from_slices(table) else window_phases.phases(table)

    def stage(picked: jax.Array) -> jax.Array:
        # Of an array with a last axis of one element a branch would return a copy.
        inners = () if inner == 1 else (inner,)
        if phases is None:
            out = pick_transpose_xla(picked, index, table=table)
            return out.reshape(outer, table.inputs, *inners)
        one, other = (part.reshape(outer, windows, *inners) for part in (picked, index))
        return window_phases.pick_transpose(one, other, table, phases)

    return _store_by_branch(stage, picked).reshape(shape)


def pick_transpose_atomic_kernel(
    picked: jax.Array, index: jax.Array, *, table: WindowTable, launch: Launch
) -> jax.Array:
    """Computes the transpose of ``pick`` by one pass of atomics.

    Where no two windows overlap it calls ``pick_transpose_xla``, which needs no atomics.
    """
    shape = (picked.shape[0], table.inputs, picked.shape[2])
    large = max(picked.size, math.prod(shape)) > MAX_ELEMENTS
    if picked.size == 0 or large or not table.overlapping:
        return pick_transpose_xla(picked, index, table=table)
    zeros = vary_like(jnp.zeros(shape, picked.dtype), picked, index)
    return scatter_accumulate.atomic_kernel(zeros, index, picked, reduction=ADD, launch=launch)
