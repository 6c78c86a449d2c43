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
from impl._kernels import pallas as pl
from impl._kernels.launch import Launch

#: Contributions of a chunk, and those of a part, which are at least as many.
CHUNK, PART = 64, 256
#: Columns that one program takes, and those of a warp.
_COLUMNS, _WARP = 256, 64
#: The rows of a part that are read at once.
_ROWS = 8


@dataclasses.dataclass(frozen=True)
class Runs:
    """Contributions sorted by destination.

    Attributes:
        keys: The destination of each, ascending, and the number of destinations for those that are
            dropped; int32, shape [n].
        rows: The row of the updates of each, int32, shape [n].
        slots: For each part the number of the cut run that it starts with, and of the cut run that
            it ends with if that is another; the number of parts for none. int32, shape [2 * parts].
        factors: What each row is multiplied by, of the accumulator's dtype; None for 1.
    """

    keys: jax.Array
    rows: jax.Array
    slots: jax.Array
    factors: jax.Array | None = None

    @property
    def arrays(self) -> tuple[jax.Array, ...]:
        """The arrays, as a kernel takes them."""
        factors = () if self.factors is None else (self.factors,)
        return (self.keys, self.rows, self.slots, *factors)

    @property
    def count(self) -> int:
        """The number of contributions."""
        return self.keys.shape[0]

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return pl.cdiv(self.count, CHUNK)

    @property
    def parts(self) -> int:
        """The number of parts."""
        return pl.cdiv(self.count, PART)


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


