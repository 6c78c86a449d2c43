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
import numpy.typing as npt

from impl.kernels import scatter as scatter_kernels
from impl.kernels import windows as kernels
from impl.kernels.launch import MAX_ELEMENTS, Launch
from impl.manual_axes import vary_like
from impl.monoids import ADD
from impl.numerics import accumulator, convert, identity, product
from impl.taps import Taps

#: How many taps are written out; more are gone through by a loop over so many at a time.
_UNROLLED = 16

Windows = tuple[Taps, ...]


def gather_form(values: jax.Array, *, taps: Windows, transposed: bool) -> jax.Array:
    """[lanes, *inputs] to [lanes, *outputs], or back where ``transposed``.

    Forward the last dimension goes first, and so in the transpose the first.
    """
    out = convert(values, accumulator(values.dtype))
    dims = range(len(taps)) if transposed else reversed(range(len(taps)))
    for dim in dims:
        table = taps[dim].inverse if transposed else taps[dim]
        out = along(out, dim + 1, table)
    return convert(out, values.dtype)


def along(values: jax.Array, axis: int, taps: Taps) -> jax.Array:
    """Sums over windows of one axis: the first tap, plus the second, and so on; 0 without taps."""
    index, weight = taps.index.T, taps.weight
    factors = None if weight is None else jnp.asarray(weight.T, values.dtype)
    three = values.reshape(math.prod(values.shape[:axis]), values.shape[axis], -1)

    def term(index: jax.Array, factor: jax.Array | None) -> jax.Array:
        read = three.at[:, jnp.maximum(index, 0)].get(mode="promise_in_bounds")
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
        return add(total, table[t], None if factors is None else factors[t])

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
    large = max(values.size, values.shape[0] * math.prod(sizes)) > MAX_ELEMENTS
    shared = any(t.overlapping for t in taps)
    if not transposed or not shared or values.size == 0 or large:
        return gather_form(values, taps=taps, transposed=transposed)
    wide = convert(values, accumulator(values.dtype))
    return convert(kernels.spread(wide, taps, launch=launch), values.dtype)


def argmax(values: jax.Array, taps: Taps) -> jax.Array:
    """Position of the greatest of each window along the middle axis, the lowest of equals."""
    outer, _, inner = values.shape

    def take(state: Any, index: jax.Array, _: None) -> Any:
        best, where = state
        value = values.at[:, jnp.maximum(index, 0)].get(mode="promise_in_bounds")
        place = index[None, :, None]
        greater = (value > best) | (jnp.isnan(value) & ~jnp.isnan(best))
        greater = greater & (place >= 0)
        return jnp.where(greater, value, best), jnp.where(greater, place, where)

    table = taps.index.T
    first = jnp.broadcast_to(jnp.asarray(table[0])[None, :, None], (outer, taps.outputs, inner))
    best = values.at[:, jnp.maximum(table[0], 0)].get(mode="promise_in_bounds")
    return _through(take, (best, vary_like(first, values)), table, None)[1]  # type: ignore[no-any-return]


def pick(values: jax.Array, index: jax.Array) -> jax.Array:
    """Elements of [outer, n, inner] at positions [outer, m, inner] of the middle axis."""
    return jnp.take_along_axis(values, index, axis=1, mode="promise_in_bounds")


def put_back(picked: jax.Array, index: jax.Array, *, taps: Taps) -> jax.Array:
    """The transpose of ``pick``: each element adds what was picked there, in ascending order."""
    wide = convert(picked, accumulator(picked.dtype))
    inverse = taps.inverse
    position = jnp.arange(taps.inputs, dtype=index.dtype)[None, :, None]
    outer, _, inner = picked.shape
    shape = (outer, taps.inputs, inner)
    if picked.size == 0 or taps.inputs == 0:
        return jnp.zeros(shape, picked.dtype)

    def add(state: Any, window: jax.Array, _: None) -> Any:
        out, any_yet = state
        safe = jnp.maximum(window, 0)
        chosen, value = (a.at[:, safe].get(mode="promise_in_bounds") for a in (index, wide))
        own = (window >= 0)[None, :, None] & (chosen == position)
        return jnp.where(own, out + value, out), any_yet | own

    # The first term stands for itself: -0 plus it has its bits.
    empty = jnp.full(shape, identity(wide.dtype), wide.dtype), jnp.zeros(shape, bool)
    nothing = tuple(vary_like(part, picked, index) for part in empty)
    table = inverse.index.T
    out, any_yet = _through(add, add(nothing, jnp.asarray(table[0]), None), table, None)
    return convert(jnp.where(any_yet, out, jnp.zeros_like(out)), picked.dtype)


def put_back_by_atomics(
    picked: jax.Array, index: jax.Array, *, taps: Taps, launch: Launch
) -> jax.Array:
    """The transpose of ``pick`` by one pass of atomics."""
    shape = (picked.shape[0], taps.inputs, picked.shape[2])
    if picked.size == 0 or max(picked.size, math.prod(shape)) > MAX_ELEMENTS:
        return put_back(picked, index, taps=taps)
    wide = convert(picked, accumulator(picked.dtype))
    zeros = vary_like(jnp.zeros(shape, wide.dtype), wide, index)
    out = scatter_kernels.atomic(zeros, index, wide, monoid=ADD, launch=launch)
    return convert(out, picked.dtype)
