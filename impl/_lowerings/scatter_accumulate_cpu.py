"""Panel order by XLA's scatters, for a CPU, where they apply updates in source order.

What is kept beside arguments and result is one panel's results, or ``_KEPT`` elements of several
panels', and what is read at a time: at most ``_READ`` elements. All is cut to stay in the cache.
Results of panels are fenced: XLA rewrites ``a + zeros.at[i].add(s)`` to ``a.at[i].add(s)``, which
is another order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl._core.numerics import fence
from impl._core.reductions import Reduction
from impl._core.shard_axes import vary_like
from impl._lowerings.scatter_accumulate import accumulating, contributions, panel_length, scatter_by

#: How many panel results are kept at a time beyond one panel's, and how many rows are read.
_KEPT = 16384
#: How many elements of these rows; but no fewer rows than the next.
_READ = 65536
_FEWEST_ROWS = 8
#: With so few destinations each addition waits for the one before; panels then go side by side.
_FEW = 3


@accumulating
def cpu(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    weights: jax.Array | None = None,
    sources: jax.Array | None = None,
) -> jax.Array:
    """Cuts the work by the sizes of operand and updates."""
    outer, size, inner = operand.shape
    n = indices.shape[1]
    take = functools.partial(contributions, updates, weights, sources)
    length = panel_length(size)
    rows = max(_FEWEST_ROWS, min(_KEPT, _READ // (outer * inner)))
    chunk = 1 << (rows.bit_length() - 1)
    if n <= min(length, chunk):
        part = scatter_by(
            reduction, _none(reduction, (operand, updates), size), indices, take(0, n)
        )
        return _onto(operand, fence(part), reduction)
    group = min(chunk // length, _KEPT // operand.size, n // length)
    if group > 1:
        return _groups(operand, indices, updates, take, reduction, length=length, group=group)
    chunk = min(chunk, length, n)
    return _chunks(operand, indices, updates, take, reduction, length=length, chunk=chunk)


def _groups(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    take: Callable[..., jax.Array],
    reduction: Reduction,
    *,
    length: int,
    group: int,
) -> jax.Array:
    """Short panels: one scatter serves several, each into destinations of its own."""
    size = operand.shape[1]
    n = indices.shape[1]

    def add(total: jax.Array, start: jax.Array | int, count: int) -> jax.Array:
        panels = -(-count // length)
        rows = jax.lax.dynamic_slice_in_dim(indices, start, count, axis=1)
        values = take(start, count)
        panel = (jnp.arange(count, dtype=jnp.int32) // length)[None, :, None]
        inside = (rows >= 0) & (rows < size)
        cells = jnp.where(inside, panel * size + rows.astype(jnp.int32), panels * size)
        if size <= _FEW and count == panels * length:
            cells, values = (_side_by_side(a, panels) for a in (cells, values))
        parts = _none(reduction, (operand, indices, updates), panels * size)
        parts = fence(scatter_by(reduction, parts, cells, values))
        for own in jnp.split(parts, panels, axis=1):
            total = reduction.combine(total, own)
        return total

    step = group * length
    total = _none(reduction, (operand, indices, updates), size)
    total = jax.lax.fori_loop(0, n // step, lambda k, t: add(t, k * step, step), total)
    if n % step:
        total = add(total, n - n % step, n % step)
    return _onto(operand, total, reduction)


def _chunks(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    take: Callable[..., jax.Array],
    reduction: Reduction,
    *,
    length: int,
    chunk: int,
) -> jax.Array:
    """Long panels, or wide ones: a scatter takes a part of one."""
    size = operand.shape[1]
    n = indices.shape[1]
    panels = -(-n // length)
    none = functools.partial(_none, reduction, (operand, indices, updates), size)

    def put(part: jax.Array, start: jax.Array) -> jax.Array:
        # At the end a slice would reach beyond: it is moved back, and what was taken is masked.
        first = jnp.minimum(start, n - chunk)
        rows = jax.lax.dynamic_slice_in_dim(indices, first, chunk, axis=1)
        values = take(first, chunk)
        again = jnp.arange(chunk, dtype=jnp.int32)[None, :, None] < start - first
        return fence(scatter_by(reduction, part, jnp.where(again, size, rows), values))

    def add(panel: jax.Array, total: jax.Array) -> jax.Array:
        base = panel * length
        chunks = (jnp.minimum(length, n - base) + (chunk - 1)) // chunk
        part = jax.lax.fori_loop(0, chunks, lambda j, p: put(p, base + j * chunk), none())
        total = reduction.combine(total, fence(part))
        # Inside the loop, so that the total is kept where the result will be.
        return jnp.where(panel == panels - 1, _onto(operand, total, reduction), total)

    return jax.lax.fori_loop(0, panels, add, none())  # type: ignore[no-any-return]


def _none(reduction: Reduction, like: tuple[jax.Array, ...], size: int) -> jax.Array:
    """``size`` destinations with nothing in them."""
    outer, _, inner = like[0].shape
    return vary_like(reduction.full((outer, size, inner), like[0].dtype), *like)


def _onto(initial: jax.Array, total: jax.Array, reduction: Reduction) -> jax.Array:
    # Fenced, or XLA drops the addition to a constant 0 and with it the sign of 0 + -0.
    return reduction.combine(fence(initial), total)


def _side_by_side(a: jax.Array, panels: int) -> jax.Array:
    """From panel by panel to first of each panel, second of each panel, and so on."""
    outer, count, inner = a.shape
    apart = a.reshape(outer, panels, count // panels, inner)
    return jnp.swapaxes(apart, 1, 2).reshape(a.shape)
