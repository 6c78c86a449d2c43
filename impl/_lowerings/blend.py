"""Blends: every way to compute the three forms of their sum.

``values`` are [outer, size, inner], ``weights`` and ``indices`` [outer, n, k], ``sums``
[outer, n, inner]. Indices outside [0, size) have no part in anything.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from impl._core.numerics import identity, product
from impl._core.reductions import ADD
from impl._core.shard_axes import vary_like
from impl._lowerings.scatter_accumulate import Scatter

#: How many columns are written out; more are gone through by a loop over so many at a time.
_UNROLLED = 16


def blend(
    values: jax.Array, weights: jax.Array, indices: jax.Array, *, size: int, **_: Any
) -> jax.Array:
    """The sums: the first product, plus the second, and so on; one left out counts as 0."""
    outer, n, taps = indices.shape
    if values.size == 0 or indices.size == 0:
        return _zeros((outer, n, values.shape[2]), values, weights, indices)
    # Else XLA computes them anew for every column.
    indices, weights = jax.lax.optimization_barrier((indices, weights))

    def term(k: int) -> jax.Array:
        inside, read = _read(values, indices[:, :, k : k + 1], size)
        return jnp.where(inside, product(read, weights[:, :, k : k + 1]), 0)

    return functools.reduce(jnp.add, map(term, range(taps)))


def blend_on_cpu(
    values: jax.Array, weights: jax.Array, indices: jax.Array, *, size: int, **_: Any
) -> jax.Array:
    """The same, where XLA heeds no barrier before jax 0.12, but does not look into branches."""
    if values.size == 0 or indices.size == 0:
        return blend(values, weights, indices, size=size)

    def plainly(indices: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        inside = (indices >= 0) & (indices < size)
        return jnp.where(inside, indices, -1), jnp.where(inside, weights, 0)

    # Which of them it is says nothing: they mean the same.
    held = jax.lax.cond(indices[0, 0, 0] < size, lambda *both: both, plainly, indices, weights)
    return blend(values, held[1], held[0], size=size)


def unblend(
    scatter: Scatter,
    weights: jax.Array,
    sums: jax.Array,
    indices: jax.Array,
    *,
    size: int,
    **options: Any,
) -> jax.Array:
    """What each row of the values has a share in: contributions by position, and then by tap."""
    outer, n, taps = indices.shape
    zeros = _zeros((outer, size, sums.shape[2]), sums, weights, indices)
    if taps == 0:
        return zeros
    return scatter(
        zeros,
        indices.reshape(outer, n * taps, 1),
        sums,
        reduction=ADD,
        weights=weights.reshape(outer, n * taps),
        **options,
    )


def match_at_once(
    values: jax.Array, sums: jax.Array, indices: jax.Array, *, size: int, **_: Any
) -> jax.Array:
    """Products of rows of values and sums, added from the first column to the last."""
    return _match(values, sums, indices, lambda tap, *taps: jnp.stack(list(map(tap, *taps))))


def match_by_tap(
    values: jax.Array, sums: jax.Array, indices: jax.Array, *, size: int, **_: Any
) -> jax.Array:
    """The same, for a CPU, which keeps what is read: it reads for one tap at a time."""
    return _match(
        values, sums, indices, lambda tap, *taps: jax.lax.map(lambda one: tap(*one), taps)
    )


def _match(
    values: jax.Array, sums: jax.Array, indices: jax.Array, over: Callable[..., jax.Array]
) -> jax.Array:
    size, inner = values.shape[1:]
    if values.size == 0 or indices.size == 0:
        return _zeros(indices.shape, values, sums, indices)
    by_tap = jnp.moveaxis(indices, 2, 0)[..., None]

    def add(start: jax.Array | int, count: int, totals: jax.Array) -> jax.Array:
        """Adds products of a few columns, for each tap."""
        own = jax.lax.dynamic_slice_in_dim(values, start, count, axis=2)
        cotangent = jax.lax.dynamic_slice_in_dim(sums, start, count, axis=2)

        def tap(index: jax.Array, total: jax.Array) -> jax.Array:
            read = _read(own, index, size)[1]
            terms = (product(read[..., c], cotangent[..., c]) for c in range(count))
            return functools.reduce(jnp.add, terms, total)

        return over(tap, by_tap, totals)

    none = jnp.full(by_tap.shape[:-1], identity(values.dtype), values.dtype)
    first = inner % _UNROLLED or _UNROLLED
    totals = add(0, first, vary_like(none, values, sums, indices))
    if inner > first:

        def block(step: jax.Array, totals: jax.Array) -> jax.Array:
            return add(first + step * _UNROLLED, _UNROLLED, totals)

        totals = jax.lax.fori_loop(0, (inner - first) // _UNROLLED, block, totals)
    inside = (indices >= 0) & (indices < size)
    return jnp.where(inside, jnp.moveaxis(totals, 0, 2), 0)


def _read(values: jax.Array, index: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """Whether each index [outer, n, 1] is of a row, and that row, or another."""
    inside = (index >= 0) & (index < size)
    safe = jnp.where(inside, index, 0)
    return inside, jnp.take_along_axis(values, safe, axis=1, mode="promise_in_bounds")


def _zeros(shape: tuple[int, ...], *operands: jax.Array) -> jax.Array:
    return vary_like(jnp.zeros(shape, operands[0].dtype), *operands)
