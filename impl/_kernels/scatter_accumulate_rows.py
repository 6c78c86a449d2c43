"""Kernels of an exact scatter of wide rows, whose contributions are sorted by destination.

A run is the contributions of one destination. A program takes a chunk of contributions, and adds
the runs that start in it: their rows are read twice, for the greatest exponent and for the digits,
the second time from the cache. A run that is longer than a part is cut into parts, so that a hot
destination occupies many programs. Each part leaves rows of exponents and of digits, which are
combined without error. No update is atomic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.numerics import accumulator
from impl._kernels import _sorted_rows
from impl._kernels import pallas as pl
from impl._kernels._sorted_rows import PART as PART
from impl._kernels._sorted_rows import ROWS, WARP, Program, columns_of
from impl._kernels._sorted_rows import Runs as Runs
from impl._kernels.launch import Launch


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """What is computed of a row, in float32, or in float64 if the updates are.

    Attributes:
        exponent: From values to exponents. That of 0 is the least.
        digits: From values and the exponents of their destinations to digits, int64.
        total: From sums of digits and exponents to the dtype of the operand.
        number: How many digits a value has.
        negates: Whether the updates are subtracted.
    """

    exponent: Callable[[jax.Array], jax.Array]
    digits: Callable[[jax.Array, jax.Array], Sequence[jax.Array]]
    total: Callable[[Sequence[jax.Array], jax.Array], jax.Array]
    number: int = 1
    negates: bool = False


def add_whole_runs(
    runs: Runs,
    updates: jax.Array,
    operand: jax.Array,
    arithmetic: Arithmetic,
    *,
    launch: Launch,
) -> tuple[jax.Array, jax.Array]:
    """Adds the contributions of runs that are not cut.

    Args:
        runs: The contributions.
        updates: Floats, shape [rows, width].
        operand: Floats, shape [destinations, width]; the result is written over it.
        arithmetic: What is computed.
        launch: How to run.

    Returns:
        The operand with the sums. The greatest exponents of cut runs in each part, int32, shape
        [2 * parts, width]; the least exponent where there is none.
    """
    arrays = (operand.reshape(-1),)
    return _whole_runs(runs, updates, arrays, operand, arithmetic, launch, empty=False)


def add_from_zeros(
    runs: Runs,
    updates: jax.Array,
    starts: jax.Array,
    out: jax.ShapeDtypeStruct,
    arithmetic: Arithmetic,
    *,
    launch: Launch,
) -> tuple[jax.Array, jax.Array]:
    """Does the same where all elements of the operand are 0, which no array needs to hold.

    Args:
        runs: The contributions.
        updates: Floats, shape [rows, width].
        starts: For each destination a number, 0 if it has no contributions, int32.
        out: The shape and the dtype of the operand.
        arithmetic: What is computed.
        launch: How to run.

    Returns:
        As ``add_whole_runs``. The rows of cut runs may have any values.
    """
    return _whole_runs(runs, updates, (starts,), out, arithmetic, launch, empty=True)


def _whole_runs(
    runs: Runs,
    updates: jax.Array,
    arrays: tuple[jax.Array, ...],
    like: jax.Array | jax.ShapeDtypeStruct,
    arithmetic: Arithmetic,
    launch: Launch,
    *,
    empty: bool,
) -> tuple[jax.Array, jax.Array]:
    size, width = like.shape
    across, columns = columns_of(width)
    filled = pl.cdiv(size, _sorted_rows.CHUNK) if empty else 0
    programs = runs.chunks + runs.parts + filled
    number = len(runs.arrays) + 1

    def kernel(*refs: Any) -> None:
        starts_ref, out_ref, most_ref = refs[number:]
        program = Program(launch, runs, refs[:number], width, negates=arithmetic.negates)
        chunk = launch.program_id(0, programs)
        # A program has a chunk, or a part, or destinations. Of the others it has none.
        _add_chunk(program, runs, arithmetic, chunk, out_ref, like, empty=empty)
        part = chunk - runs.chunks
        is_part = (part >= 0) & (part < runs.parts)
        for slot, cut in enumerate(program.cut_runs(part, is_part)):

            def greater(most: jax.Array, rows: jax.Array) -> jax.Array:
                return jnp.maximum(most, jnp.max(arithmetic.exponent(rows), axis=0))

            none = jnp.zeros(columns, accumulator(like.dtype))
            most = program.fold(cut, greater, arithmetic.exponent(none))
            program.store(most_ref, 2 * part + slot, most, where=is_part)
        if empty:
            program.fill(starts_ref, out_ref, part - runs.parts, like)

    out, most = launch(
        kernel,
        (programs, across),
        (
            jax.ShapeDtypeStruct((size * width,), like.dtype),
            jax.ShapeDtypeStruct((2 * runs.parts * width,), np.dtype(np.int32)),
        ),
        *runs.arrays,
        updates.reshape(-1),
        *arrays,
        name="scatter_rows_ordered_whole",
        aliases={} if empty else {number: 0},
        num_warps=pl.cdiv(columns, WARP),
    )
    return out.reshape(like.shape), most.reshape(-1, width)


def _add_chunk(
    program: Program,
    runs: Runs,
    arithmetic: Arithmetic,
    chunk: jax.Array,
    out_ref: Any,
    like: jax.Array | jax.ShapeDtypeStruct,
    *,
    empty: bool,
) -> None:
    """Adds the runs that start in a chunk, and are no longer than a part."""
    first = jnp.where(chunk < runs.chunks, chunk * _sorted_rows.CHUNK, runs.count)
    end = jnp.minimum(first + _sorted_rows.CHUNK, runs.count)
    # The run before may go on in this chunk.
    before = jnp.where(first > 0, program.key(first - 1), -2)
    start = first + jnp.sum(program.keys(first, _sorted_rows.CHUNK) == before, dtype=jnp.int32)

    def add_run(state: Any) -> Any:
        start, key = state
        initial = jnp.zeros(program.column.shape, like.dtype)
        if not empty:
            initial = program.load(out_ref, key, where=jnp.bool_(True))
        initial = initial.astype(accumulator(like.dtype))
        last, following, most = _greatest(program, runs, arithmetic, start, key, initial)
        is_whole = last - start <= _sorted_rows.PART
        sums = jax.lax.fori_loop(
            start,
            jnp.where(is_whole, last, start),
            lambda place, sums: _added(sums, arithmetic.digits(program.row(place), most)),
            tuple(arithmetic.digits(initial, most)),
        )
        program.store(out_ref, key, arithmetic.total(sums, most), where=is_whole)
        # A cut run ends beyond this chunk.
        return last, following

    jax.lax.while_loop(
        lambda state: (state[0] < end) & (state[1] < like.shape[0]),
        add_run,
        (start, program.key(start)),
    )


def _greatest(
    program: Program,
    runs: Runs,
    arithmetic: Arithmetic,
    start: jax.Array,
    key: jax.Array,
    initial: jax.Array,
) -> Any:
    """Returns where a run ends, the key that follows, and its greatest exponent.

    Of a run that is longer than a part, it reads one contribution more than a part has.
    """
    limit = jnp.minimum(start + _sorted_rows.PART + 1, runs.count)

    def step(state: Any) -> Any:
        place, _, most = state
        most = jnp.maximum(most, arithmetic.exponent(program.row(place)))
        return place + 1, program.key(place + 1), most

    return jax.lax.while_loop(
        lambda state: (state[0] < limit) & (state[1] == key),
        step,
        (start, key, arithmetic.exponent(initial)),
    )


def _added(sums: Sequence[jax.Array], digits: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    return tuple(total + digit for total, digit in zip(sums, digits, strict=True))


def add_cut_runs(
    runs: Runs,
    updates: jax.Array,
    exponents: jax.Array,
    arithmetic: Arithmetic,
    *,
    launch: Launch,
) -> list[jax.Array]:
    """Adds the contributions of runs that are cut, in each part.

    Args:
        runs: The contributions.
        updates: Floats, shape [rows, width].
        exponents: The exponents of each cut run, int32, shape [parts, width].
        arithmetic: What is computed.
        launch: How to run.

    Returns:
        The sums of each digit, int64, shape [2 * parts, width]; 0 where there is no cut run.
    """
    width = updates.shape[1]
    across, columns = columns_of(width)
    number = len(runs.arrays) + 1

    def kernel(*refs: Any) -> None:
        exponents_ref, *out_refs = refs[number:]
        program = Program(launch, runs, refs[:number], width, negates=arithmetic.negates)
        part, always = launch.program_id(0, runs.parts), jnp.bool_(True)
        for slot, cut in enumerate(program.cut_runs(part, always)):
            own = program.load(exponents_ref, cut.number, where=cut.is_cut)
            spread = jnp.broadcast_to(own[None, :], (ROWS, columns))

            def add(sums: Any, rows: jax.Array, spread: jax.Array = spread) -> Any:
                digits = arithmetic.digits(rows, spread)
                return _added(sums, [jnp.sum(digit, axis=0) for digit in digits])

            zeros = (jnp.zeros(columns, jnp.int64),) * arithmetic.number
            sums = program.fold(cut, add, zeros)
            for out_ref, total in zip(out_refs, sums, strict=True):
                program.store(out_ref, 2 * part + slot, total, where=always)

    shape = jax.ShapeDtypeStruct((2 * runs.parts * width,), np.dtype(np.int64))
    sums = launch(
        kernel,
        (runs.parts, across),
        (shape,) * arithmetic.number,
        *runs.arrays,
        updates.reshape(-1),
        exponents.reshape(-1),
        name="scatter_rows_ordered_cut",
        num_warps=pl.cdiv(columns, WARP),
    )
    return [total.reshape(-1, width) for total in sums]
