"""Lowerings of the three forms of a blend, such as an interpolation between rows.

A sum ``s`` has taps ``t``. Each form is a derivative of another one:

    sums[s]        =  the sum over t of weights[s, t] * values[indices[s, t]]
    values[i]      =  the sum over all s and t with indices[s, t] == i of weights[s, t] * sums[s]
    weights[s, t]  =  dot(values[indices[s, t]], sums[s])

``values`` are [outer, size, inner], ``weights`` and ``indices`` [outer, n, k], ``sums``
[outer, n, inner]. A tap whose index is outside [0, size) is left out of every form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from impl._core.axes import elements_at, is_inside
from impl._core.jax_internals.releases import FENCES_HOLD
from impl._core.lax_functions import where
from impl._core.numerics import fence, identity, product
from impl._core.shard_axes import vary_like
from impl._families.reductions import ADD
from impl._lowerings.scatter_accumulate import Scatter

#: The number of columns that are unrolled; a loop goes through more, this many at a time.
_UNROLLED = 16


def sums_xla(
    values: jax.Array, weights: jax.Array, indices: jax.Array, *, size: int, **_: Any
) -> jax.Array:
    """Computes the sums, from the first tap to the last; a tap that is left out adds 0."""
    outer, n, taps = indices.shape
    if values.size == 0 or indices.size == 0:
        return _zeros((outer, n, values.shape[2]), values, weights, indices)
    # Without the barrier XLA computes indices and weights again for every column.
    indices, weights = jax.lax.optimization_barrier((indices, weights))

    of_taps = [jnp.split(part, taps, axis=2) for part in (*_rows(indices, size), weights)]
    return _sum_of_taps(values, *of_taps)


def _sum_of_taps(
    values: jax.Array,
    rows: Sequence[jax.Array],
    inside: Sequence[jax.Array],
    weights: Sequence[jax.Array],
) -> jax.Array:
    """Computes the sums from the rows and weights of each tap, of shape [outer, n, 1]."""

    def term(row: jax.Array, counts: jax.Array, weight: jax.Array) -> jax.Array:
        return where(counts, product(elements_at(values, row), weight), 0)

    return functools.reduce(jnp.add, map(term, rows, inside, weights))


def sums_cpu(
    values: jax.Array, weights: jax.Array, indices: jax.Array, *, size: int, **_: Any
) -> jax.Array:
    """Computes ``sums_xla`` with rows and weights in memory, since they depend on no column.

    Otherwise XLA for a CPU would compute them again for each column. They are stored as arrays of
    one dimension, one tap after another, so that a loop over positions reads neighbours. An array
    of more dimensions would be stored in the order in which XLA computes it.
    """
    if values.size == 0 or indices.size == 0:
        return sums_xla(values, weights, indices, size=size)
    outer, n, taps = indices.shape
    parts = (*_rows(indices, size), weights)
    flat = tuple(jnp.moveaxis(part, 2, 0).reshape(-1) for part in parts)
    stored = _apart(flat)
    return _sum_of_taps(values, *(list(part.reshape(taps, outer, n, 1)) for part in stored))


def _apart(parts: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Returns arrays that XLA puts into memory: behind fences, or before jax 0.11 by a branch."""
    if FENCES_HOLD:
        return tuple(map(fence, parts))
    number = parts[0][0].astype(jnp.int32)
    # The product of neighbours is even, which XLA does not know.
    always = (number * (number + 1)) & 1 == 0

    def never(parts: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        return tuple(vary_like(jnp.zeros(part.shape, part.dtype), *parts) for part in parts)

    of_branch = tuple(vary_like(part, *parts) for part in parts)
    return jax.lax.cond(always, lambda parts: parts, never, of_branch)  # type: ignore[no-any-return]


def values_by_scatter(
    scatter: Scatter,
    weights: jax.Array,
    sums: jax.Array,
    indices: jax.Array,
    *,
    size: int,
    **options: Any,
) -> jax.Array:
    """Adds the contributions of weights and sums to rows of values, by position, then by tap."""
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


def weights_xla(
    values: jax.Array, sums: jax.Array, indices: jax.Array, *, size: int, **_: Any
) -> jax.Array:
    """Adds products of rows of values and sums, from the first column to the last."""
    return _weights(values, sums, indices, lambda tap, *taps: jnp.stack(list(map(tap, *taps))))


def weights_cpu(
    values: jax.Array, sums: jax.Array, indices: jax.Array, *, size: int, **_: Any
) -> jax.Array:
    """Computes ``weights_xla`` one tap after another: the rows of a tap stay in a CPU's cache."""
    return _weights(
        values, sums, indices, lambda tap, *taps: jax.lax.map(lambda args: tap(*args), taps)
    )


def _weights(
    values: jax.Array, sums: jax.Array, indices: jax.Array, map_taps: Callable[..., jax.Array]
) -> jax.Array:
    """Computes the weights; ``map_taps`` applies a function to each tap."""
    size, inner = values.shape[1:]
    if values.size == 0 or indices.size == 0:
        return _zeros(indices.shape, values, sums, indices)
    by_tap = jnp.moveaxis(indices, 2, 0)[..., None]

    def add(start: jax.Array | int, count: int, totals: jax.Array) -> jax.Array:
        """Adds the products of ``count`` columns to the total of each tap."""
        columns = jax.lax.dynamic_slice_in_dim(values, start, count, axis=2)
        factors = jax.lax.dynamic_slice_in_dim(sums, start, count, axis=2)

        def tap(index: jax.Array, total: jax.Array) -> jax.Array:
            rows = elements_at(columns, _rows(index, size)[0])
            terms = (product(rows[..., c], factors[..., c]) for c in range(count))
            return functools.reduce(jnp.add, terms, total)

        return map_taps(tap, by_tap, totals)

    initial = jnp.full(by_tap.shape[:-1], identity(values.dtype), values.dtype)
    first = inner % _UNROLLED or _UNROLLED
    totals = add(0, first, vary_like(initial, values, sums, indices))
    if inner > first:

        def block(step: jax.Array, totals: jax.Array) -> jax.Array:
            return add(first + step * _UNROLLED, _UNROLLED, totals)

        totals = jax.lax.fori_loop(0, (inner - first) // _UNROLLED, block, totals)
    return where(_rows(indices, size)[1], jnp.moveaxis(totals, 0, 2), 0)


def _rows(indices: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """Returns a row for each index, 0 for an index outside, and whether the index is inside."""
    inside = is_inside(indices, size)
    return where(inside, indices, 0), inside


def _zeros(shape: tuple[int, ...], *operands: jax.Array) -> jax.Array:
    return vary_like(jnp.zeros(shape, operands[0].dtype), *operands)
