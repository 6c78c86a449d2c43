"""Lowerings of scatter-accumulate in the spec's panel order.

Contributions are sorted into chains, which are folded in order. Arguments and results are as in
``impl._lowerings.scatter_accumulate``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import spec
from impl import _kernels
from impl._core.axes import within
from impl._core.numerics import fence
from impl._core.shard_axes import vary_like
from impl._families.reductions import Reduction
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl._lowerings import scatter_accumulate_chains
from impl._lowerings.scatter_accumulate import flat_offsets, in_accumulator_dtype, row_width

#: The number of elements of panel results that a GPU keeps at once, unless one panel has more.
_PARTS = 1 << 22


def panel_length(destinations: int) -> int:
    """Returns the length of a panel in the spec's panel order."""
    minimum = spec.load().orders["panel"].parameters["minimum"]
    return max(minimum, 1 << (destinations - 1).bit_length() if destinations > 1 else 1)


@in_accumulator_dtype
def ordered_xla(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, reduction: Reduction
) -> jax.Array:
    """Computes the panel order without a scatter, since some devices scatter in any order."""
    return _fold_contributions(
        operand,
        indices,
        updates,
        functools.partial(scatter_accumulate_chains.fold_chains, reduction=reduction),
        functools.partial(scatter_accumulate_chains.fold_panels, reduction=reduction),
        reduction,
    )


@in_accumulator_dtype
def ordered_kernel(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    launch: Launch,
) -> jax.Array:
    """Computes the panel order by kernels, with one lane for each chain."""
    if not launch.has_kernels:
        return ordered_xla(operand, indices, updates, reduction=reduction)
    options: dict[str, Any] = {"reduction": reduction, "launch": launch}
    return _fold_contributions(
        operand,
        indices,
        updates,
        functools.partial(_kernels.scatter_accumulate.fold_chains, **options),
        functools.partial(_kernels.scatter_accumulate.fold_panels, **options),
        reduction,
    )


def _fold_contributions(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    fold_chains: Callable[..., jax.Array],
    fold_panels: Callable[..., jax.Array],
    reduction: Reduction,
) -> jax.Array:
    """Sorts contributions into chains, folds these, and combines the result with the operand."""
    outer, size, inner = operand.shape
    if max(operand.size, updates.size, indices.size) > MAX_ELEMENTS:
        raise NotImplementedError(
            f"scatter of {updates.size} updates into {operand.size} elements: the ordered path "
            f"takes at most {MAX_ELEMENTS} of each; split the operand or the updates"
        )
    n = indices.shape[1]
    # A panel may be longer than all contributions together, and its length may not fit into int32.
    length = min(panel_length(size), n)
    panels = -(-n // length)
    shared = indices.shape == (1, n, 1)
    if shared:
        lanes, rows = 1, size
        destination = within(indices[0, :, 0], size).astype(jnp.int32)
        source = jnp.moveaxis(updates, 1, 0).reshape(-1, outer * inner)
        initial = jnp.moveaxis(operand, 1, 0).reshape(size, outer * inner)
    else:
        width = row_width(operand, indices)
        lanes = inner // width
        rows = outer * size * lanes
        destination = flat_offsets(operand, indices)
        source, initial = updates.reshape(-1, width), operand.reshape(-1, width)

    def panel_of(position: jax.Array) -> jax.Array:
        return position // lanes % n // length

    table = scatter_accumulate_chains.chain_table(destination, panel_of, (rows, panels))
    total = _fold_table(table, source, initial, panels, reduction, fold_chains, fold_panels)
    out = reduction.combine(fence(initial), total)
    if shared:
        return jnp.moveaxis(out.reshape(size, outer, inner), 0, 1)
    return out.reshape(operand.shape)


def _fold_table(
    table: tuple[jax.Array, jax.Array, jax.Array],
    source: jax.Array,
    initial: jax.Array,
    panels: int,
    reduction: Reduction,
    fold_chains: Callable[..., jax.Array],
    fold_panels: Callable[..., jax.Array],
) -> jax.Array:
    """Folds the chains of a few panels at a time, so that panel results do not fill the memory."""
    *bounds, positions = table
    total = vary_like(reduction.full(initial.shape, initial.dtype), initial, source, positions)
    group = min(panels, max(1, _PARTS // initial.size))
    groups = -(-panels // group)
    empty_chains = [(0, 0), (0, groups * group - panels)]
    start, end = (jnp.pad(bound.reshape(-1, panels), empty_chains) for bound in bounds)

    def step(k: jax.Array, total: jax.Array) -> jax.Array:
        some = [
            jax.lax.dynamic_slice_in_dim(bound, k * group, group, axis=1).reshape(-1)
            for bound in (start, end)
        ]
        parts = fold_chains(*some, positions, source)
        return fold_panels(parts.reshape(-1, group, source.shape[1]), total)

    if groups == 1:
        return step(jnp.int32(0), total)
    return jax.lax.fori_loop(0, groups, step, total)  # type: ignore[no-any-return]
