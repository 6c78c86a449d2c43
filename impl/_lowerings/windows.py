"""Sums over windows, and their transposes: every way to compute them.

The gather form reads: each element of the result adds what its table names, one tap after another.
The scatter form writes: each element of the operand is added to all that read it, by atomics.
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
from impl._core.numerics import accumulator, by_parts, convert, fence, lowest, product
from impl._core.reductions import ADD
from impl._core.shard_axes import vary_like
from impl._core.window_table import WindowTable
from impl._kernels import scatter_accumulate as scatter_kernels
from impl._kernels import windows as kernels
from impl._kernels.triton import MAX_ELEMENTS, Launch

#: How many taps are written out; more are gone through by a loop over so many at a time.
_UNROLLED = 16
#: How many times as many elements as there are may be read at once.
_AT_ONCE = 4

Windows = tuple[WindowTable, ...]
#: From values to sums over windows of one dimension.
Stage = Callable[[jax.Array], jax.Array]
#: How to compute a stage so that its result is in memory before anything reads it.
Store = Callable[[Stage, jax.Array], jax.Array]


def gather_form(
    values: jax.Array, *, taps: Windows, transposed: bool, store: Store | None = None
) -> jax.Array:
    """[lanes, *inputs] to [lanes, *outputs], or back where ``transposed``.

    Forward the last dimension goes first, and so in the transpose the first.
    """
    store = store or _store_by_fence
    dims = range(len(taps)) if transposed else reversed(range(len(taps)))
    tables = [(dim, taps[dim].inverse if transposed else taps[dim]) for dim in dims]
    tables = [(dim, table) for dim, table in tables if not table.identity]
    # What is only read keeps its bits, and needs no room for wider ones.
    only_read = all(table.only_reads for _, table in tables)
    out = values if only_read else convert(values, accumulator(values.dtype))
    for place, (dim, table) in enumerate(tables, 1):
        stage = functools.partial(along, axis=dim + 1, taps=table)
        # Left alone XLA computes a dimension anew for each tap of the next. That pays if it is
        # cheap; if not it costs up to fifty times as much, in a layout that suits neither.
        cheap = table.factors is None and table.shape[1] <= 2
        out = stage(out) if cheap or place == len(tables) or out.size == 0 else store(stage, out)
    return convert(out, values.dtype)


def gather_form_on_cpu(values: jax.Array, *, taps: Windows, transposed: bool) -> jax.Array:
    """As ``gather_form``, where XLA before jax 0.11 fuses past every fence."""
    return gather_form(values, taps=taps, transposed=transposed, store=_store_by_branch)


def _store_by_fence(stage: Stage, values: jax.Array) -> jax.Array:
    return fence(stage(values))


def _store_by_branch(stage: Stage, values: jax.Array) -> jax.Array:
    """The result of a branch is stored. It is always taken, but the compiler does not know."""
    first = values[(0,) * values.ndim].real
    nothing = jnp.zeros(jax.eval_shape(stage, values).shape, values.dtype)
    never = jnp.isnan(first) & (first > 0)
    return jax.lax.cond(never, lambda _: vary_like(nothing, values), stage, values)  # type: ignore[no-any-return]


def along(values: jax.Array, axis: int, taps: WindowTable) -> jax.Array:
    """Sums over windows of one axis: the first tap, plus the second, and so on; 0 without taps."""
    index, weight = taps.index.T, taps.weight
    factors = None if weight is None else jnp.asarray(weight.T, values.dtype)
    rest = values.shape[axis + 1 :]
    three = values.reshape(math.prod(values.shape[:axis]), values.shape[axis], math.prod(rest))

    def term(index: jax.Array, factor: jax.Array | None) -> jax.Array:
        read = rows_at(three, jnp.maximum(index, 0))
        return read if factor is None else product(read, factor[None, :, None])

    def add(total: jax.Array, index: jax.Array, factor: jax.Array | None) -> jax.Array:
        return jnp.where((index >= 0)[None, :, None], total + term(index, factor), total)

    factor = None if factors is None else factors[0]
    if values.size == 0 or taps.inputs == 0:
        shape = (*values.shape[:axis], taps.outputs, *values.shape[axis + 1 :])
        return vary_like(jnp.zeros(shape, values.dtype), values)
    out = term(jnp.asarray(index[0]), factor)
    if not (index[0] >= 0).all():
        out = jnp.where((index[0] >= 0)[None, :, None], out, jnp.zeros_like(out))
    out = _through(add, out, index, factors)
    return out.reshape(  # type: ignore[no-any-return]
        *values.shape[:axis], taps.outputs, *values.shape[axis + 1 :]
    )


def _through(
    add: Callable[..., Any], total: Any, index: npt.NDArray[Any], factors: jax.Array | None
) -> Any:
    """Goes through the taps from the second on."""
    taps = index.shape[0]
    table = jnp.asarray(index)

    def one(total: Any, t: jax.Array | int) -> Any:
        # Not by indexing, which takes longer to trace than all the rest.
        row = functools.partial(jax.lax.dynamic_index_in_dim, index=t, keepdims=False)
        return add(total, row(table), None if factors is None else row(factors))

    def block(k: jax.Array, total: Any) -> Any:
        first = 1 + k * _UNROLLED
        return functools.reduce(lambda total, t: one(total, first + t), range(_UNROLLED), total)

    whole = (taps - 1) // _UNROLLED if taps > 2 * _UNROLLED else 0
    if whole:
        total = jax.lax.fori_loop(0, whole, block, total)
    return functools.reduce(one, range(1 + whole * _UNROLLED, taps), total)


def scatter_form(
    values: jax.Array, *, taps: Windows, transposed: bool, launch: Launch
) -> jax.Array:
    """The transpose by one pass of atomics; where no two windows share an element it gathers."""
    sizes = [t.inputs for t in taps]
    numbers = 2 if jnp.iscomplexobj(values) else 1
    large = numbers * max(values.size, values.shape[0] * math.prod(sizes)) > MAX_ELEMENTS
    shared = any(t.overlapping for t in taps)
    if not transposed or not shared or values.size == 0 or large:
        return gather_form(values, taps=taps, transposed=transposed)
    if jnp.iscomplexobj(values):
        return by_parts(functools.partial(_spread_parts, taps=taps, launch=launch), values)
    wide = convert(values, accumulator(values.dtype))
    return convert(kernels.spread(wide, taps, launch=launch), values.dtype)


def _spread_parts(parts: jax.Array, *, taps: Windows, launch: Launch) -> jax.Array:
    """Of real and imaginary parts, which a leading axis tells apart."""
    lanes = parts.reshape(-1, *parts.shape[2:])
    out = kernels.spread(lanes, taps, launch=launch)
    return out.reshape(*parts.shape[:2], *out.shape[1:])


def argmax(values: jax.Array, taps: WindowTable) -> jax.Array:
    """Position of the greatest of each window along the middle axis, the lowest of equals.

    -1 where a window has no taps.
    """
    many = taps.shape[1] > _UNROLLED
    if many and math.prod(taps.shape) <= _AT_ONCE * taps.inputs:
        return _argmax_at_once(values, taps)
    if many and (step := taps.step):
        return _argmax_by_doubling(values, taps, step)

    def read(column: jax.Array) -> tuple[jax.Array, jax.Array]:
        value = rows_at(values, jnp.maximum(column, 0))
        return value, column[None, :, None]

    return _first_greatest(read, taps.index.T)


def argmax_from(values: jax.Array, start: jax.Array, length: int) -> jax.Array:
    """As ``argmax``, of windows of one length that begin at ``start``, [outer, outputs]."""

    def read(step: jax.Array) -> tuple[jax.Array, jax.Array]:
        place = (start + step)[:, :, None]
        return jnp.take_along_axis(values, place, axis=1, mode="promise_in_bounds"), place

    return _first_greatest(read, np.arange(length, dtype=np.int32)[:, None])


def _first_greatest(
    read: Callable[[jax.Array], tuple[jax.Array, jax.Array]], table: npt.NDArray[np.int32]
) -> jax.Array:
    """The place of the greatest of what is read for each row of a table, or -1."""

    def step(best: Any, column: jax.Array, _: None) -> Any:
        value, place = read(column)
        return _greater(best, (value, place), place >= 0)

    value, place = read(jnp.asarray(table[0]))
    first = value, vary_like(jnp.broadcast_to(place, value.shape), value)
    # Fenced, or XLA goes through the windows anew for each that asks.
    return fence(_through(step, first, table, None)[1])


def _greater(before: Any, after: Any, among: jax.typing.ArrayLike = True) -> Any:
    """The greater of two values, and its place; the first where they are equal."""
    greater = (after[0] > before[0]) | (jnp.isnan(after[0]) & ~jnp.isnan(before[0]))
    return tuple(jnp.where(greater & among, b, a) for a, b in zip(before, after, strict=True))


def _argmax_at_once(values: jax.Array, taps: WindowTable) -> jax.Array:
    """All taps of a window at a time, which needs as much memory as they are."""
    index = taps.index
    if taps.positions == np.arange(taps.inputs, dtype=np.int32).tobytes():
        read = values.reshape(values.shape[0], *taps.shape, values.shape[2])
    else:
        read = rows_at(values, np.maximum(index, 0))
    # NaNs by themselves: on a CPU, XLA may lose them in a maximum.
    inside, nan = (index >= 0)[None, :, :, None], jnp.isnan(read)
    number = jnp.where(inside & ~nan, read, lowest(values.dtype))
    greatest = number.max(axis=2, keepdims=True)
    among = jnp.where((inside & nan).any(axis=2, keepdims=True), nan, number == greatest)
    place = jnp.where(inside & among, index[None, :, :, None], taps.inputs).min(axis=2)
    return fence(jnp.where(place < taps.inputs, place, -1))


def _argmax_by_doubling(values: jax.Array, taps: WindowTable, step: int) -> jax.Array:
    """Of windows of evenly spaced taps, each of two of half its length that may overlap."""
    counts = taps.counts
    places = jnp.arange(taps.inputs, dtype=jnp.int32)[None, :, None]
    # For each position, the greatest of the ``length`` taps from it on; at the end, of any.
    best: Any = values, vary_like(jnp.broadcast_to(places, values.shape), values)
    shape = (values.shape[0], taps.outputs, values.shape[2])
    out = vary_like(jnp.full(shape, -1, jnp.int32), values)
    length = 1
    while True:
        ends = (length <= counts) & (counts < 2 * length)
        if ends.any():
            starts = np.where(ends, taps.index[:, 0], 0)
            lasts = np.where(ends, starts + (counts - length) * step, 0)
            halves = [tuple(rows_at(part, at) for part in best) for at in (starts, lasts)]
            out = jnp.where(ends[None, :, None], _greater(halves[0], halves[1])[1], out)
        if counts.max() < 2 * length:
            return fence(out)
        by = length * step
        moves = ((0, 0, 0), (-by, by, 0), (0, 0, 0))
        later = tuple(jax.lax.pad(part, jnp.zeros((), part.dtype), moves) for part in best)
        best = fence(_greater(best, later))
        length *= 2


def pick(values: jax.Array, index: jax.Array) -> jax.Array:
    """Elements of [outer, n, inner] at positions [outer, m, inner] of the middle axis."""
    return fence(jnp.take_along_axis(values, index, axis=1, mode="promise_in_bounds"))


def pick_on_cpu(values: jax.Array, index: jax.Array) -> jax.Array:
    """As ``pick``, where XLA before jax 0.11 fuses past every fence."""
    if values.size == 0:
        return pick(values, index)
    return _store_by_branch(functools.partial(pick, index=index), values)


def put_back(picked: jax.Array, index: jax.Array, *, taps: WindowTable) -> jax.Array:
    """The transpose of ``pick``: each element adds what was picked there, in ascending order."""
    inverse = taps.inverse
    position = jnp.arange(taps.inputs, dtype=index.dtype)[None, :, None]
    outer, _, inner = picked.shape
    shape = (outer, taps.inputs, inner)
    if picked.size == 0 or taps.inputs == 0:
        return jnp.zeros(shape, picked.dtype)
    if outer > inner and inverse.shape[1] > 2 * _UNROLLED:
        # A loop reads row by row: longer ones are much faster.
        turned = (
            jnp.moveaxis(part, 0, 2).reshape(1, -1, outer * inner) for part in (picked, index)
        )
        out = put_back(*turned, taps=taps).reshape(taps.inputs, inner, outer)
        return jnp.moveaxis(out, 2, 0)
    wide = convert(picked, accumulator(picked.dtype))

    def add(state: Any, window: jax.Array, _: None) -> Any:
        out, any_yet = state
        safe = jnp.maximum(window, 0)
        chosen, value = (rows_at(a, safe) for a in (index, wide))
        own = (window >= 0)[None, :, None] & (chosen == position)
        # The first term stands for itself: 0 plus -0 were another number.
        return jnp.where(own, jnp.where(any_yet, out + value, value), out), any_yet | own

    empty = jnp.zeros(shape, wide.dtype), jnp.zeros(shape, bool)
    nothing = tuple(vary_like(part, picked, index) for part in empty)
    table = inverse.index.T
    out = _through(add, add(nothing, jnp.asarray(table[0]), None), table, None)[0]
    return fence(convert(out, picked.dtype))


def put_back_on_cpu(picked: jax.Array, index: jax.Array, *, taps: WindowTable) -> jax.Array:
    """As ``put_back``, where XLA before jax 0.11 fuses past every fence."""
    if picked.size == 0:
        return put_back(picked, index, taps=taps)
    return _store_by_branch(functools.partial(put_back, index=index, taps=taps), picked)


def put_back_by_atomics(
    picked: jax.Array, index: jax.Array, *, taps: WindowTable, launch: Launch
) -> jax.Array:
    """The transpose of ``pick`` by one pass of atomics; as ``scatter_form``."""
    shape = (picked.shape[0], taps.inputs, picked.shape[2])
    large = max(picked.size, math.prod(shape)) > MAX_ELEMENTS
    if picked.size == 0 or large or not taps.overlapping:
        return put_back(picked, index, taps=taps)
    wide = convert(picked, accumulator(picked.dtype))
    zeros = vary_like(jnp.zeros(shape, wide.dtype), wide, index)
    out = scatter_kernels.atomic(zeros, index, wide, reduction=ADD, launch=launch)
    return convert(out, picked.dtype)
