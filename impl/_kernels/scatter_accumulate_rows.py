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

#: The parts of which a program finds the cut runs.
_LANES = 32


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


@dataclasses.dataclass(frozen=True)
class Whole:
    """The sums of runs that are not cut, and what those of the others start with.

    Attributes:
        out: The operand with the sums.
        most: The greatest exponents of cut runs in each part, and those of their operands in the
            part that they start in; int32, shape [2 * parts, width]; the least exponent where there
            is none.
        exponents: The least exponents, of the shape [parts, width].
        digits: Sums of digits of the same shape, which are 0, int64.
    """

    out: jax.Array
    most: jax.Array
    exponents: jax.Array
    digits: Sequence[jax.Array]


def add_whole_runs(
    runs: Runs,
    updates: jax.Array,
    operand: jax.Array,
    arithmetic: Arithmetic,
    *,
    launch: Launch,
) -> Whole:
    """Adds the contributions of runs that are not cut.

    Args:
        runs: The contributions.
        updates: Floats, shape [rows, width].
        operand: Floats, shape [destinations, width]; the result is written over it.
        arithmetic: What is computed.
        launch: How to run.

    Returns:
        The operand with the sums, and what the sums of cut runs start with.
    """
    return _whole_runs(runs, updates, operand, arithmetic, launch, empty=False)


def add_from_zeros(
    runs: Runs,
    updates: jax.Array,
    out: jax.ShapeDtypeStruct,
    arithmetic: Arithmetic,
    *,
    launch: Launch,
) -> Whole:
    """Does the same where all elements of the operand are 0, which no array needs to hold.

    Args:
        runs: The contributions.
        updates: Floats, shape [rows, width].
        out: The shape and the dtype of the operand.
        arithmetic: What is computed.
        launch: How to run.

    Returns:
        As ``add_whole_runs``. The rows of cut runs may have any values.
    """
    return _whole_runs(runs, updates, out, arithmetic, launch, empty=True)


def _whole_runs(
    runs: Runs,
    updates: jax.Array,
    like: jax.Array | jax.ShapeDtypeStruct,
    arithmetic: Arithmetic,
    launch: Launch,
    *,
    empty: bool,
) -> Whole:
    size, width = like.shape
    across, columns = columns_of(width)
    filled = pl.cdiv(size, _sorted_rows.CHUNK) if empty else 0
    programs = runs.chunks + runs.parts + filled
    number = len(runs.arrays) + 1
    operands = (like.reshape(-1),) if isinstance(like, jax.Array) else ()

    def kernel(*refs: Any) -> None:
        out_ref, most_ref, exponents_ref, *digit_refs = refs[number + len(operands) :]
        program = Program(launch, runs, refs[:number], width, negates=arithmetic.negates)
        chunk = launch.program_id(0, programs)
        # Each kernel instance handles one chunk, or one part, or one block of destinations.
        _add_chunk(program, runs, arithmetic, chunk, out_ref, like, empty=empty)
        part = chunk - runs.chunks
        is_part = (part >= 0) & (part < runs.parts)
        none = arithmetic.exponent(jnp.zeros(columns, accumulator(like.dtype)))
        program.store(exponents_ref, part, none, where=is_part)
        for ref in digit_refs:
            program.store(ref, part, jnp.zeros(columns, jnp.int64), where=is_part)
        for slot, cut in enumerate(program.cut_runs(part, is_part)):

            def greater(most: jax.Array, rows: jax.Array) -> jax.Array:
                return jnp.maximum(most, jnp.max(arithmetic.exponent(rows), axis=0))

            most = program.fold(cut, greater, none)
            if not empty:
                # The row of a cut run is still that of the operand.
                row = program.load(out_ref, cut.key, where=cut.is_owner)
                most = jnp.maximum(most, arithmetic.exponent(row.astype(accumulator(like.dtype))))
            program.store(most_ref, 2 * part + slot, most, where=is_part)
        if empty:
            program.fill(out_ref, part - runs.parts, like)

    out, most, exponents, *digits = launch(
        kernel,
        (programs, across),
        (
            jax.ShapeDtypeStruct((size * width,), like.dtype),
            jax.ShapeDtypeStruct((2 * runs.parts * width,), np.dtype(np.int32)),
            jax.ShapeDtypeStruct((runs.parts * width,), np.dtype(np.int32)),
            *(jax.ShapeDtypeStruct((runs.parts * width,), np.dtype(np.int64)),) * arithmetic.number,
        ),
        *runs.arrays,
        updates.reshape(-1),
        *operands,
        name="scatter_rows_ordered_whole",
        aliases={} if empty else {number: 0},
        num_warps=pl.cdiv(columns, WARP),
    )
    of_cuts = (each.reshape(-1, width) for each in (most, exponents, *digits))
    most, exponents, *digits = of_cuts
    return Whole(out.reshape(like.shape), most, exponents, digits)


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


