"""Kernels of scatter-accumulate: one pass of atomics, and the two folds of the panel order.

The panel order cuts the contributions into panels. ``fold_chains`` folds the contributions of each
destination in each panel (a chain), and ``fold_panels`` folds the results of the panels. An
example of multiplication, with the chains that ``impl._lowerings.scatter_accumulate_chains`` shows:

    updates                 [2, 3, 5 | 7, 11, 13]
    chains                  [3], [7], [2, 5], [11, 13]
    after fold_chains       [3, 7, 10, 143]
    after fold_panels       [3 * 7, 10 * 143]

A lane follows one chain for one column, so the operations of a chain are sequential, and chains are
parallel.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from impl._families.reductions import Reduction
from impl._kernels import pallas as pl
from impl._kernels._contributions import Contributions
from impl._kernels.launch import Launch

#: The number of lanes of a kernel instance of a fold: chains or destinations, times columns.
_TILE = 128
#: The number of elements of a chain that a lane loads before it combines them.
_AHEAD = 4


def atomic(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    launch: Launch,
    weights: jax.Array | None = None,
    sources: jax.Array | None = None,
) -> jax.Array:
    """Combines ``updates`` with ``operand`` in one pass, in whatever order the hardware takes.

    Args:
        operand: Floats, shape [outer, size, inner].
        indices: Integers, shape [outer or 1, n, inner or 1]; those outside [0, size) are dropped.
        updates: Shape [outer, n, inner].
        reduction: The operation that combines.
        launch: How to run.
        weights: Shape [outer, n], with ``updates`` of shape [outer, n / k, inner]. Each update has
            k consecutive weights, and its product with each of them is a contribution.
        sources: With weights, the row of ``updates`` that each weight multiplies, counted through
            the outer axis; int32, shape [outer * n]. There may then be any number of updates.

    Returns:
        Shape [outer, size, inner].
    """
    outer, size, inner = operand.shape
    shape = (outer, indices.shape[1], inner)
    contributions = Contributions(launch, shape, indices.shape, size)
    share = _weights_per_update(weights, sources, outer * updates.shape[1])

    def kernel(_: Any, indices_ref: Any, updates_ref: Any, *refs: Any) -> None:
        lanes = contributions.lanes()
        offset, inside = contributions.destinations(indices_ref, lanes)
        element = lanes
        if weights is not None:
            row = lanes // inner
            element = _update_row(launch, row, refs, inside, share) * inner + lanes % inner
        value = launch.load(updates_ref.at[element], mask=inside, other=0)
        if weights is not None:
            value = value * launch.load(refs[0].at[row], mask=inside, other=0)
        launch.atomic(refs[-1], offset, value, inside, reduction)

    flat = launch(
        kernel,
        (contributions.programs,),
        jax.ShapeDtypeStruct((operand.size,), operand.dtype),
        operand.reshape(-1),
        indices.reshape(-1),
        updates.reshape(-1),
        *_flat(weights),
        *_flat(sources),
        name=f"scatter_{reduction.name}_atomic",
        aliases={0: 0},
    )
    return flat.reshape(operand.shape)


def _flat(value: jax.Array | None) -> list[jax.Array]:
    return [] if value is None else [value.reshape(-1)]


def _weights_per_update(
    weights: jax.Array | None, sources: jax.Array | None, updates: int
) -> int | None:
    """Returns the number of consecutive weights of each update; None where ``sources`` are given.

    ``updates`` is the number of updates.
    """
    if sources is not None:
        return None
    return 1 if weights is None else weights.size // updates


def _update_row(
    launch: Launch, position: jax.Array, refs: tuple[Any, ...], mask: jax.Array, share: int | None
) -> jax.Array:
    """Returns the row of the update that the weight at ``position`` multiplies.

    ``refs`` are the references of the weights, of the sources if given, and of the result.
    ``share`` is the number of consecutive weights of an update; None if sources are given.
    """
    if share is None:
        return launch.load(refs[1].at[position], mask=mask, other=0)
    return position // share


def fold_chains(
    start: jax.Array,
    end: jax.Array,
    positions: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    launch: Launch,
) -> jax.Array:
    """Folds every chain left to right, starting with the identity.

    A chain is the contributions of one destination in one panel. One lane of a kernel instance
    follows one chain for one column. Loads of neighbouring columns are coalesced, and a destination
    with many contributions has one chain in each panel.

    Args:
        start: The first position of each chain in ``positions``, int32, shape [chains].
        end: The position after the last of each chain, int32, shape [chains].
        positions: Rows of ``updates``, chain by chain; int32, shape [n].
        updates: Shape [n, width].
        reduction: The operation that combines.
        launch: How to run.

    Returns:
        Panel results, shape [chains, width].
    """
    count, width = start.shape[0], updates.shape[1]
    identity = reduction.identity(updates.dtype)
    grid, tile = _tiling(count, width)

    def kernel(
        start_ref: Any, end_ref: Any, positions_ref: Any, updates_ref: Any, out_ref: Any
    ) -> None:
        row, column = _rows_and_columns(launch, grid, tile)
        in_rows, in_columns = row < count, column < width
        first = launch.load(start_ref.at[row], mask=in_rows, other=0)
        beyond = launch.load(end_ref.at[row], mask=in_rows, other=0)

        def contribution(t: jax.Array) -> jax.Array:
            alive = first + t < beyond
            position = launch.load(positions_ref.at[first + t], mask=alive, other=0)
            return launch.load(
                updates_ref.at[position[:, None], column[None, :]],
                mask=alive[:, None] & in_columns[None, :],
                other=identity,
            )

        def step(block: jax.Array, total: jax.Array) -> jax.Array:
            # All loads come before the first addition, so that the GPU overlaps them.
            values = [contribution(block * _AHEAD + ahead) for ahead in range(_AHEAD)]
            return functools.reduce(reduction.combine, values, total)

        initial = jnp.full(tile, identity, updates.dtype)
        blocks = (jnp.max(beyond - first) + (_AHEAD - 1)) // _AHEAD
        total = jax.lax.fori_loop(0, blocks, step, initial)
        launch.store(
            out_ref.at[row[:, None], column[None, :]],
            total,
            mask=in_rows[:, None] & in_columns[None, :],
        )

    return launch(
        kernel,
        grid,
        jax.ShapeDtypeStruct((count, width), updates.dtype),
        start,
        end,
        positions,
        updates,
        name=f"scatter_{reduction.name}_ordered_fold",
    )


def _tiling(rows: int, columns: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns the grid of kernel instances, and the rows and columns that one instance takes."""
    width = min(_TILE, pl.next_power_of_2(columns))
    height = _TILE // width
    return (pl.cdiv(rows, height), pl.cdiv(columns, width)), (height, width)


