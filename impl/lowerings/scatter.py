"""Scatter-accumulate: every way to compute its two paths.

All take ``operand`` [outer, size, inner], ``indices`` [outer or 1, n, inner or 1] and ``updates``
[outer, n, inner], and return the operand with updates added along the middle axis, or combined by
another monoid. Indices outside [0, size) are dropped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import spec
from impl.kernels import scatter as kernels
from impl.kernels.launch import MAX_ELEMENTS, Launch
from impl.layout import within
from impl.lowerings import chains
from impl.manual_axes import vary_like
from impl.monoids import ADD, Monoid
from impl.numerics import accumulator, by_parts, convert, fence

Scatter = Callable[..., jax.Array]

# How many panel results are kept at a time on a CPU: they stay within its second-level cache.
_KEPT = 65536


def panel_length(destinations: int) -> int:
    """Length of a panel; the rule is that of the spec's panel order."""
    minimum = spec.load().orders["panel"].parameters["minimum"]
    return max(minimum, 1 << (destinations - 1).bit_length() if destinations > 1 else 1)


def accumulating(function: Scatter) -> Scatter:
    """Gives ``function`` operands of its accumulator type, and complex ones by parts."""

    @functools.wraps(function)
    def run(
        operand: jax.Array, indices: jax.Array, updates: jax.Array, *, monoid: Monoid, **rest: Any
    ) -> jax.Array:
        options = {"monoid": monoid, **rest}
        if updates.size == 0 or operand.size == 0:
            return operand
        if jnp.issubdtype(operand.dtype, jnp.complexfloating):
            if monoid is not ADD:
                raise NotImplementedError(f"complex numbers are not combined by {monoid.name!r}")
            return by_parts(lambda o, u: _stacked(run, o, indices, u, options), operand, updates)
        wide = accumulator(operand.dtype)
        out = function(convert(operand, wide), indices, convert(updates, wide), **options)
        return convert(out, operand.dtype)

    return run


def _stacked(
    run: Scatter,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    options: dict[str, Any],
) -> jax.Array:
    """Folds a leading axis of parts into the outer axis."""
    if indices.shape[0] > 1:
        indices = jnp.concatenate([indices, indices])
    out = run(
        operand.reshape(2 * operand.shape[1], *operand.shape[2:]),
        indices,
        updates.reshape(2 * updates.shape[1], *updates.shape[2:]),
        **options,
    )
    return out.reshape(operand.shape)


@accumulating
def xla_atomic(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, monoid: Monoid
) -> jax.Array:
    """XLA's own scatter: serial on a CPU, atomic on a GPU."""
    return scatter_by(monoid, operand, indices, updates)


