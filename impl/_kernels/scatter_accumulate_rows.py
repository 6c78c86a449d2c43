"""Kernels of an exact scatter of wide rows, whose contributions are sorted by destination.

A run is the contributions of one destination. Programs take chunks of equal numbers of
contributions, so that a hot destination occupies many. A run within a chunk is added there: its
rows are read twice, for the greatest exponent and for the digits, the second time from the cache. A
run across chunks leaves a row for each, which is combined without error. No update is atomic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._kernels import pallas as pl
from impl._kernels.launch import Launch

#: Contributions of a chunk.
CHUNK = 64
#: Columns that one program takes.
_COLUMNS = 256

#: From a row to what is combined, given the exponents of the destination.
Term = Callable[[jax.Array, jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class Runs:
    """Contributions sorted by destination.

    Attributes:
        keys: The destination of each, ascending; int32, shape [n].
        positions: The row of each, int32, shape [n].
        starts: Where the run of each destination starts, int32, shape [destinations].
        ends: Where it ends.
        count: How many contributions there are to a destination, int32, shape [1]; the rest comes
            last, and is dropped.
    """

    keys: jax.Array
    positions: jax.Array
    starts: jax.Array
    ends: jax.Array
    count: jax.Array

    @property
    def arrays(self) -> tuple[jax.Array, ...]:
        """The arrays, as a kernel takes them."""
        return (self.keys, self.positions, self.starts, self.ends, self.count)

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return pl.cdiv(self.keys.shape[0], CHUNK)


@dataclasses.dataclass(frozen=True)
class _Part:
    """The chunk and the columns of a program.

    Attributes:
        chunk: The number of the chunk.
        column: The columns, int32, shape [columns].
        inside: Whether each exists.
        first: Where the chunk starts.
        within: Where the runs within the chunk start.
        last: Where they end.
        beyond: Where the chunk ends.
    """

    chunk: jax.Array
    column: jax.Array
    inside: jax.Array
    first: jax.Array
    within: jax.Array
    last: jax.Array
    beyond: jax.Array


def _grid(runs: Runs, width: int) -> tuple[tuple[int, int], int]:
    columns = min(_COLUMNS, pl.next_power_of_2(width))
    return (runs.chunks, pl.cdiv(width, columns)), columns


def _part(launch: Launch, refs: Any, grid: tuple[int, int], columns: int, width: int) -> _Part:
    keys_ref, _, starts_ref, ends_ref, count_ref = refs
    chunk = launch.program_id(0, grid[0])
    column = launch.program_id(1, grid[1]) * columns + jnp.arange(columns, dtype=jnp.int32)
    first = chunk * CHUNK
    end = first + CHUNK
    beyond = jnp.minimum(end, count_ref[0])
    is_empty = beyond <= first
    key = launch.load(keys_ref.at[jnp.where(is_empty, 0, first)])
    key = jnp.where(is_empty, 0, key)
    other = jnp.where(is_empty, 0, launch.load(keys_ref.at[jnp.maximum(beyond - 1, 0)]))
    run_end = launch.load(ends_ref.at[key])
    is_across = (launch.load(starts_ref.at[key]) < first) | (run_end > end)
    within = jnp.where(is_across, jnp.minimum(run_end, beyond), first)
    last_start = launch.load(starts_ref.at[other])
    is_cut = (last_start > first) & (launch.load(ends_ref.at[other]) > end)
    last = jnp.where(is_cut, last_start, beyond)
    none = jnp.where(is_empty, first, beyond)
    within, last = (jnp.where(is_empty, first, bound) for bound in (within, last))
    return _Part(chunk, column, column < width, first, within, last, none)


def _row(
    launch: Launch, part: _Part, positions_ref: Any, updates_ref: Any, width: int
) -> Callable[[jax.Array], jax.Array]:
    """Returns the function that loads the row of a contribution."""

    def load(place: jax.Array) -> jax.Array:
        position = launch.load(positions_ref.at[place])
        view = updates_ref.at[position * width + part.column]
        return launch.load(view, mask=part.inside, other=0).astype(jnp.float32)

    return load


def across(
    runs: Runs,
    updates: jax.Array,
    exponents: jax.Array | None,
    term: Term,
    combine: Callable[[jax.Array, jax.Array], jax.Array],
    identity: np.signedinteger[Any],
    *,
    launch: Launch,
) -> jax.Array:
    """Combines the contributions of runs across chunks, in each chunk.

    Args:
        runs: The contributions.
        updates: Floats of up to 32 bits, shape [rows, width].
        exponents: The exponents of the run across chunks that starts in each chunk, int32, shape
            [chunks, width]; None if terms need none.
        term: What is combined.
        combine: How.
        identity: The identity of it, a scalar of the dtype of terms.
        launch: How to run.

    Returns:
        Shape [2 * chunks, width]: of each chunk, the run that comes from before, or that is all of
        it, and another run that goes on. The identity where there is none.
    """
    width = updates.shape[1]
    grid, columns = _grid(runs, width)

    def kernel(*refs: Any) -> None:
        *run_refs, updates_ref = refs[:6]
        out_ref = refs[-1]
        part = _part(launch, run_refs, grid, columns, width)
        row = _row(launch, part, run_refs[1], updates_ref, width)

        def fold(start: jax.Array, end: jax.Array, slot: int) -> None:
            own = part.column
            if exponents is not None:
                key = launch.load(run_refs[0].at[jnp.minimum(start, runs.keys.shape[0] - 1)])
                begun = launch.load(run_refs[2].at[jnp.where(start < end, key, 0)]) // CHUNK
                own = launch.load(
                    refs[6].at[begun * width + part.column], mask=part.inside, other=0
                )
            total = jax.lax.fori_loop(
                start,
                end,
                lambda place, total: combine(total, term(row(place), own)),
                jnp.full(columns, identity, identity.dtype),
            )
            view = out_ref.at[(2 * part.chunk + slot) * width + part.column]
            launch.store(view, total, mask=part.inside)

        fold(part.first, part.within, 0)
        fold(part.last, part.beyond, 1)

    extra = [] if exponents is None else [exponents.reshape(-1)]
    flat = launch(
        kernel,
        grid,
        jax.ShapeDtypeStruct((2 * runs.chunks * width,), identity.dtype),
        *runs.arrays,
        updates.reshape(-1),
        *extra,
        name="scatter_rows_ordered_across",
    )
    return flat.reshape(2 * runs.chunks, width)


def within(
    runs: Runs,
    updates: jax.Array,
    operand: jax.Array,
    owners: jax.Array,
    results: jax.Array,
    exponent: Callable[[jax.Array], jax.Array],
    term: Term,
    total: Term,
    *,
    launch: Launch,
) -> jax.Array:
    """Adds the contributions of runs within a chunk to the operand, and stores those of others.

    Args:
        runs: The contributions.
        updates: Floats of up to 32 bits, shape [rows, width].
        operand: Floats of up to 32 bits, shape [destinations, width]; the result is written over
            it.
        owners: The destination of the run across chunks that starts in each chunk, and one beyond
            the last for none; int32, shape [chunks].
        results: Its result, shape [chunks, width], of the dtype of ``operand``.
        exponent: From float32 to exponents.
        term: From float32 and exponents to digits.
        total: From sums of digits and exponents to the dtype of ``operand``.
        launch: How to run.

    Returns:
        Shape and dtype of ``operand``.
    """
    width = updates.shape[1]
    grid, columns = _grid(runs, width)

    def kernel(*refs: Any) -> None:
        *run_refs, updates_ref, owners_ref, results_ref, _, out_ref = refs
        part = _part(launch, run_refs, grid, columns, width)
        row = _row(launch, part, run_refs[1], updates_ref, width)

        def add_run(start: jax.Array) -> jax.Array:
            key = launch.load(run_refs[0].at[start])
            end = launch.load(run_refs[3].at[key])
            view = out_ref.at[key * width + part.column]
            initial = launch.load(view, mask=part.inside, other=0).astype(jnp.float32)
            most = jax.lax.fori_loop(
                start,
                end,
                lambda place, most: jnp.maximum(most, exponent(row(place))),
                exponent(initial),
            )
            digits = jax.lax.fori_loop(
                start,
                end,
                lambda place, sums: sums + term(row(place), most),
                term(initial, most),
            )
            launch.store(view, total(digits, most), mask=part.inside)
            return end

        jax.lax.while_loop(lambda start: start < part.last, add_run, part.within)
        owner = launch.load(owners_ref.at[part.chunk])
        kept = part.inside & (owner < operand.shape[0])
        view = results_ref.at[part.chunk * width + part.column]
        result = launch.load(view, mask=kept, other=0)
        owned = jnp.where(kept, owner * width + part.column, 0)
        launch.store(out_ref.at[owned], result, mask=kept)

    flat = launch(
        kernel,
        grid,
        jax.ShapeDtypeStruct((operand.size,), operand.dtype),
        *runs.arrays,
        updates.reshape(-1),
        owners,
        results.reshape(-1),
        operand.reshape(-1),
        name="scatter_rows_ordered_within",
        aliases={8: 0},
    )
    return flat.reshape(operand.shape)
