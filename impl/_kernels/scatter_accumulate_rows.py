"""Kernels of a scatter of wide rows: a segmented reduction over sorted contributions.

A run (segment) is the contributions of one destination. A kernel instance takes a chunk of
contributions, and adds the runs that start in the chunk. It reads each row once, and combines
*measures* of the rows in registers, in any order (``impl._exact.sums.measures``). The measures of a
run decide its result, or leave it in doubt for the caller.

A run that is longer than a part is cut, so that a hot destination occupies many kernel instances.
Each part leaves a row of each measure. No update is atomic. The steps, with the example of
``_sorted_rows``, in which destination 1 is cut:

    cuts                 finds the cut runs                        run 0: destination 1
    add_whole_runs       adds the runs that are not cut            destinations 0, 2 and 3
                         measures of cut runs                      parts 0, 1 and 2
    (the caller)         combines these measures                   destination 1
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.numerics import accumulator
from impl._kernels import _sorted_rows
from impl._kernels import pallas as pl
from impl._kernels._sorted_rows import PART as PART
from impl._kernels._sorted_rows import WARP, KernelInstance, columns_of
from impl._kernels._sorted_rows import Runs as Runs
from impl._kernels.launch import Launch

#: The number of parts in which one kernel instance finds the cut runs.
_LANES = 32


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """The arithmetic of a row, in float32, or in float64 if the updates are float64.

    Attributes:
        measures: Maps values to their measures. The measures of 0 are the identities.
        combinations: How each measure is combined.
        total: Maps measures of a sum, and the number of its terms, to numbers of the dtype of the
            operand, and to whether each is in doubt.
        negates: Whether the updates are subtracted.
    """

    measures: Callable[[jax.Array], Sequence[jax.Array]]
    combinations: Sequence[Literal["add", "max"]]
    total: Callable[[Sequence[jax.Array], jax.Array], tuple[jax.Array, jax.Array]]
    negates: bool = False

    def combined(self, a: Sequence[jax.Array], b: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
        """Returns the measures of the sum of two sums."""
        triples = zip(self.combinations, a, b, strict=True)
        return tuple(x + y if name == "add" else jnp.maximum(x, y) for name, x, y in triples)

    def folded(self, rows: jax.Array) -> tuple[jax.Array, ...]:
        """Returns the measures of the sum along the first axis."""
        pairs = zip(self.combinations, self.measures(rows), strict=True)
        return tuple((jnp.sum if name == "add" else jnp.max)(each, axis=0) for name, each in pairs)


@dataclasses.dataclass(frozen=True)
class Whole:
    """The sums of runs that are not cut, and the measures of the parts of cut runs.

    Attributes:
        out: The operand with the sums.
        doubts: 1 where a chunk has a sum that is in doubt, int32, shape [chunks, width].
        parts: The measures, each of shape [2 * parts, width]. Each part has two slots for the cut
            runs in it. A slot has the measures of the run's contributions in the part and, in the
            part where the run starts, of the run's operand. An unused slot has identities.
    """

    out: jax.Array
    doubts: jax.Array
    parts: Sequence[jax.Array]


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
        The operand with the sums, and the measures of the parts of cut runs.
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
    wide = accumulator(like.dtype)

    def kernel(*refs: Any) -> None:
        out_ref, doubts_ref, *part_refs = refs[number + len(operands) :]
        instance = KernelInstance(launch, runs, refs[:number], width, negates=arithmetic.negates)
        chunk = launch.program_id(0, programs)
        # Each kernel instance handles one chunk, or one part, or one block of destinations.
        doubts = _add_chunk(instance, runs, arithmetic, chunk, out_ref, like, empty=empty)
        instance.store(doubts_ref, chunk, doubts, where=chunk < runs.chunks)
        part = chunk - runs.chunks
        is_part = (part >= 0) & (part < runs.parts)
        for slot, cut in enumerate(instance.cut_runs(part, is_part)):
            start = tuple(arithmetic.measures(jnp.zeros(columns, wide)))
            if not empty:
                # The row of a cut run still has the operand's values.
                row = instance.load(out_ref, cut.key, where=cut.is_owner)
                start = tuple(arithmetic.measures(row.astype(wide)))
            sums = instance.fold(
                cut, lambda sums, rows: arithmetic.combined(sums, arithmetic.folded(rows)), start
            )
            for ref, each in zip(part_refs, sums, strict=True):
                instance.store(ref, 2 * part + slot, each, where=is_part)
        if empty:
            instance.fill(out_ref, part - runs.parts, like)

    dtypes = [each.dtype for each in jax.eval_shape(arithmetic.measures, _row(columns, wide))]
    out, doubts, *parts = launch(
        kernel,
        (programs, across),
        (
            jax.ShapeDtypeStruct((size * width,), like.dtype),
            jax.ShapeDtypeStruct((runs.chunks * width,), np.dtype(np.int32)),
            *(jax.ShapeDtypeStruct((2 * runs.parts * width,), dtype) for dtype in dtypes),
        ),
        *runs.arrays,
        updates.reshape(-1),
        *operands,
        name="scatter_rows_ordered_whole",
        aliases={} if empty else {number: 0},
        num_warps=pl.cdiv(columns, WARP),
    )
    doubts, *parts = (each.reshape(-1, width) for each in (doubts, *parts))
    return Whole(out.reshape(like.shape), doubts, parts)


def _row(columns: int, dtype: np.dtype[Any]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((columns,), dtype)


def _add_chunk(
    instance: KernelInstance,
    runs: Runs,
    arithmetic: Arithmetic,
    chunk: jax.Array,
    out_ref: Any,
    like: jax.Array | jax.ShapeDtypeStruct,
    *,
    empty: bool,
) -> jax.Array:
    """Adds the runs that start in a chunk and are not longer than a part.

    Returns:
        1 for columns in which a sum is in doubt.
    """
    first = jnp.where(chunk < runs.chunks, chunk * _sorted_rows.CHUNK, runs.count)
    end = jnp.minimum(first + _sorted_rows.CHUNK, runs.count)
    # A run that starts in an earlier chunk may continue in this chunk.
    before = jnp.where(first > 0, instance.key(first - 1), -2)
    start = first + jnp.sum(instance.keys(first, _sorted_rows.CHUNK) == before, dtype=jnp.int32)

    def add_run(state: Any) -> Any:
        start, key, doubts = state
        initial = jnp.zeros(instance.column.shape, like.dtype)
        if not empty:
            initial = instance.load(out_ref, key, where=jnp.bool_(True))
        sums = tuple(arithmetic.measures(initial.astype(accumulator(like.dtype))))
        last, following, sums = _run(instance, runs, arithmetic, start, key, sums)
        is_whole = last - start <= _sorted_rows.PART
        values, in_doubt = arithmetic.total(sums, last - start + 1)
        instance.store(out_ref, key, values, where=is_whole)
        # A cut run ends beyond this chunk.
        return last, following, doubts | (in_doubt & is_whole).astype(jnp.int32)

    _, _, doubts = jax.lax.while_loop(
        lambda state: (state[0] < end) & (state[1] < like.shape[0]),
        add_run,
        (start, instance.key(start), jnp.zeros(instance.column.shape, jnp.int32)),
    )
    return doubts


def _run(
    instance: KernelInstance,
    runs: Runs,
    arithmetic: Arithmetic,
    start: jax.Array,
    key: jax.Array,
    initial: Sequence[jax.Array],
) -> Any:
    """Returns the end of a run, the key that follows the run, and the measures of the run.

    If the run is longer than a part, this reads one contribution more than a part has.
    """
    limit = jnp.minimum(start + _sorted_rows.PART + 1, runs.count)

    def step(state: Any) -> Any:
        position, _, sums = state
        sums = arithmetic.combined(sums, arithmetic.measures(instance.row(position)))
        return position + 1, instance.key(position + 1), sums

    return jax.lax.while_loop(
        lambda state: (state[0] < limit) & (state[1] == key), step, (start, key, initial)
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
