"""Running sums along the middle axis of [outer, n, inner]: every way to compute the two paths."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import spec
from impl.kernels import scan as kernels
from impl.kernels.launch import Launch
from impl.manual_axes import vary_like
from impl.numerics import accumulator, by_parts, convert, fence, identity, zeros

Scan = Callable[..., jax.Array]


def accumulating(function: Scan) -> Scan:
    """Gives ``function`` values of their accumulator type, parts of complex ones, and direction."""

    @functools.wraps(function)
    def run(values: jax.Array, *, reverse: bool, **options: Any) -> jax.Array:
        if values.size == 0:
            return values
        if jnp.issubdtype(values.dtype, jnp.complexfloating):

            def both(parts: jax.Array) -> jax.Array:
                flat = parts.reshape(-1, *values.shape[1:])
                return run(flat, reverse=reverse, **options).reshape(parts.shape)

            return by_parts(both, values)
        wide = convert(values, accumulator(values.dtype))
        if reverse:
            wide = jnp.flip(wide, 1)
        out = function(wide, **options)
        if reverse:
            out = jnp.flip(out, 1)
        return convert(out, values.dtype)

    return run


@accumulating
def xla_atomic(values: jax.Array) -> jax.Array:
    """XLA's own cumulative sum, in the order that it likes."""
    return jax.lax.cumsum(values, axis=1)


@accumulating
def xla_blocked(values: jax.Array) -> jax.Array:
    """The spec's blocked scan by loops over vectors: right on any device."""
    return _blocked(values, _fold)


@accumulating
def kernel_atomic(values: jax.Array, *, launch: Launch) -> jax.Array:
    """Carries between chunks by atomics."""
    if jnp.issubdtype(values.dtype, jnp.integer):
        # Until jax 0.12 Triton's atomics on vectors of integers are lowered as those of floats;
        # and any order is as good.
        return jax.lax.cumsum(values, axis=1)
    outer, n, inner = values.shape
    rows = jnp.moveaxis(values, 1, 2).reshape(outer * inner, n)
    out = kernels.atomic_carry(rows, launch=launch)
    return jnp.moveaxis(out.reshape(outer, inner, n), 2, 1)


@accumulating
def kernel_blocked(values: jax.Array, *, launch: Launch) -> jax.Array:
    """The spec's blocked scan, one lane for each column of a block."""
    return _blocked(values, functools.partial(kernels.fold_blocks, launch=launch))


def _fold(values: jax.Array) -> jax.Array:
    """Running sums over the middle axis, left to right, starting from -0."""

    def step(total: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = total + value
        return total, total

    first = zeros((values.shape[0], values.shape[2]), values.dtype)
    _, out = jax.lax.scan(step, vary_like(first, values), jnp.moveaxis(values, 1, 0))
    return jnp.moveaxis(out, 0, 1)


def _blocked(values: jax.Array, fold: Scan) -> jax.Array:
    """Folds blocks, then their totals, and adds to each block the carry before it."""
    outer, n, inner = values.shape
    block = spec.load().orders["blocked_scan"].parameters["block"]
    if n <= block:
        return fold(values)
    blocks = -(-n // block)
    ends = [(0, 0), (0, blocks * block - n), (0, 0)]
    padded = jnp.pad(values, ends, constant_values=identity(values.dtype))
    local = fold(padded.reshape(outer * blocks, block, inner)).reshape(outer, blocks, block, inner)
    totals = fence(local[:, :, -1])
    carry = jnp.concatenate([zeros((outer, 1, inner), values.dtype), fold(totals)[:, :-1]], axis=1)
    return (carry[:, :, None] + local).reshape(outer, blocks * block, inner)[:, :n]