class _Program:
    """What a program reads and writes: some columns of rows."""

    def __init__(
        self, launch: Launch, runs: Runs, refs: Sequence[Any], width: int, *, negates: bool
    ) -> None:
        self._keys, self._rows, self._slots, *factors, self._updates = refs
        self._factors = factors[0] if factors else None
        self._launch, self._runs, self._width, self._negates = launch, runs, width, negates
        across, columns = _columns(width)
        self.column = launch.program_id(1, across) * columns + jnp.arange(columns, dtype=jnp.int32)
        self._inside = self.column < width

    def rows(self, place: jax.Array, where: jax.Array) -> jax.Array:
        """Returns the values of contributions, [places, columns]; 0 where there is none."""
        safe, load = jnp.where(where, place, 0), self._launch.load
        row = load(self._rows.at[safe])[:, None]
        mask = where[:, None] & self._inside[None, :]
        loaded = load(
            self._updates.at[row * self._width + self.column[None, :]], mask=mask, other=0
        )
        factor = None if self._factors is None else load(self._factors.at[safe])[:, None]
        return self._signed(loaded, factor)

    def row(self, place: jax.Array) -> jax.Array:
        """Returns the values of a contribution."""
        load = self._launch.load
        view = self._updates.at[load(self._rows.at[place]) * self._width + self.column]
        loaded = load(view, mask=self._inside, other=0)
        return self._signed(
            loaded, None if self._factors is None else load(self._factors.at[place])
        )

    def _signed(self, loaded: jax.Array, factor: jax.Array | None) -> jax.Array:
        values = loaded.astype(accumulator(loaded.dtype))
        if factor is not None:
            values = self._launch.product(values, jnp.broadcast_to(factor, values.shape))
        return -values if self._negates else values

    def key(self, place: jax.Array) -> jax.Array:
        """Returns the destination of a contribution; beyond the last, that of the last."""
        return self._launch.load(self._keys.at[jnp.clip(place, 0, self._runs.count - 1)])

    def keys(self, first: jax.Array, size: int) -> jax.Array:
        """Returns the destinations of adjacent contributions, and -1 where there is none."""
        place = first + jnp.arange(size, dtype=jnp.int32)
        inside = place < self._runs.count
        return self._launch.load(self._keys.at[jnp.where(inside, place, 0)], mask=inside, other=-1)

    def load(self, ref: Any, row: jax.Array, *, where: jax.Array) -> jax.Array:
        """Returns a row of an array, and 0 where there is none."""
        view = ref.at[jnp.where(where, row, 0) * self._width + self.column]
        return self._launch.load(view, mask=self._inside & where, other=0)

    def store(self, ref: Any, row: jax.Array, values: jax.Array, *, where: jax.Array) -> None:
        """Stores a row of an array where there is one."""
        view = ref.at[jnp.where(where, row, 0) * self._width + self.column]
        self._launch.store(view, values, mask=self._inside & where)

    def cut_runs(self, part: jax.Array, where: jax.Array) -> list[_Cut]:
        """Returns the cut runs of a part: that of its start, and that of its end."""
        safe = jnp.where(where, part, 0)
        first = safe * PART
        end = jnp.minimum(first + PART, self._runs.count)
        keys = self.keys(first, PART)
        found = []
        for slot, place in enumerate((first, end - 1)):
            number = self._launch.load(self._slots.at[2 * safe + slot])
            is_cut = where & (number < self._runs.parts)
            # A loop that ends by a key, and adds, is beyond Triton.
            same = jnp.sum(keys == self.key(place), dtype=jnp.int32)
            count = jnp.where(is_cut, same, 0)
            start = first if slot == 0 else end - count
            found.append(_Cut(number, is_cut, start, count))
        return found

    def fold(self, cut: _Cut, step: Callable[[Any, jax.Array], Any], initial: Any) -> Any:
        """Folds the rows of a cut run in a part, some at once."""

        def some(number: jax.Array, state: Any) -> Any:
            place = number * _ROWS + jnp.arange(_ROWS, dtype=jnp.int32)
            return step(state, self.rows(cut.start + place, place < cut.count))

        return jax.lax.fori_loop(0, (cut.count + _ROWS - 1) // _ROWS, some, initial)


@dataclasses.dataclass(frozen=True)
class _Cut:
    """The share of a part in a cut run: the run's number, whether it is one, start and count."""

    number: jax.Array
    is_cut: jax.Array
    start: jax.Array
    count: jax.Array


def _columns(width: int) -> tuple[int, int]:
    """Returns the programs side by side, and the columns of each."""
    columns = min(_COLUMNS, pl.next_power_of_2(width))
    return pl.cdiv(width, columns), columns


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
    size, width = operand.shape
    across, columns = _columns(width)
    programs = runs.chunks + runs.parts
    number = len(runs.arrays) + 1

    def kernel(*refs: Any) -> None:
        out_ref, most_ref = refs[-2:]
        program = _Program(launch, runs, refs[:number], width, negates=arithmetic.negates)
        chunk = launch.program_id(0, programs)
        # A program has a chunk or a part. Of the other it has none.
        _add_chunk(program, runs, arithmetic, chunk, out_ref, size)
        part = chunk - runs.chunks
        for slot, cut in enumerate(program.cut_runs(part, part >= 0)):

            def greater(most: jax.Array, rows: jax.Array) -> jax.Array:
                return jnp.maximum(most, jnp.max(arithmetic.exponent(rows), axis=0))

            none = jnp.zeros(columns, accumulator(operand.dtype))
            most = program.fold(cut, greater, arithmetic.exponent(none))
            program.store(most_ref, 2 * part + slot, most, where=part >= 0)

    out, most = launch(
        kernel,
        (programs, across),
        (
            jax.ShapeDtypeStruct((operand.size,), operand.dtype),
            jax.ShapeDtypeStruct((2 * runs.parts * width,), np.dtype(np.int32)),
        ),
        *runs.arrays,
        updates.reshape(-1),
        operand.reshape(-1),
        name="scatter_rows_ordered_whole",
        aliases={number: 0},
        num_warps=pl.cdiv(columns, _WARP),
    )
    return out.reshape(operand.shape), most.reshape(-1, width)


def _add_chunk(
    program: _Program,
    runs: Runs,
    arithmetic: Arithmetic,
    chunk: jax.Array,
    out_ref: Any,
    size: int,
) -> None:
    """Adds the runs that start in a chunk, and are no longer than a part."""
    first = jnp.where(chunk < runs.chunks, chunk * CHUNK, runs.count)
    end = jnp.minimum(first + CHUNK, runs.count)
    # The run before may go on in this chunk.
    before = jnp.where(first > 0, program.key(first - 1), -2)
    start = first + jnp.sum(program.keys(first, CHUNK) == before, dtype=jnp.int32)

    def add_run(state: Any) -> Any:
        start, key = state
        at_key = jnp.bool_(True)
        initial = program.load(out_ref, key, where=at_key)
        initial = initial.astype(accumulator(initial.dtype))
        last, following, most = _greatest(program, runs, arithmetic, start, key, initial)
        is_whole = last - start <= PART
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
        lambda state: (state[0] < end) & (state[1] < size), add_run, (start, program.key(start))
    )


def _greatest(
    program: _Program,
    runs: Runs,
    arithmetic: Arithmetic,
    start: jax.Array,
    key: jax.Array,
    initial: jax.Array,
) -> Any:
    """Returns where a run ends, the key that follows, and its greatest exponent.

    Of a run that is longer than a part, it reads one contribution more than a part has.
    """
    limit = jnp.minimum(start + PART + 1, runs.count)

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
    across, columns = _columns(width)
    number = len(runs.arrays) + 1

    def kernel(*refs: Any) -> None:
        exponents_ref, *out_refs = refs[number:]
        program = _Program(launch, runs, refs[:number], width, negates=arithmetic.negates)
        part, always = launch.program_id(0, runs.parts), jnp.bool_(True)
        for slot, cut in enumerate(program.cut_runs(part, always)):
            own = program.load(exponents_ref, cut.number, where=cut.is_cut)
            spread = jnp.broadcast_to(own[None, :], (_ROWS, columns))

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
        num_warps=pl.cdiv(columns, _WARP),
    )
    return [total.reshape(-1, width) for total in sums]