def cuts(keys: jax.Array, size: int, *, launch: Launch) -> tuple[jax.Array, jax.Array]:
    """Finds the runs that are cut, each of which has the number of the part it starts in.

    Args:
        keys: As ``Runs`` has them.
        size: The number of destinations.
        launch: How to run.

    Returns:
        The slots of ``Runs``; the destination of each cut run, and beyond the last for none, int32,
        shape [parts].
    """
    n, length = keys.shape[0], _sorted_rows.PART
    parts = pl.cdiv(n, length)
    programs = pl.cdiv(parts, _LANES)

    def kernel(keys_ref: Any, slots_ref: Any, owners_ref: Any) -> None:
        part = launch.program_id(0, programs) * _LANES + jnp.arange(_LANES, dtype=jnp.int32)
        exists = part < parts
        first = jnp.where(exists, part * length, 0)

        def key_at(place: jax.Array) -> jax.Array:
            return launch.load(keys_ref.at[jnp.minimum(place, n - 1)]).astype(jnp.int32)

        def start_of(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            start = _sorted_rows.first_place(launch, keys_ref, n, key)
            is_cut = (start + length < n) & (key_at(start + length) == key) & (key < size)
            return start, is_cut

        head, tail = key_at(first), key_at(jnp.minimum(first + length, n) - 1)
        start, is_cut = start_of(head)
        comes = is_cut & (start < first)
        goes = (first + length < n) & (key_at(first + length) == tail) & start_of(tail)[1]
        is_one = head == tail
        from_start = jnp.where(is_one & goes, part, parts)
        head_slot = jnp.where(comes, start // length, from_start)
        tail_slot = jnp.where(goes & ~is_one, part, parts)
        launch.store_some(slots_ref, 2 * part, head_slot, exists)
        launch.store_some(slots_ref, 2 * part + 1, tail_slot, exists)
        owner = jnp.where(goes & ~(is_one & comes), tail, size + part)
        launch.store_some(owners_ref, part, owner, exists)

    slots, owners = launch(
        kernel,
        (programs,),
        (
            jax.ShapeDtypeStruct((2 * parts,), np.dtype(np.int32)),
            jax.ShapeDtypeStruct((parts,), np.dtype(np.int32)),
        ),
        keys,
        name="scatter_rows_ordered_cuts",
        num_warps=1,
    )
    return slots, owners


def _added(sums: Sequence[jax.Array], digits: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    return tuple(total + digit for total, digit in zip(sums, digits, strict=True))


def add_cut_runs(
    runs: Runs,
    updates: jax.Array,
    exponents: jax.Array,
    arithmetic: Arithmetic,
    *,
    launch: Launch,
    operand: jax.Array | None = None,
) -> list[jax.Array]:
    """Adds the contributions of runs that are cut, in each part.

    Args:
        runs: The contributions.
        updates: Floats, shape [rows, width].
        exponents: The exponents of each cut run, int32, shape [parts, width].
        arithmetic: What is computed.
        launch: How to run.
        operand: The rows that the runs are added to; None for zeros.

    Returns:
        The sums of each digit, int64, shape [2 * parts, width]; 0 where there is no cut run.
    """
    width = updates.shape[1]
    across, columns = columns_of(width)
    number = len(runs.arrays) + 1
    operands = () if operand is None else (operand.reshape(-1),)

    def kernel(*refs: Any) -> None:
        exponents_ref, *out_refs = refs[number:]
        if operand is not None:
            operand_ref, *out_refs = out_refs
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
            if operand is not None:
                row = program.load(operand_ref, cut.key, where=cut.is_owner)
                sums = _added(sums, arithmetic.digits(row.astype(accumulator(row.dtype)), own))
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
        *operands,
        name="scatter_rows_ordered_cut",
        num_warps=pl.cdiv(columns, WARP),
    )
    return [total.reshape(-1, width) for total in sums]
