"""Lowerings of running minima and maxima, which are the same in every order."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from impl._core.reductions import ReductionName
from impl._core.scan_combines import Parts, later_extreme
from impl._core.shard_axes import vary_like
from impl._core.sort_keys import sort_keys
from impl._kernels.launch import Launch
from impl._lowerings import scan_cpu
from impl._lowerings.scan import block_length


def extreme_keys(by: ReductionName, values: jax.Array) -> jax.Array:
    """Returns unsigned integers whose maximum is the extreme; the key of a NaN is the greatest."""
    keys = sort_keys(values)
    if by == "max":
        return keys
    # Complementing keys reverses their order. The key of NaN stays the greatest.
    keys = ~keys
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return keys
    return jnp.where(jnp.isnan(values), ~jnp.zeros_like(keys), keys)


def extreme_cpu(values: jax.Array, *, by: ReductionName) -> tuple[jax.Array, jax.Array]:
    """Returns running extremes and the last position of each, tile by tile."""
    positions = jnp.zeros(values.shape, jnp.int32)
    if values.size == 0:
        return values, positions

    read_values = scan_cpu.reader(values)

    def read(start: tuple[jax.Array | int, ...], shape: tuple[int, int, int]) -> Parts:
        (part,) = read_values(start, shape)
        numbers = jax.lax.broadcasted_iota(jnp.int32, shape, 1) + start[1]
        return extreme_keys(by, part), part, vary_like(numbers, part)

    like = (positions, values, vary_like(positions, values))
    out = scan_cpu.scan(read, like, later_extreme, block_length(), (1, 2))
    return out[0], out[1]


def extreme_xla(values: jax.Array, *, by: ReductionName) -> tuple[jax.Array, jax.Array]:
    """Returns the same by cumulative maxima of integers."""
    shape = values.shape
    positions = jnp.broadcast_to(jnp.arange(shape[1], dtype=jnp.int32)[:, None], shape)
    if values.size == 0:
        return values, positions
    keys = extreme_keys(by, values)
    equals_extreme = keys == jax.lax.cummax(keys, axis=1)
    last = jax.lax.cummax(jnp.where(equals_extreme, positions, 0), axis=1)
    return jnp.take_along_axis(values, last, axis=1, mode="clip"), last


def extreme_kernel(
    values: jax.Array, *, by: ReductionName, launch: Launch
) -> tuple[jax.Array, jax.Array]:
    """Calls ``extreme_xla``: its result is the same in every order, so it needs no kernel."""
    del launch
    return extreme_xla(values, by=by)
