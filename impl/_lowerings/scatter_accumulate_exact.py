"""Sums of scatter-accumulate in the spec's order ``exact``, which needs no order of contributions.

``impl._exact.sums.scatter`` adds. What is here gives it a scatter in the form that suits the place:
flat rows on one device, and axes of their own where XLA cuts the arrays. A sum with one destination
is a reduction, in which no two contributions meet in memory.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import GatherScatterMode, ScatterDimensionNumbers

from impl._core.axes import within
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, by_parts, convert, fence
from impl._core.shard_axes import vary_like
from impl._exact.sums import reduction as sums
from impl._exact.sums import scatter, scatter_sorted
from impl._families.reductions import ADD, Reduction
from impl._kernels.launch import MAX_ELEMENTS, Launch, scheduled
from impl._lowerings.scatter_accumulate import (
    contributions,
    flat_offsets,
    flat_sources,
    on_parts,
    row_width,
)


def exact(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    place: scatter.Place,
    reduction: Reduction = ADD,
    launch: Launch | None = None,
    weights: jax.Array | None = None,
    sources: jax.Array | None = None,
    empty: bool = False,
) -> jax.Array:
    """Adds exactly; float16 and bfloat16 are rounded once, at the end.

    Args:
        operand: Floats or complex numbers, shape [outer, size, inner].
        indices: As ``impl._lowerings.scatter_accumulate`` takes them.
        updates: As it takes them.
        place: Where it runs, as ``impl._exact.sums.scatter`` takes it. All give the same bits.
        reduction: The addition.
        launch: How kernels run; None if there are none. In a schedule of tests, the contributions
            are permuted too.
        weights: As ``impl._lowerings.scatter_accumulate`` takes them.
        sources: As it takes them.
        empty: Whether the operand is zeros, which kernels then neither write nor read.

    Returns:
        Shape and dtype of ``operand``.
    """
    if operand.size == 0:
        return operand
    options: dict[str, Any] = {"place": place, "launch": launch, "empty": empty}
    options |= {"weights": weights, "sources": sources}
    if jnp.issubdtype(operand.dtype, jnp.complexfloating):
        run = functools.partial(exact, reduction=reduction)
        return by_parts(lambda o, u: on_parts(run, o, indices, u, options), operand, updates)
    if updates.size == 0:
        none = jnp.zeros((operand.shape[0], 0, operand.shape[2]), accumulator(operand.dtype))
        nowhere = jnp.zeros((1, 0, 1), jnp.int32)
        how = _How(place, launch, empty)
        return _add(operand, nowhere, vary_like(none, operand, updates), how)
    if weights is not None and launch is not None and _is_wide(operand, indices):
        products = functools.partial(_products, launch=launch, empty=empty)
        return products(operand, indices, updates, weights, sources)
    wide = accumulator(updates.dtype)
    if weights is not None:
        updates, weights = convert(updates, wide), convert(weights, wide)
    terms = contributions(updates, weights, sources, 0, indices.shape[1])
    if launch is not None and launch.seed:
        order = scheduled(launch.seed, indices.shape[1], salt=0)
        indices, terms = (jnp.take(a, order, axis=1, mode="clip") for a in (indices, terms))
    return _add(operand, indices, terms, _How(place, launch, empty))


@dataclasses.dataclass(frozen=True)
class _How:
    """How a sum is computed; the attributes are arguments of ``exact``."""

    place: scatter.Place
    launch: Launch | None
    empty: bool


def _is_wide(operand: jax.Array, indices: jax.Array) -> bool:
    """Returns whether kernels add the rows of a sum of products."""
    width = row_width(operand, indices)
    size, count = operand.size // width, operand.shape[0] * indices.shape[1]
    fits = max(operand.size, count) <= MAX_ELEMENTS
    return fits and scatter_sorted.suits(size, width, count, operand.dtype)


def _products(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    weights: jax.Array,
    sources: jax.Array | None,
    *,
    launch: Launch,
    empty: bool,
) -> jax.Array:
    """Adds products of rows and weights, which are in no array."""
    outer, rows, width = updates.shape
    count = weights.shape[1]
    if sources is None:
        row = jnp.arange(count, dtype=jnp.int32) // (count // rows)
        sources = jnp.broadcast_to(row, weights.shape)
    indices = jnp.broadcast_to(indices, (outer, *indices.shape[1:]))
    if launch.seed:
        order = scheduled(launch.seed, count, salt=0)
        indices, weights, sources = (
            jnp.take(a, order, axis=1, mode="clip") for a in (indices, weights, sources)
        )
    out = scatter_sorted.add_by_runs(
        operand.reshape(-1, width),
        flat_offsets(operand, indices),
        updates.reshape(-1, width),
        launch,
        sources=flat_sources(sources, updates),
        factors=convert(weights, accumulator(weights.dtype)).reshape(-1),
        empty=empty,
    )
    return out.reshape(operand.shape)


exact_cpu = functools.partial(exact, place="cpu")
exact_device = functools.partial(exact, place="device")
exact_anywhere = functools.partial(exact, place="anywhere")


def _add(
    operand: jax.Array,
    indices: jax.Array,
    terms: jax.Array,
    how: _How,
) -> jax.Array:
    """Adds contributions of shape [outer, n, inner]."""
    size = operand.shape[1]
    if size == 1:
        return _reduced(operand, indices, terms)
    if indices.shape[0] == indices.shape[2] == 1:
        return _shared(operand, within(indices[0, :, 0], size), terms, how)
    if how.place == "anywhere" or max(operand.size, terms.size) > MAX_ELEMENTS:
        return _by_axes(operand, within(indices, size), terms, how)
    width = row_width(operand, indices)
    numbers = ScatterDimensionNumbers((1,), (0,), (0,))
    out = _scatter(
        operand.reshape(-1, width),
        flat_offsets(operand, indices),
        terms.reshape(-1, width),
        numbers,
        how,
    )
    return out.reshape(operand.shape)


def _reduced(operand: jax.Array, indices: jax.Array, terms: jax.Array) -> jax.Array:
    """Adds to the one destination."""
    inside = jnp.broadcast_to(indices == 0, terms.shape)
    first = operand.astype(terms.dtype)
    terms = jnp.concatenate([first, where(inside, terms, 0)], axis=1)
    # Without the fence, XLA would compute the terms again for each digit.
    return sums.reduce_sum(fence(terms), (1,), operand.dtype)[:, None]


def _shared(
    operand: jax.Array,
    rows: jax.Array,
    terms: jax.Array,
    how: _How,
) -> jax.Array:
    """Adds rows, whose destinations all elements of the outer and inner axes share."""
    outer, _, inner = operand.shape
    if outer > 1:
        return _scatter(operand, rows, terms, ScatterDimensionNumbers((0, 2), (1,), (1,)), how)
    if inner > 1:
        numbers = ScatterDimensionNumbers((1,), (0,), (0,))
        return _scatter(operand[0], rows, terms[0], numbers, how)[None]
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    out = _scatter(operand[0, :, 0], rows, terms[0, :, 0], numbers, how)
    return out[None, :, None]


def _by_axes(
    operand: jax.Array,
    indices: jax.Array,
    terms: jax.Array,
    how: _How,
) -> jax.Array:
    """Adds along the middle axis, whose destinations differ along the outer or the inner axis."""
    has_outer, has_inner = (indices.shape[axis] > 1 for axis in (0, 2))
    own = [axis for axis, has in ((0, has_outer), (2, has_inner)) if has]
    kept = [axis for axis in range(3) if axis == 1 or axis in own]
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(axis for axis in (0, 2) if axis not in own),
        inserted_window_dims=(1,),
        scatter_dims_to_operand_dims=(1,),
        operand_batching_dims=tuple(own),
        scatter_indices_batching_dims=tuple(kept.index(axis) for axis in own),
    )
    rows = indices.reshape([indices.shape[axis] for axis in kept])
    return _scatter(operand, rows, terms, numbers, how)


def _scatter(
    operand: jax.Array,
    rows: jax.Array,
    terms: jax.Array,
    numbers: ScatterDimensionNumbers,
    how: _How,
) -> jax.Array:
    # No index is negative, and that of a contribution to drop is beyond the last row.
    return scatter.scatter_add(
        operand,
        rows[..., None],
        terms,
        dimension_numbers=numbers,
        mode=GatherScatterMode.FILL_OR_DROP,
        place=how.place,
        launch=how.launch,
        empty=how.empty,
    )
