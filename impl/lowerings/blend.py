"""Blends: every way to compute the three forms of their sum.

``values`` are [outer, size, inner], ``weights`` and ``indices`` [outer, n, k], ``sums``
[outer, n, inner]. Indices outside [0, size) have no part in anything.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from impl.lowerings.scatter import Scatter
from impl.manual_axes import vary_like
from impl.monoids import ADD
from impl.numerics import product

#: How many columns are written out; more are gone through by a loop over so many at a time.
_UNROLLED = 16


def blend(
    values: jax.Array, weights: jax.Array, indices: jax.Array, *, size: int, **_: Any
) -> jax.Array:
    """The sums: the first product, plus the second, and so on; one left out counts as 0."""
    outer, n, taps = indices.shape
    if values.size == 0 or indices.size == 0:
        return _zeros((outer, n, values.shape[2]), values, weights, indices)

    def term(k: int) -> jax.Array:
        inside, read = _read(values, indices[:, :, k : k + 1], size)
        return jnp.where(inside, product(read, weights[:, :, k : k + 1]), 0)

    return functools.reduce(jnp.add, map(term, range(taps)))


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
        monoid=ADD,
        weights=weights.reshape(outer, n * taps),
        **options,
    )


def match(
    values: jax.Array, sums: jax.Array, indices: jax.Array, *, size: int, **_: Any
) -> jax.Array:
    """Products of rows of values and sums, added from the first column to the last."""
    outer, n, taps = indices.shape
    inner = values.shape[2]
    if values.size == 0 or indices.size == 0:
        return _zeros(indices.shape, values, sums, indices)

    def columns(start: jax.Array | int, count: int) -> list[list[jax.Array]]:
        """Products of a few columns, for each tap."""
        own = jax.lax.dynamic_slice_in_dim(values, start, count, axis=2)
        cotangent = jax.lax.dynamic_slice_in_dim(sums, start, count, axis=2)
        reads = [_read(own, indices[:, :, k : k + 1], size)[1] for k in range(taps)]
        return [[product(r[..., c], cotangent[..., c]) for c in range(count)] for r in reads]

    def add(block: jax.Array, totals: list[jax.Array]) -> list[jax.Array]:
        terms = columns(block * _UNROLLED, _UNROLLED)
        return [functools.reduce(jnp.add, t, one) for one, t in zip(totals, terms, strict=True)]

    first = inner % _UNROLLED or _UNROLLED
    totals = [functools.reduce(jnp.add, terms) for terms in columns(0, first)]
    if inner > first:
        rest = (inner - first) // _UNROLLED
        shift = functools.partial(jax.lax.dynamic_slice_in_dim, start_index=first, axis=2)
        values, sums = (shift(a, slice_size=inner - first) for a in (values, sums))
        totals = jax.lax.fori_loop(0, rest, add, totals)
    inside = (indices >= 0) & (indices < size)
    return jnp.where(inside, jnp.stack(totals, axis=2), 0)


def _read(values: jax.Array, index: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """Whether each index [outer, n, 1] is of a row, and that row, or another."""
    inside = (index >= 0) & (index < size)
    safe = jnp.where(inside, index, 0)
    return inside, jnp.take_along_axis(values, safe, axis=1, mode="promise_in_bounds")


def _zeros(shape: tuple[int, ...], *operands: jax.Array) -> jax.Array:
    return vary_like(jnp.zeros(shape, operands[0].dtype), *operands)
