"""Kernels of running folds: blocks folded in order, and carries added atomically."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from impl._core.numerics import additive_identities
from impl._core.reductions import ADD
from impl._core.scan_combines import Combine, Parts
from impl._kernels.triton import Launch

_LANES = 128
#: Steps of a fold whose loads are under way at a time.
_GROUP = 8
_CHUNK = 1024


def fold_blocks(
    parts: Parts, combine: Combine, *, launch: Launch, group: int | None = None
) -> Parts:
    """Running folds down each column, left to right, one lane a column.

    Args:
        parts: Of shape [outer, steps, inner] and one dtype.
        combine: What they are combined by.
        launch: How to run.
        group: How many steps are taken at a time. By default one where the kernel is interpreted:
            it is compiled for a CPU then, which takes its time for long bodies.

    Returns:
        The shapes and dtype of ``parts``.
    """
    outer, steps, inner = parts[0].shape
    size, dtype = parts[0].size, parts[0].dtype
    columns = outer * inner
    programs = pl.cdiv(columns, _LANES)
    together = group or (1 if launch.interpret else _GROUP)

    def kernel(values_ref: Any, out_ref: Any) -> None:
        column = launch.program_id(0, programs) * _LANES + jnp.arange(_LANES, dtype=jnp.int32)
        inside = column < columns
        first = column // inner * (steps * inner) + column % inner

        def load(where: jax.Array, mask: jax.Array) -> Parts:
            places = (where + k * size for k in range(len(parts)))
            return tuple(plt.load(values_ref.at[at], mask=mask, other=0) for at in places)

        def store(where: jax.Array, mask: jax.Array, state: Parts) -> None:
            for k, part in enumerate(state):
                plt.store(out_ref.at[where + k * size], part, mask=mask)

        def step(turn: jax.Array, state: Parts) -> Parts:
            # All loads of a group go out before the first store that they might have to wait for.
            places = [1 + turn * together + k for k in range(together)]
            masks = [inside & (t < steps) for t in places]
            offsets = [first + t * inner for t in places]
            values = [load(at, mask) for at, mask in zip(offsets, masks, strict=True)]
            for at, mask, value in zip(offsets, masks, values, strict=True):
                state = combine(state, value, launch.product)
                store(at, mask, state)
            return state

        state = load(first, inside)
        store(first, inside, state)
        jax.lax.fori_loop(0, pl.cdiv(steps - 1, together), step, state)

    flat = launch(
        kernel,
        (programs,),
        jax.ShapeDtypeStruct((size * len(parts),), dtype),
        jnp.stack(parts).reshape(-1),
        name="scan_ordered_fold",
    )
    return tuple(flat.reshape(len(parts), outer, steps, inner))


def atomic_carry(rows: jax.Array, *, launch: Launch) -> jax.Array:
    """Running sums along rows, the carry of each chunk added by atomics.

    A row is cut into at most 1024 chunks. The first kernel sums each chunk and adds the sum to the
    carry of every later one, in whatever order programs come; the second scans chunks from there.

    Args:
        rows: Shape [rows, n].
        launch: How to run.

    Returns:
        Shape [rows, n].
    """
    count, n = rows.shape
    chunk = max(_CHUNK, pl.next_power_of_2(pl.cdiv(n, _CHUNK)))
    chunks = pl.cdiv(n, chunk)
    lanes = pl.next_power_of_2(chunks)
    dtype = rows.dtype

    def load(ref: Any, row: jax.Array, start: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        column = start + jnp.arange(_CHUNK, dtype=jnp.int32)
        inside = column < n
        where = row * n + column
        return plt.load(ref.at[where], mask=inside, other=0), where, inside

    def sums(rows_ref: Any, _: Any, carry_ref: Any) -> None:
        row, own = launch.program_id(0, count), launch.program_id(1, chunks)

        def step(t: jax.Array, total: jax.Array) -> jax.Array:
            value, _, _ = load(rows_ref, row, own * chunk + t * _CHUNK)
            return total + jnp.sum(value)

        total = jax.lax.fori_loop(0, chunk // _CHUNK, step, jnp.zeros((), dtype))
        later = jnp.arange(lanes, dtype=jnp.int32)
        launch.atomic(
            carry_ref,
            row * chunks + later,
            jnp.broadcast_to(total, (lanes,)),
            (later > own) & (later < chunks),
            ADD,
        )

    def scan(rows_ref: Any, carry_ref: Any, out_ref: Any) -> None:
        row, own = launch.program_id(0, count), launch.program_id(1, chunks)

        def step(t: jax.Array, carry: jax.Array) -> jax.Array:
            value, where, inside = load(rows_ref, row, own * chunk + t * _CHUNK)
            plt.store(out_ref.at[where], carry + jnp.cumsum(value), mask=inside)
            return carry + jnp.sum(value)

        first = plt.load(carry_ref.at[row * chunks + own])
        jax.lax.fori_loop(0, chunk // _CHUNK, step, first)

    flat = rows.reshape(-1)
    shape = jax.ShapeDtypeStruct((count * chunks,), dtype)
    grid = (count, chunks)
    carry = additive_identities(shape.shape, dtype)
    if chunks > 1:  # else there is no later chunk to tell
        carry = launch(sums, grid, shape, flat, carry, name="scan_atomic_carry", aliases={1: 0})
    shape = jax.ShapeDtypeStruct(flat.shape, dtype)
    return launch(scan, grid, shape, flat, carry, name="scan_atomic_chunks").reshape(rows.shape)
