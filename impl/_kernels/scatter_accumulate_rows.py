"""Kernels of an exact scatter of wide rows: a segmented reduction over sorted contributions.

A run (segment) is the contributions of one destination. A kernel instance takes a chunk of
contributions, and adds the runs that start in the chunk. It reads the rows of a run twice: first
for the greatest exponent, and then, from the cache, for the digits. Digits are integers on the
grid of that exponent, so they add without error in any order.

A run that is longer than a part is cut, so that a hot destination occupies many kernel instances.
Each part leaves rows of exponents and of digits, which are combined without error. No update is
atomic. The steps, with the example of ``_sorted_rows``, in which destination 1 is cut:

    cuts                 finds the cut runs                        run 0: destination 1
    add_whole_runs       adds the runs that are not cut            destinations 0, 2 and 3
                         greatest exponents of cut runs            parts 0, 1 and 2
    (the caller)         combines them to the exponent of a run    run 0
    add_cut_runs         sums of digits in each part               parts 0, 1 and 2
    (the caller)         adds these sums, and rounds once          destination 1
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
from impl._kernels._sorted_rows import ROWS, WARP, KernelInstance, columns_of
from impl._kernels._sorted_rows import Runs as Runs
from impl._kernels.launch import Launch

#: The number of parts in which one kernel instance finds the cut runs.
_LANES = 32


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """The arithmetic of a row, in float32, or in float64 if the updates are float64.

    Attributes:
        exponent: Maps values to exponents. The exponent of 0 is the least.
        digits: Maps values and the exponents of their destinations to digits, int64.
        total: Maps sums of digits, and exponents, to numbers of the dtype of the operand.
        number: The number of digits of a value.
        negates: Whether the updates are subtracted.
    """

    exponent: Callable[[jax.Array], jax.Array]
    digits: Callable[[jax.Array, jax.Array], Sequence[jax.Array]]
    total: Callable[[Sequence[jax.Array], jax.Array], jax.Array]
    number: int = 1
    negates: bool = False


@dataclasses.dataclass(frozen=True)
class Whole:
    """The sums of runs that are not cut, and the initial values of the sums of cut runs.

    Attributes:
        out: The operand with the sums.
        most: The greatest exponents, int32, shape [2 * parts, width]. Each part has two slots for
            the cut runs in it. A slot has the greatest exponent of the run's contributions in the
            part and, in the part where the run starts, of the run's operand. An unused slot has
            the least exponent.
        exponents: The least exponent everywhere, shape [parts, width].
        digits: Zeros, int64, each of the same shape.
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
        arithmetic: The arithmetic of a row.
        launch: How to run.

    Returns:
        The operand with the sums, and the initial values of the sums of cut runs.
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
    """Does the same as ``add_whole_runs`` for an operand of zeros, which the caller need not make.

    Args:
        runs: The contributions.
        updates: Floats, shape [rows, width].
        out: The shape and the dtype of the operand.
        arithmetic: The arithmetic of a row.
        launch: How to run.

    Returns:
        As ``add_whole_runs``. The rows of cut runs are undefined.
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
        instance = KernelInstance(launch, runs, refs[:number], width, negates=arithmetic.negates)
        chunk = launch.program_id(0, programs)
        # Each kernel instance handles one chunk, or one part, or one block of destinations.
        _add_chunk(instance, runs, arithmetic, chunk, out_ref, like, empty=empty)
        part = chunk - runs.chunks
        is_part = (part >= 0) & (part < runs.parts)
        none = arithmetic.exponent(jnp.zeros(columns, accumulator(like.dtype)))
        instance.store(exponents_ref, part, none, where=is_part)
        for ref in digit_refs:
            instance.store(ref, part, jnp.zeros(columns, jnp.int64), where=is_part)
        for slot, cut in enumerate(instance.cut_runs(part, is_part)):

            def greater(most: jax.Array, rows: jax.Array) -> jax.Array:
                return jnp.maximum(most, jnp.max(arithmetic.exponent(rows), axis=0))

            most = instance.fold(cut, greater, none)
            if not empty:
                # The row of a cut run still has the operand's values.
                row = instance.load(out_ref, cut.key, where=cut.is_owner)
                most = jnp.maximum(most, arithmetic.exponent(row.astype(accumulator(like.dtype))))
            instance.store(most_ref, 2 * part + slot, most, where=is_part)
        if empty:
            instance.fill(out_ref, part - runs.parts, like)

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
    instance: KernelInstance,
    runs: Runs,
    arithmetic: Arithmetic,
    chunk: jax.Array,
    out_ref: Any,
    like: jax.Array | jax.ShapeDtypeStruct,
    *,
    empty: bool,
) -> None:
    """Adds the runs that start in a chunk and are not longer than a part."""
    first = jnp.where(chunk < runs.chunks, chunk * _sorted_rows.CHUNK, runs.count)
    end = jnp.minimum(first + _sorted_rows.CHUNK, runs.count)
    # A run that starts in an earlier chunk may continue in this chunk.
    before = jnp.where(first > 0, instance.key(first - 1), -2)
    start = first + jnp.sum(instance.keys(first, _sorted_rows.CHUNK) == before, dtype=jnp.int32)

    def add_run(state: Any) -> Any:
        start, key = state
        initial = jnp.zeros(instance.column.shape, like.dtype)
        if not empty:
            initial = instance.load(out_ref, key, where=jnp.bool_(True))
        initial = initial.astype(accumulator(like.dtype))
        last, following, most = _greatest(instance, runs, arithmetic, start, key, initial)
        is_whole = last - start <= _sorted_rows.PART
        sums = jax.lax.fori_loop(
            start,
            jnp.where(is_whole, last, start),
            lambda position, sums: _added(sums, arithmetic.digits(instance.row(position), most)),
            tuple(arithmetic.digits(initial, most)),
        )
        instance.store(out_ref, key, arithmetic.total(sums, most), where=is_whole)
        # A cut run ends beyond this chunk.
        return last, following

    jax.lax.while_loop(
        lambda state: (state[0] < end) & (state[1] < like.shape[0]),
        add_run,
        (start, instance.key(start)),
    )


def _greatest(
    instance: KernelInstance,
    runs: Runs,
    arithmetic: Arithmetic,
    start: jax.Array,
    key: jax.Array,
    initial: jax.Array,
) -> Any:
    """Returns the end of a run, the key that follows the run, and the run's greatest exponent.

    If the run is longer than a part, this reads one contribution more than a part has.
    """
    limit = jnp.minimum(start + _sorted_rows.PART + 1, runs.count)

    def step(state: Any) -> Any:
        position, _, most = state
        most = jnp.maximum(most, arithmetic.exponent(instance.row(position)))
        return position + 1, instance.key(position + 1), most

    return jax.lax.while_loop(
        lambda state: (state[0] < limit) & (state[1] == key),
        step,
        (start, key, arithmetic.exponent(initial)),
    )


def cuts(keys: jax.Array, size: int, *, launch: Launch) -> tuple[jax.Array, jax.Array]:
    """Finds the runs that are cut. The number of a cut run is the number of the part it starts in.

    Args:
        keys: The keys of ``Runs``.
        size: The number of destinations.
        launch: How to run.

    Returns:
        The slots of ``Runs``, and the destination of the cut run that starts in each part, int32,
        shape [parts]; ``size`` or more for no such run.
    """
    n, length = keys.shape[0], _sorted_rows.PART
    parts = pl.cdiv(n, length)
    programs = pl.cdiv(parts, _LANES)

    def kernel(keys_ref: Any, slots_ref: Any, owners_ref: Any) -> None:
        part = launch.program_id(0, programs) * _LANES + jnp.arange(_LANES, dtype=jnp.int32)
        exists = part < parts
        first = jnp.where(exists, part * length, 0)

        def key_at(position: jax.Array) -> jax.Array:
            return launch.load(keys_ref.at[jnp.minimum(position, n - 1)]).astype(jnp.int32)

        def start_of(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            start = _sorted_rows.first_position(launch, keys_ref, n, key)
            is_cut = (start + length < n) & (key_at(start + length) == key) & (key < size)
            return start, is_cut

        head, tail = key_at(first), key_at(jnp.minimum(first + length, n) - 1)
        start, is_cut = start_of(head)
        # The first run comes from an earlier part; the last run goes on in the next part.
        comes = is_cut & (start < first)
        goes = (first + length < n) & (key_at(first + length) == tail) & start_of(tail)[1]
        is_one_run = head == tail
        from_start = jnp.where(is_one_run & goes, part, parts)
        head_slot = jnp.where(comes, start // length, from_start)
        tail_slot = jnp.where(goes & ~is_one_run, part, parts)
        launch.store_some(slots_ref, 2 * part, head_slot, exists)
        launch.store_some(slots_ref, 2 * part + 1, tail_slot, exists)
        owner = jnp.where(goes & ~(is_one_run & comes), tail, size + part)
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
        arithmetic: The arithmetic of a row.
        launch: How to run.
        operand: The rows that the runs are added to; None for zeros.

    Returns:
        The sums of each digit, int64, shape [2 * parts, width]; 0 in unused slots.
    """
    width = updates.shape[1]
    across, columns = columns_of(width)
    number = len(runs.arrays) + 1
    operands = () if operand is None else (operand.reshape(-1),)

    def kernel(*refs: Any) -> None:
        exponents_ref, *out_refs = refs[number:]
        if operand is not None:
            operand_ref, *out_refs = out_refs
        instance = KernelInstance(launch, runs, refs[:number], width, negates=arithmetic.negates)
        part, always = launch.program_id(0, runs.parts), jnp.bool_(True)
        for slot, cut in enumerate(instance.cut_runs(part, always)):
            own = instance.load(exponents_ref, cut.number, where=cut.is_cut)
            spread = jnp.broadcast_to(own[None, :], (ROWS, columns))

            def add(sums: Any, rows: jax.Array, spread: jax.Array = spread) -> Any:
                digits = arithmetic.digits(rows, spread)
                return _added(sums, [jnp.sum(digit, axis=0) for digit in digits])

            zeros = (jnp.zeros(columns, jnp.int64),) * arithmetic.number
            sums = instance.fold(cut, add, zeros)
            if operand is not None:
                row = instance.load(operand_ref, cut.key, where=cut.is_owner)
                sums = _added(sums, arithmetic.digits(row.astype(accumulator(row.dtype)), own))
            for out_ref, total in zip(out_refs, sums, strict=True):
                instance.store(out_ref, 2 * part + slot, total, where=always)

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
