"""Scatters on a CPU, where XLA applies updates in the order of the source.

Sums of weighted updates compute some of the products at a time, so that no array holds all of them.
Products of contributions are in panel order.

Work is cut into pieces that stay in the cache. Besides arguments and result, memory holds the
results of one panel, or up to ``_PANEL_RESULTS`` elements of the results of several, and the up to
``_CONTRIBUTIONS`` elements that are read at once. Panel results are fenced: XLA would otherwise
rewrite ``a + zeros.at[i].add(s)`` to ``a.at[i].add(s)``, which is another order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl._core.lax_functions import where
from impl._core.numerics import fence
from impl._core.shard_axes import vary_like
from impl._families.reductions import Reduction
from impl._lowerings.scatter_accumulate import contributions, in_accumulator_dtype, xla_scatter
from impl._lowerings.scatter_accumulate_ordered import panel_length

#: The number of elements of panel results that are kept at once, unless one panel has more, and the
#: greatest number of rows of contributions that are read at once.
_PANEL_RESULTS = 16384
#: The number of elements of the contributions that are read at once, but never fewer rows than
#: ``_MIN_ROWS``.
_CONTRIBUTIONS = 65536
_MIN_ROWS = 8
#: Up to this number of destinations each addition waits for the one before. Panels are then
#: interleaved.
_FEW_DESTINATIONS = 3


@in_accumulator_dtype
def source_cpu(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    weights: jax.Array,
    sources: jax.Array | None = None,
) -> jax.Array:
    """Combines the products of updates and weights in the order of the source."""
    n = indices.shape[1]
    chunk = min(n, _rows_at_once(operand))

    def scatter(total: jax.Array, start: jax.Array | int, count: int) -> jax.Array:
        rows = jax.lax.dynamic_slice_in_dim(indices, start, count, axis=1)
        values = contributions(updates, weights, sources, start, count)
        return xla_scatter(reduction, total, rows, values)

    total = vary_like(operand, indices, updates, weights)
    whole, rest = divmod(n, chunk)
    if whole > 1:
        total = jax.lax.fori_loop(0, whole, lambda k, t: scatter(t, k * chunk, chunk), total)
    else:
        total = scatter(total, 0, chunk)
    return scatter(total, n - rest, rest) if rest else total


def _rows_at_once(operand: jax.Array) -> int:
    """Returns the number of rows of contributions that stay in the cache, a power of two."""
    outer, _, inner = operand.shape
    rows = max(_MIN_ROWS, min(_PANEL_RESULTS, _CONTRIBUTIONS // (outer * inner)))
    return 1 << (rows.bit_length() - 1)


@in_accumulator_dtype
def ordered_cpu(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, reduction: Reduction
) -> jax.Array:
    """Computes the panel order; cuts the work by the sizes of operand and updates."""
    size = operand.shape[1]
    n = indices.shape[1]
    take = functools.partial(contributions, updates, None, None)
    length = panel_length(size)
    chunk = _rows_at_once(operand)
    if n <= min(length, chunk):
        initial = _identities(reduction, (operand, updates), size)
        part = xla_scatter(reduction, initial, indices, take(0, n))
        return _combine_with_operand(operand, fence(part), reduction)
    group = min(chunk // length, _PANEL_RESULTS // operand.size, n // length)
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
    """Computes short panels: one scatter serves several, each with destinations of its own."""
    size = operand.shape[1]
    n = indices.shape[1]

    def add(total: jax.Array, start: jax.Array | int, count: int) -> jax.Array:
        panels = -(-count // length)
        rows = jax.lax.dynamic_slice_in_dim(indices, start, count, axis=1)
        values = take(start, count)
        panel = (jnp.arange(count, dtype=jnp.int32) // length)[None, :, None]
        inside = (rows >= 0) & (rows < size)
        cells = where(inside, panel * size + rows.astype(jnp.int32), panels * size)
        if size <= _FEW_DESTINATIONS and count == panels * length:
            cells, values = (_interleaved(a, panels) for a in (cells, values))
        parts = _identities(reduction, (operand, indices, updates), panels * size)
        parts = fence(xla_scatter(reduction, parts, cells, values))
        for part in jnp.split(parts, panels, axis=1):
            total = reduction.combine(total, part)
        return total

    step = group * length
    total = _identities(reduction, (operand, indices, updates), size)
    total = jax.lax.fori_loop(0, n // step, lambda k, t: add(t, k * step, step), total)
    if n % step:
        total = add(total, n - n % step, n % step)
    return _combine_with_operand(operand, total, reduction)


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
    """Computes long or wide panels: a scatter takes a chunk of one panel."""
    size = operand.shape[1]
    n = indices.shape[1]
    panels = -(-n // length)
    identities = functools.partial(_identities, reduction, (operand, indices, updates), size)

    def put(part: jax.Array, start: jax.Array) -> jax.Array:
        # The last chunk would reach beyond the end. It starts earlier, and masks the contributions
        # that the chunk before it has taken.
        first = jnp.minimum(start, n - chunk)
        rows = jax.lax.dynamic_slice_in_dim(indices, first, chunk, axis=1)
        values = take(first, chunk)
        repeated = jnp.arange(chunk, dtype=jnp.int32)[None, :, None] < start - first
        return fence(xla_scatter(reduction, part, where(repeated, size, rows), values))

    def add(panel: jax.Array, total: jax.Array) -> jax.Array:
        base = panel * length
        chunks = (jnp.minimum(length, n - base) + (chunk - 1)) // chunk
        part = jax.lax.fori_loop(0, chunks, lambda j, p: put(p, base + j * chunk), identities())
        total = reduction.combine(total, fence(part))
        # The operand is combined inside the loop, so that XLA keeps the total in the memory of the
        # result.
        is_last = panel == panels - 1
        return where(is_last, _combine_with_operand(operand, total, reduction), total)

    return jax.lax.fori_loop(0, panels, add, identities())  # type: ignore[no-any-return]


def _identities(reduction: Reduction, like: tuple[jax.Array, ...], size: int) -> jax.Array:
    """Returns the results of ``size`` destinations without contributions."""
    outer, _, inner = like[0].shape
    return vary_like(reduction.full((outer, size, inner), like[0].dtype), *like)


def _combine_with_operand(operand: jax.Array, total: jax.Array, reduction: Reduction) -> jax.Array:
    # Without the fence XLA drops the addition to a constant 0, and with it the sign of 0 + -0.
    return reduction.combine(fence(operand), total)


def _interleaved(a: jax.Array, panels: int) -> jax.Array:
    """Reorders contributions: the first of each panel, then the second of each, and so on."""
    outer, count, inner = a.shape
    apart = a.reshape(outer, panels, count // panels, inner)
    return jnp.swapaxes(apart, 1, 2).reshape(a.shape)
