"""Kernels of running sums with atomically added carries."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from impl._core.numerics import additive_identities
from impl._families.reductions import ADD
from impl._kernels import pallas as pl
from impl._kernels.launch import Launch

#: Elements that a program of the running sum loads at once.
_CHUNK = 1024


def atomic_carry(rows: jax.Array, *, launch: Launch) -> jax.Array:
    """Computes running sums along rows; atomics add the carry of each chunk.

    A row is cut into at most 1024 chunks. The first kernel sums each chunk and adds the sum to the
    carry of every later chunk, in the order in which programs finish. The second kernel scans each
    chunk, starting with its carry.

    Args:
        rows: Shape [rows, n].
        launch: How to run.

    Returns:
        Shape [rows, n].
    """
    count, n = rows.shape
    chunk = max(_CHUNK, pl.next_power_of_2(pl.cdiv(n, _CHUNK)))
    chunks = pl.cdiv(n, chunk)
    flat = rows.reshape(-1)
    carry = additive_identities((count * chunks,), rows.dtype)
    if chunks > 1:  # The first chunk has no carry.
        carry = _add_carries(flat, carry, (count, n), chunk, launch)
    return _scan_chunks(flat, carry, (count, n), chunk, launch).reshape(rows.shape)


def _load_chunk(
    launch: Launch, ref: Any, row: jax.Array, start: jax.Array, n: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the next elements of a row, their offsets, and whether they are inside the row."""
    column = start + jnp.arange(_CHUNK, dtype=jnp.int32)
    inside = column < n
    offset = row * n + column
    return launch.load(ref.at[offset], mask=inside, other=0), offset, inside


def _add_carries(
    flat: jax.Array, carry: jax.Array, shape: tuple[int, int], chunk: int, launch: Launch
) -> jax.Array:
    """Adds the sum of each chunk to the carry of every later chunk of its row."""
    count, n = shape
    chunks = pl.cdiv(n, chunk)
    lanes = pl.next_power_of_2(chunks)

    def kernel(rows_ref: Any, _: Any, carry_ref: Any) -> None:
        row, number = launch.program_id(0, count), launch.program_id(1, chunks)

        def step(t: jax.Array, total: jax.Array) -> jax.Array:
            value, _, _ = _load_chunk(launch, rows_ref, row, number * chunk + t * _CHUNK, n)
            return total + jnp.sum(value)

        total = jax.lax.fori_loop(0, chunk // _CHUNK, step, jnp.zeros((), flat.dtype))
        later = jnp.arange(lanes, dtype=jnp.int32)
        launch.atomic(
            carry_ref,
            row * chunks + later,
            jnp.broadcast_to(total, (lanes,)),
            (later > number) & (later < chunks),
            ADD,
        )

    out = jax.ShapeDtypeStruct((count * chunks,), flat.dtype)
    return launch(
        kernel, (count, chunks), out, flat, carry, name="scan_atomic_carry", aliases={1: 0}
    )


def _scan_chunks(
    flat: jax.Array, carry: jax.Array, shape: tuple[int, int], chunk: int, launch: Launch
) -> jax.Array:
    """Computes the running sum of each chunk, starting with its carry."""
    count, n = shape
    chunks = pl.cdiv(n, chunk)

    def kernel(rows_ref: Any, carry_ref: Any, out_ref: Any) -> None:
        row, number = launch.program_id(0, count), launch.program_id(1, chunks)

        def step(t: jax.Array, total: jax.Array) -> jax.Array:
            value, offset, inside = _load_chunk(
                launch, rows_ref, row, number * chunk + t * _CHUNK, n
            )
            launch.store(out_ref.at[offset], total + jnp.cumsum(value), mask=inside)
            return total + jnp.sum(value)

        first = launch.load(carry_ref.at[row * chunks + number])
        jax.lax.fori_loop(0, chunk // _CHUNK, step, first)

    out = jax.ShapeDtypeStruct(flat.shape, flat.dtype)
    return launch(kernel, (count, chunks), out, flat, carry, name="scan_atomic_chunks")
