"""Running folds along the middle axis of [outer, n, inner]: every way to compute the two paths."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import spec
from impl._core.numerics import accumulator, convert, fence, product
from impl._core.reductions import ReductionName
from impl._core.scan_combines import COMBINES, Combine, Parts, Running, joined, later_extreme, split
from impl._core.shard_axes import vary_like
from impl._kernels import scan as kernels
from impl._kernels.triton import MAX_ELEMENTS, Launch
from impl._lowerings import scan_cpu
from impl._lowerings.select_kth import sort_keys

#: From parts to their running folds along the middle axis, left to right.
Fold = Callable[[Parts, Combine], Parts]
Scan = Callable[..., Any]


def on_parts(function: Scan) -> Scan:
    """Gives ``function`` the parts of its operands, of their accumulator type, and direction.

    Of several operands the result is the last.
    """

    @functools.wraps(function)
    def run(*operands: jax.Array, by: Running, reverse: bool = False, **options: Any) -> jax.Array:
        dtype = operands[-1].dtype
        if operands[-1].size == 0:
            return operands[-1]
        parts = tuple(
            convert(part, accumulator(part.dtype)) for value in operands for part in split(value)
        )
        if reverse:
            parts = tuple(jnp.flip(part, 1) for part in parts)
        out = function(parts, by=by, **options)[-len(split(operands[-1])) :]
        if reverse:
            out = tuple(jnp.flip(part, 1) for part in out)
        return convert(joined(out), dtype)

    return run


def _block() -> int:
    return int(spec.load().orders["blocked_scan"].parameters["block"])


@on_parts
def cpu(parts: Parts, *, by: Running) -> Parts:
    """The spec's blocked scan, tile by tile."""
    # Factors of a recurrence are no result.
    kept = tuple(range(len(parts) // 2, len(parts))) if by == "affine" else tuple(range(len(parts)))
    return scan_cpu.scan(scan_cpu.reader(*parts), parts, COMBINES[by], _block(), kept)


@on_parts
def xla(parts: Parts, *, by: Running) -> Parts:
    """The spec's blocked scan by loops over vectors: right on any device."""
    return _blocked(parts, COMBINES[by], _fold)


@on_parts
def kernel(parts: Parts, *, by: Running, launch: Launch) -> Parts:
    """The spec's blocked scan, one lane for each column of a block."""
    if len(parts) * parts[0].size > MAX_ELEMENTS:
        return _blocked(parts, COMBINES[by], _fold)
    return _blocked(parts, COMBINES[by], functools.partial(kernels.fold_blocks, launch=launch))


@on_parts
def xla_sum(parts: Parts, *, by: Running) -> Parts:
    """XLA's own cumulative sum, in the order that it likes."""
    del by
    return tuple(jax.lax.cumsum(part, axis=1) for part in parts)


def any_sum(values: jax.Array, *, launch: Launch, **options: Any) -> jax.Array:
    """Carries between chunks by atomics."""
    if jnp.issubdtype(values.dtype, jnp.integer) or values.size > MAX_ELEMENTS:
        # Until jax 0.12 Triton's atomics on vectors of integers are lowered as those of floats;
        # and any order is as good.
        return xla_sum(values, **options)  # type: ignore[no-any-return]
    return _atomic_sum(values, launch=launch, **options)  # type: ignore[no-any-return]


@on_parts
def _atomic_sum(parts: Parts, *, by: Running, launch: Launch) -> Parts:
    del by
    outer, n, inner = parts[0].shape
    rows = jnp.moveaxis(jnp.stack(parts), 2, 3).reshape(-1, n)
    out = kernels.atomic_carry(rows, launch=launch)
    return tuple(jnp.moveaxis(out.reshape(len(parts), outer, inner, n), 3, 2))


def _fold(parts: Parts, combine: Combine) -> Parts:
    """Running folds over the middle axis, left to right."""
    return tuple(
        jnp.moveaxis(out, 0, 1)
        for out in scan_cpu.fold(tuple(jnp.moveaxis(part, 1, 0) for part in parts), combine)
    )


def _blocked(parts: Parts, combine: Combine, fold: Fold) -> Parts:
    """Folds blocks, then their totals, and combines the carry before each block with it."""
    outer, n, inner = parts[0].shape
    block = _block()
    if n <= block:
        return fold(parts, combine)
    blocks = -(-n // block)
    ends = [(0, 0), (0, blocks * block - n), (0, 0)]
    shape = (outer, blocks, block, inner)
    apart = tuple(jnp.pad(part, ends).reshape(outer * blocks, block, inner) for part in parts)
    local = tuple(part.reshape(shape) for part in fold(apart, combine))
    carries = fold(tuple(fence(part[:, :, -1]) for part in local), combine)
    rolled = (jnp.roll(carry, 1, axis=1)[:, :, None] for carry in carries)
    before = tuple(jnp.broadcast_to(part, shape) for part in rolled)
    carried = combine(before, local, product)
    first = (jnp.arange(blocks) == 0)[:, None, None]
    return tuple(
        jnp.where(first, a, b).reshape(outer, blocks * block, inner)[:, :n]
        for a, b in zip(local, carried, strict=True)
    )


# Extremes are the same in every order.


def extreme_keys(by: ReductionName, values: jax.Array) -> jax.Array:
    """Unsigned integers of which the greatest is wanted: that of a NaN, or of the extreme."""
    keys = sort_keys(values)
    if by == "max":
        return keys
    # Turned around, but for NaNs, which stay above all.
    keys = ~keys
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return keys
    return jnp.where(jnp.isnan(values), ~jnp.zeros_like(keys), keys)


def cpu_extreme(values: jax.Array, *, by: ReductionName) -> tuple[jax.Array, jax.Array]:
    """Running extremes and the last positions of each, tile by tile."""
    places = jnp.zeros(values.shape, jnp.int32)
    if values.size == 0:
        return values, places

    values_at = scan_cpu.reader(values)

    def read(start: tuple[jax.Array | int, ...], shape: tuple[int, int, int]) -> Parts:
        (part,) = values_at(start, shape)
        numbers = jax.lax.broadcasted_iota(jnp.int32, shape, 1) + start[1]
        return extreme_keys(by, part), part, vary_like(numbers, part)

    like = (places, values, vary_like(places, values))
    out = scan_cpu.scan(read, like, later_extreme, _block(), (1, 2))
    return out[0], out[1]


def xla_extreme(values: jax.Array, *, by: ReductionName) -> tuple[jax.Array, jax.Array]:
    """The same by cumulative maxima of integers."""
    places = jnp.broadcast_to(jnp.arange(values.shape[1], dtype=jnp.int32)[:, None], values.shape)
    if values.size == 0:
        return values, places
    keys = extreme_keys(by, values)
    reached = keys == jax.lax.cummax(keys, axis=1)
    last = jax.lax.cummax(jnp.where(reached, places, 0), axis=1)
    return jnp.take_along_axis(values, last, axis=1, mode="clip"), last


def kernel_extreme(
    values: jax.Array, *, by: ReductionName, launch: Launch
) -> tuple[jax.Array, jax.Array]:
    """The same: there is no order for a kernel to leave open or to keep."""
    del launch
    return xla_extreme(values, by=by)
