"""Kernels of scatter-accumulate: one pass of atomics, and panel order by chains."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from impl.kernels.launch import Launch
from impl.numerics import identity

_ATOMIC_BLOCK = 256
_TILE = 128


def atomic_add(
    operand: jax.Array, offsets: jax.Array, updates: jax.Array, *, launch: Launch
) -> jax.Array:
    """Adds ``updates`` to a flat ``operand`` in whatever order the hardware takes.

    Args:
        operand: Shape [m].
        offsets: Shape [n], int32; those outside [0, m) are dropped.
        updates: Shape [n].
        launch: How to run.

    Returns:
        Shape [m].
    """
    size, count = operand.shape[0], updates.shape[0]
    programs = pl.cdiv(count, _ATOMIC_BLOCK)

    def kernel(_: Any, offsets_ref: Any, updates_ref: Any, out_ref: Any) -> None:
        program = launch.program_id(0, programs)
        lanes = program * _ATOMIC_BLOCK + jnp.arange(_ATOMIC_BLOCK, dtype=jnp.int32)
        inside = lanes < count
        offset = plt.load(offsets_ref.at[lanes], mask=inside, other=-1)
        value = plt.load(updates_ref.at[lanes], mask=inside, other=0)
        launch.atomic_add(out_ref, offset, value, inside & (offset >= 0) & (offset < size))

    return launch(
        kernel,
        (programs,),
        jax.ShapeDtypeStruct(operand.shape, operand.dtype),
        operand,
        offsets,
        updates,
        name="scatter_add_atomic",
        aliases={0: 0},
    )


def fold_chains(
    starts: jax.Array, positions: jax.Array, updates: jax.Array, *, launch: Launch
) -> jax.Array:
    """Folds every chain left to right, starting from -0.

    One lane of a program follows one chain, for one column: loads of neighbouring columns are
    coalesced, and a hot destination is as many chains as it has panels.

    Args:
        starts: Where each cell's chain starts in ``positions``, and the end of the last; int32,
            shape [cells + 1].
        positions: Rows of ``updates``, chain by chain; int32, shape [n].
        updates: Shape [n, width].
        launch: How to run.

    Returns:
        Panel sums, shape [cells, width].
    """
    cells, width = starts.shape[0] - 1, updates.shape[1]
    tile_w = min(_TILE, pl.next_power_of_2(width))
    tile_c = _TILE // tile_w
    grid = (pl.cdiv(cells, tile_c), pl.cdiv(width, tile_w))

    def kernel(starts_ref: Any, positions_ref: Any, updates_ref: Any, out_ref: Any) -> None:
        row = launch.program_id(0, grid[0]) * tile_c + jnp.arange(tile_c, dtype=jnp.int32)
        column = launch.program_id(1, grid[1]) * tile_w + jnp.arange(tile_w, dtype=jnp.int32)
        in_rows, in_columns = row < cells, column < width
        start = plt.load(starts_ref.at[row], mask=in_rows, other=0)
        end = plt.load(starts_ref.at[row + 1], mask=in_rows, other=0)

        def step(t: jax.Array, total: jax.Array) -> jax.Array:
            alive = start + t < end
            position = plt.load(positions_ref.at[start + t], mask=alive, other=0)
            value = plt.load(
                updates_ref.at[position[:, None], column[None, :]],
                mask=alive[:, None] & in_columns[None, :],
                other=identity(updates.dtype),
            )
            return total + value

        zero = jnp.full((tile_c, tile_w), identity(updates.dtype), updates.dtype)
        total = jax.lax.fori_loop(0, jnp.max(end - start), step, zero)
        plt.store(
            out_ref.at[row[:, None], column[None, :]],
            total,
            mask=in_rows[:, None] & in_columns[None, :],
        )

    return launch(
        kernel,
        grid,
        jax.ShapeDtypeStruct((cells, width), updates.dtype),
        starts,
        positions,
        updates,
        name="scatter_add_ordered_fold",
    )


def fold_panels(parts: jax.Array, operand: jax.Array, *, launch: Launch) -> jax.Array:
    """Adds the panel sums of each destination left to right, then to the initial value.

    Args:
        parts: Shape [destinations, panels, width].
        operand: Initial values, shape [destinations, width].
        launch: How to run.

    Returns:
        Shape [destinations, width].
    """
    destinations, panels, width = parts.shape
    tile_w = min(_TILE, pl.next_power_of_2(width))
    tile_d = _TILE // tile_w
    grid = (pl.cdiv(destinations, tile_d), pl.cdiv(width, tile_w))

    def kernel(parts_ref: Any, operand_ref: Any, out_ref: Any) -> None:
        row = launch.program_id(0, grid[0]) * tile_d + jnp.arange(tile_d, dtype=jnp.int32)
        column = launch.program_id(1, grid[1]) * tile_w + jnp.arange(tile_w, dtype=jnp.int32)
        inside = (row < destinations)[:, None] & (column < width)[None, :]
        zero = identity(parts.dtype)

        def step(panel: jax.Array, total: jax.Array) -> jax.Array:
            where = parts_ref.at[row[:, None], panel, column[None, :]]
            return total + plt.load(where, mask=inside, other=zero)

        start = jnp.full((tile_d, tile_w), zero, parts.dtype)
        total = jax.lax.fori_loop(0, panels, step, start)
        cell = (row[:, None], column[None, :])
        first = plt.load(operand_ref.at[cell], mask=inside, other=zero)
        plt.store(out_ref.at[cell], first + total, mask=inside)

    return launch(
        kernel,
        grid,
        jax.ShapeDtypeStruct(operand.shape, operand.dtype),
        parts,
        operand,
        name="scatter_add_ordered_panels",
    )
