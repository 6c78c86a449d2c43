"""Kernels of scatter: one pass of atomics, panel order by chains, racing stores."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from impl._core.reductions import Reduction
from impl._kernels.triton import Launch

_ATOMIC_BLOCK = 256
_TILE = 128
#: How many elements of a chain a lane loads ahead of combining them.
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
    """Combines ``updates`` with ``operand`` in whatever order the hardware takes, in one pass.

    Args:
        operand: Floats, shape [outer, size, inner].
        indices: Integers, shape [outer or 1, n, inner or 1]; those outside [0, size) are dropped.
        updates: Shape [outer, n, inner].
        reduction: What to combine by.
        launch: How to run.
        weights: Shape [outer, n], with ``updates`` of shape [outer, n / k, inner]: each update is
            multiplied by k of them in a row, and each product is a contribution.
        sources: With weights, of each the row of ``updates``, counted through their outer axis;
            int32, shape [outer * n]. They may be of any number then.

    Returns:
        Shape [outer, size, inner].
    """
    outer, size, inner = operand.shape
    shape = (outer, indices.shape[1], inner)
    programs = pl.cdiv(math.prod(shape), _ATOMIC_BLOCK)
    share = _share(weights, sources, outer * updates.shape[1])

    def kernel(_: Any, indices_ref: Any, updates_ref: Any, *rest: Any) -> None:
        lanes = _lanes(launch, programs)
        offset, kept = _targets(indices_ref, lanes, indices.shape, shape, size)
        element = lanes
        if weights is not None:
            row = lanes // inner
            element = _source(row, rest, kept, share) * inner + lanes % inner
        value = plt.load(updates_ref.at[element], mask=kept, other=0)
        if weights is not None:
            value = value * plt.load(rest[0].at[row], mask=kept, other=0)
        launch.atomic(rest[-1], offset, value, kept, reduction)

    flat = launch(
        kernel,
        (programs,),
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


def _share(weights: jax.Array | None, sources: jax.Array | None, updates: int) -> int | None:
    """How many weights in a row are of one update; None where sources say of which each is."""
    if sources is not None:
        return None
    return 1 if weights is None else weights.size // updates


def _source(
    position: jax.Array, rest: tuple[Any, ...], mask: jax.Array, share: int | None
) -> jax.Array:
    """The update of each weight; ``rest`` are the references of weights, sources and others."""
    if share is None:
        return plt.load(rest[1].at[position], mask=mask, other=0)
    return position // share


def any_writer(indices: jax.Array, size: int, *, launch: Launch) -> jax.Array:
    """Which of several writers stays at each place: whichever the hardware leaves.

    Args:
        indices: Where each writes, shape [outer, n, inner]; those outside [0, size) write nowhere.
        size: Number of places.
        launch: How to run.

    Returns:
        Position of the writer along the middle axis, or -1 where there is none; int32, shape
        [outer, size, inner].
    """
    outer, n, inner = indices.shape
    programs = pl.cdiv(indices.size, _ATOMIC_BLOCK)

    def kernel(indices_ref: Any, _: Any, out_ref: Any) -> None:
        lanes = _lanes(launch, programs)
        offset, kept = _targets(indices_ref, lanes, indices.shape, indices.shape, size)
        launch.store_any(out_ref, offset, lanes // inner % n, kept)

    flat = launch(
        kernel,
        (programs,),
        jax.ShapeDtypeStruct((outer * size * inner,), jnp.int32),
        indices.reshape(-1),
        jnp.full((outer * size * inner,), -1, jnp.int32),
        name="scatter_assign_atomic_any",
        aliases={1: 0},
    )
    return flat.reshape(outer, size, inner)


def _lanes(launch: Launch, programs: int) -> jax.Array:
    """The updates that a program takes, by their flat offsets."""
    block = jnp.arange(_ATOMIC_BLOCK, dtype=jnp.int32)
    return launch.program_id(0, programs) * _ATOMIC_BLOCK + block


def _targets(
    indices_ref: Any,
    lanes: jax.Array,
    shape: tuple[int, ...],
    updates: tuple[int, ...],
    size: int,
) -> tuple[jax.Array, jax.Array]:
    """Flat offset into the operand of each update of flat offset ``lanes``, and whether it has one.

    ``shape`` is that of the indices; where an axis is 1, all updates along it share an index.
    """
    outer, n, inner = updates
    inside = lanes < outer * n * inner
    a, t, b = lanes // (n * inner), lanes // inner % n, lanes % inner
    place = t if shape[0] == 1 else a * n + t
    place = place if shape[2] == 1 else place * inner + b
    index = plt.load(indices_ref.at[place], mask=inside, other=-1)
    kept = inside & (index >= 0) & (index < size)
    return (a * size + index.astype(jnp.int32)) * inner + b, kept


def fold_chains(
    start: jax.Array,
    end: jax.Array,
    positions: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    launch: Launch,
    weights: jax.Array | None = None,
    sources: jax.Array | None = None,
) -> jax.Array:
    """Folds every chain left to right, starting from the identity.

    One lane of a program follows one chain, for one column: loads of neighbouring columns are
    coalesced, and a hot destination is as many chains as it has panels.

    Args:
        start: Where each chain starts in ``positions``, int32, shape [chains].
        end: Where it ends, int32, shape [chains].
        positions: Rows of ``updates``, chain by chain; int32, shape [n].
        updates: Shape [n, width].
        reduction: What to combine by.
        launch: How to run.
        weights: Of any shape, with ``updates`` of shape [n / k, width]: each update is multiplied
            by k of them in a row, and each product is what a position is of.
        sources: With weights, of each the row of ``updates``, of which there may be any number;
            int32, of as many elements.

    Returns:
        Panel results, shape [chains, width].
    """
    count, width = start.shape[0], updates.shape[1]
    share = _share(weights, sources, updates.shape[0])
    identity = reduction.identity(updates.dtype)
    tile_w = min(_TILE, pl.next_power_of_2(width))
    tile_c = _TILE // tile_w
    grid = (pl.cdiv(count, tile_c), pl.cdiv(width, tile_w))

    def kernel(
        start_ref: Any, end_ref: Any, positions_ref: Any, updates_ref: Any, *rest: Any
    ) -> None:
        row = launch.program_id(0, grid[0]) * tile_c + jnp.arange(tile_c, dtype=jnp.int32)
        column = launch.program_id(1, grid[1]) * tile_w + jnp.arange(tile_w, dtype=jnp.int32)
        in_rows, in_columns = row < count, column < width
        first = plt.load(start_ref.at[row], mask=in_rows, other=0)
        beyond = plt.load(end_ref.at[row], mask=in_rows, other=0)

        def load(t: jax.Array) -> jax.Array:
            alive = first + t < beyond
            position = plt.load(positions_ref.at[first + t], mask=alive, other=0)
            value = plt.load(
                updates_ref.at[_source(position, rest, alive, share)[:, None], column[None, :]],
                mask=alive[:, None] & in_columns[None, :],
                other=identity,
            )
            if weights is None:
                return value
            # Times 1 where there is nothing, so that the identity stays.
            weight = plt.load(rest[0].at[position], mask=alive, other=1)
            return launch.product(value, jnp.broadcast_to(weight[:, None], value.shape))

        def step(block: jax.Array, total: jax.Array) -> jax.Array:
            # All loads before the first addition: they are then under way together.
            values = [load(block * _AHEAD + ahead) for ahead in range(_AHEAD)]
            return functools.reduce(reduction.combine, values, total)

        zero = jnp.full((tile_c, tile_w), identity, updates.dtype)
        blocks = (jnp.max(beyond - first) + (_AHEAD - 1)) // _AHEAD
        total = jax.lax.fori_loop(0, blocks, step, zero)
        plt.store(
            rest[-1].at[row[:, None], column[None, :]],
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
        *_flat(weights),
        *_flat(sources),
        name=f"scatter_{reduction.name}_ordered_fold",
    )


def fold_panels(
    parts: jax.Array, total: jax.Array, *, reduction: Reduction, launch: Launch
) -> jax.Array:
    """Folds the panel results of each destination left to right, onto the total so far.

    Args:
        parts: Shape [destinations, panels, width].
        total: Shape [destinations, width].
        reduction: What to combine by.
        launch: How to run.

    Returns:
        Shape [destinations, width].
    """
    destinations, panels, width = parts.shape
    tile_w = min(_TILE, pl.next_power_of_2(width))
    tile_d = _TILE // tile_w
    grid = (pl.cdiv(destinations, tile_d), pl.cdiv(width, tile_w))
    identity = reduction.identity(parts.dtype)

    def kernel(parts_ref: Any, total_ref: Any, out_ref: Any) -> None:
        row = launch.program_id(0, grid[0]) * tile_d + jnp.arange(tile_d, dtype=jnp.int32)
        column = launch.program_id(1, grid[1]) * tile_w + jnp.arange(tile_w, dtype=jnp.int32)
        inside = (row < destinations)[:, None] & (column < width)[None, :]

        def load(panel: jax.Array) -> jax.Array:
            where = parts_ref.at[row[:, None], panel, column[None, :]]
            return plt.load(where, mask=inside & (panel < panels), other=identity)

        def step(block: jax.Array, own: jax.Array) -> jax.Array:
            values = [load(block * _AHEAD + ahead) for ahead in range(_AHEAD)]
            return functools.reduce(reduction.combine, values, own)

        cell = (row[:, None], column[None, :])
        own = plt.load(total_ref.at[cell], mask=inside, other=identity)
        own = jax.lax.fori_loop(0, pl.cdiv(panels, _AHEAD), step, own)
        plt.store(out_ref.at[cell], own, mask=inside)

    return launch(
        kernel,
        grid,
        jax.ShapeDtypeStruct(total.shape, total.dtype),
        parts,
        total,
        name=f"scatter_{reduction.name}_ordered_panels",
    )