def _rows_and_columns(
    launch: Launch, grid: tuple[int, int], tile: tuple[int, int]
) -> tuple[jax.Array, jax.Array]:
    """Returns the row and the column indices that the running instance takes."""
    row, column = (
        launch.program_id(axis, grid[axis]) * tile[axis] + jnp.arange(tile[axis], dtype=jnp.int32)
        for axis in (0, 1)
    )
    return row, column


def fold_panels(
    parts: jax.Array, total: jax.Array, *, reduction: Reduction, launch: Launch
) -> jax.Array:
    """Folds the panel results of each destination left to right, starting with the total so far.

    Args:
        parts: Shape [destinations, panels, width].
        total: Shape [destinations, width].
        reduction: The operation that combines.
        launch: How to run.

    Returns:
        Shape [destinations, width].
    """
    count, panels, width = parts.shape
    grid, tile = _tiling(count, width)
    identity = reduction.identity(parts.dtype)

    def kernel(parts_ref: Any, total_ref: Any, out_ref: Any) -> None:
        row, column = _rows_and_columns(launch, grid, tile)
        inside = (row < count)[:, None] & (column < width)[None, :]

        def panel_result(panel: jax.Array) -> jax.Array:
            view = parts_ref.at[row[:, None], panel, column[None, :]]
            return launch.load(view, mask=inside & (panel < panels), other=identity)

        def step(block: jax.Array, subtotal: jax.Array) -> jax.Array:
            values = [panel_result(block * _AHEAD + ahead) for ahead in range(_AHEAD)]
            return functools.reduce(reduction.combine, values, subtotal)

        cell = (row[:, None], column[None, :])
        subtotal = launch.load(total_ref.at[cell], mask=inside, other=identity)
        subtotal = jax.lax.fori_loop(0, pl.cdiv(panels, _AHEAD), step, subtotal)
        launch.store(out_ref.at[cell], subtotal, mask=inside)

    return launch(
        kernel,
        grid,
        jax.ShapeDtypeStruct(total.shape, total.dtype),
        parts,
        total,
        name=f"scatter_{reduction.name}_ordered_panels",
    )