def scatter_by(
    monoid: Monoid, operand: jax.Array, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """XLA's scatter, in the form that is the fastest on a CPU."""

    def scatter(target: Any, values: jax.Array) -> jax.Array:
        return getattr(target, monoid.name)(values, mode="drop")  # type: ignore[no-any-return]

    outer, size, inner = operand.shape
    if indices.shape == (1, updates.shape[1], 1):
        rows = within(indices[0, :, 0], size)
        if outer == 1:
            return scatter(operand[0].at[rows], updates[0])[None]
        return scatter(operand.at[:, rows], updates)
    if operand.size > MAX_ELEMENTS:
        full = jnp.broadcast_to(within(indices, size), updates.shape)
        a = jnp.arange(outer)[:, None, None]
        b = jnp.arange(inner)[None, None, :]
        return scatter(operand.at[a, full, b], updates)
    # Scalars at flat offsets are what the CPU's scatter is fastest at.
    flat = flat_offsets(operand, indices, updates)
    return scatter(operand.reshape(-1).at[flat], updates.reshape(-1)).reshape(operand.shape)


def flat_offsets(operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
    """Flat offset into the operand of each update, flat; those out of range point past its end."""
    outer, size, inner = operand.shape
    a = jnp.arange(outer, dtype=jnp.int32)[:, None, None]
    b = jnp.arange(inner, dtype=jnp.int32)[None, None, :]
    inside = (indices >= 0) & (indices < size)
    offset = (a * size + indices.astype(jnp.int32)) * inner + b
    offset = jnp.where(inside, offset, operand.size)
    return jnp.broadcast_to(offset, updates.shape).reshape(-1)


@accumulating
def cpu_panels(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, monoid: Monoid
) -> jax.Array:
    """Panel order by XLA's scatters, for a CPU, where they apply updates in source order.

    Several panels are combined by one scatter, each into destinations of its own; a second scatter
    folds their results onto the total. Both are fenced: XLA rewrites ``a + zeros.at[i].add(s)`` to
    ``a.at[i].add(s)``, which is another order.
    """
    outer, size, inner = operand.shape
    n = updates.shape[1]
    length = panel_length(size)
    scatter = functools.partial(scatter_by, monoid)
    if n <= length:
        part = scatter(monoid.full(operand.shape, operand.dtype), indices, updates)
        return _onto(operand, fence(part), monoid)
    group = min(max(1, _KEPT // operand.size), n // length)
    step = group * length
    whole = n // step

    def add(total: jax.Array, start: jax.Array | int, count: int) -> jax.Array:
        rows = jax.lax.dynamic_slice_in_dim(indices, start, count, axis=1)
        values = jax.lax.dynamic_slice_in_dim(updates, start, count, axis=1)
        panels = -(-count // length)
        panel = (jnp.arange(count, dtype=jnp.int32) // length)[None, :, None]
        inside = (rows >= 0) & (rows < size)
        cells = jnp.where(inside, panel * size + rows.astype(jnp.int32), panels * size)
        parts = monoid.full((outer, panels * size, inner), operand.dtype)
        parts = fence(scatter(parts, cells, values))
        if panels == 1:
            return fence(monoid.combine(total, parts))
        home = (jnp.arange(panels * size, dtype=jnp.int32) % size)[None, :, None]
        return fence(scatter(total, home, parts))

    total = vary_like(monoid.full(operand.shape, operand.dtype), indices, updates)
    total = jax.lax.fori_loop(0, whole, lambda i, t: add(t, i * step, step), total)
    if n % step:
        total = add(total, whole * step, n % step)
    return _onto(operand, total, monoid)


def _onto(initial: jax.Array, total: jax.Array, monoid: Monoid) -> jax.Array:
    # Fenced, or XLA drops the addition to a constant 0 and with it the sign of 0 + -0.
    return monoid.combine(fence(initial), total)


@accumulating
def xla_chains(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, monoid: Monoid
) -> jax.Array:
    """Panel order without scatters: right on any device."""
    return _by_chains(
        operand,
        indices,
        updates,
        functools.partial(chains.fold_chains, monoid=monoid),
        functools.partial(chains.fold_panels, monoid=monoid),
    )


@accumulating
def kernel_atomic(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, monoid: Monoid, launch: Launch
) -> jax.Array:
    """One pass of atomics."""
    # Until jax 0.12 Triton's atomics on vectors of integers are lowered as those of floats; XLA's
    # scatter of integers is atomic too, and exact.
    exact = jnp.issubdtype(operand.dtype, jnp.integer)
    if exact or max(operand.size, updates.size) > MAX_ELEMENTS:
        return scatter_by(monoid, operand, indices, updates)
    offsets = flat_offsets(operand, indices, updates)
    flat = kernels.atomic(
        operand.reshape(-1), offsets, updates.reshape(-1), monoid=monoid, launch=launch
    )
    return flat.reshape(operand.shape)


@accumulating
def kernel_chains(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, monoid: Monoid, launch: Launch
) -> jax.Array:
    """Panel order by one lane for each chain."""
    return _by_chains(
        operand,
        indices,
        updates,
        functools.partial(kernels.fold_chains, monoid=monoid, launch=launch),
        functools.partial(kernels.fold_panels, monoid=monoid, launch=launch),
    )


def _by_chains(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    fold_chains: Callable[..., jax.Array],
    fold_panels: Callable[..., jax.Array],
) -> jax.Array:
    outer, size, inner = operand.shape
    if max(operand.size, updates.size) > MAX_ELEMENTS:
        raise NotImplementedError(
            f"scatter of {updates.size} updates into {operand.size} elements: the ordered path "
            f"reaches {MAX_ELEMENTS} of each; split the operand or the updates"
        )
    n = updates.shape[1]
    length = panel_length(size)
    panels = -(-n // length)
    if indices.shape == (1, n, 1):
        destinations, width = size, outer * inner
        destination = within(indices[0, :, 0], size)
        source = jnp.moveaxis(updates, 1, 0).reshape(n, width)
        initial = jnp.moveaxis(operand, 1, 0).reshape(size, width)
        panel = jnp.arange(n, dtype=jnp.int32) // length
    else:
        destinations, width = operand.size, 1
        destination = flat_offsets(operand, indices, updates)
        source, initial = updates.reshape(-1, 1), operand.reshape(-1, 1)
        panel = jnp.arange(n, dtype=jnp.int32)[None, :, None] // length
        panel = jnp.broadcast_to(panel, updates.shape).reshape(-1)
    # What is out of range stands past the last destination, so past the last cell: dropped.
    starts, positions = chains.chain_table(destination * panels + panel, destinations * panels)
    parts = fold_chains(starts, positions, source).reshape(destinations, panels, width)
    out = fold_panels(parts, fence(initial))
    if width == 1 and destinations == operand.size:
        return out.reshape(operand.shape)
    return jnp.moveaxis(out.reshape(size, outer, inner), 0, 1)
