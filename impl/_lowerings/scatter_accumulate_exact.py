"""Sums of scatter-accumulate in the order ``nearest``, which needs no order of contributions.

``impl._exact.sums.scatter`` adds. This module reshapes the operands for it: flat rows on one
device, and separate axes where XLA partitions the arrays, since a merged axis could not stay
sharded. A sum with one destination is a reduction, which needs no scatter.

    operand [1, 3, 2], indices [1, 4, 1], updates [1, 4, 2]    rows: [3, 2], [4], [4, 2]
    operand [5, 3, 2], indices [5, 4, 2], updates [5, 4, 2]    on one device: [30, 1], [40], [40, 1]
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
from impl._exact.sums import scatter
from impl._families.reductions import ADD, Reduction
from impl._kernels.launch import MAX_ELEMENTS, Launch, scheduled
from impl._lowerings.scatter_accumulate import (
    contributions,
    flat_offsets,
    on_parts,
    row_width,
)


def exact(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    target: scatter.Target,
    reduction: Reduction = ADD,
    launch: Launch | None = None,
    weights: jax.Array | None = None,
    sources: jax.Array | None = None,
    empty: bool = False,
) -> jax.Array:
    """Adds exactly; float16 and bfloat16 are rounded once, at the end.

    Args:
        operand: Floats or complex numbers, shape [outer, size, inner].
        indices: As in ``impl._lowerings.scatter_accumulate``.
        updates: As in that module.
        target: The platform, as in ``impl._exact.sums.scatter``. All give the same bits.
        reduction: The addition.
        launch: How kernels run; None for no kernels. In a schedule of tests, the contributions are
            permuted too.
        weights: As in ``impl._lowerings.scatter_accumulate``.
        sources: As in that module.
        empty: Whether the operand is all zeros, which kernels then need not write or read.

    Returns:
        Shape and dtype of ``operand``.
    """
    if operand.size == 0:
        return operand
    has_kernels = launch is not None and launch.has_kernels
    options: dict[str, Any] = {"target": target, "launch": launch, "empty": empty}
    options |= {"weights": weights, "sources": sources}
    if jnp.issubdtype(operand.dtype, jnp.complexfloating):
        run = functools.partial(exact, reduction=reduction)
        return by_parts(lambda o, u: on_parts(run, o, indices, u, options), operand, updates)
    if updates.size == 0:
        none = jnp.zeros((operand.shape[0], 0, operand.shape[2]), accumulator(operand.dtype))
        nowhere = jnp.zeros((1, 0, 1), jnp.int32)
        how = _How(target, launch if has_kernels else None, empty)
        return _add(operand, nowhere, vary_like(none, operand, updates), how)
    wide = accumulator(updates.dtype)
    if weights is not None:
        updates, weights = convert(updates, wide), convert(weights, wide)
    terms = contributions(updates, weights, sources, 0, indices.shape[1])
    if launch is not None and launch.seed:
        order = scheduled(launch.seed, indices.shape[1], salt=0)
        indices, terms = (jnp.take(a, order, axis=1, mode="clip") for a in (indices, terms))
    return _add(operand, indices, terms, _How(target, launch if has_kernels else None, empty))


@dataclasses.dataclass(frozen=True)
class _How:
    """How a sum is computed; the attributes are arguments of ``exact``."""

    target: scatter.Target
    launch: Launch | None
    empty: bool


exact_cpu = functools.partial(exact, target="cpu")
exact_device = functools.partial(exact, target="device")
exact_anywhere = functools.partial(exact, target="anywhere")


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
    if how.target == "anywhere" or max(operand.size, terms.size) > MAX_ELEMENTS:
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
    """Adds rows whose destination does not vary along the outer and inner axes."""
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
    batching = [axis for axis in (0, 2) if indices.shape[axis] > 1]
    index_axes = [axis for axis in range(3) if axis == 1 or axis in batching]
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(axis for axis in (0, 2) if axis not in batching),
        inserted_window_dims=(1,),
        scatter_dims_to_operand_dims=(1,),
        operand_batching_dims=tuple(batching),
        scatter_indices_batching_dims=tuple(index_axes.index(axis) for axis in batching),
    )
    rows = indices.reshape([indices.shape[axis] for axis in index_axes])
    return _scatter(operand, rows, terms, numbers, how)


def _scatter(
    operand: jax.Array,
    rows: jax.Array,
    terms: jax.Array,
    numbers: ScatterDimensionNumbers,
    how: _How,
) -> jax.Array:
    # No index is negative, and a contribution to be dropped has an index beyond the last row.
    return scatter.scatter_add(
        operand,
        rows[..., None],
        terms,
        dimension_numbers=numbers,
        mode=GatherScatterMode.FILL_OR_DROP,
        target=how.target,
    )
