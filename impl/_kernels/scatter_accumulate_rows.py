"""Kernels of an exact scatter of wide rows, whose contributions are sorted by destination.

A run is the contributions of one destination. Programs take chunks of equal numbers of
contributions, so that a hot destination occupies many. A run within a chunk is added there: its
rows are read twice, for the greatest exponent and for the digits, the second time from the cache. A
run that the ends of chunks cut leaves two rows for each chunk, one of exponents and one of digits,
which are combined without error. No update is atomic.
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

#: Contributions of a chunk.
CHUNK = 64
#: Columns that one program takes, and those of a warp.
_COLUMNS, _WARP = 256, 64


@dataclasses.dataclass(frozen=True)
class Runs:
    """Contributions sorted by destination.

    Attributes:
        keys: The destination of each, ascending, and the number of destinations for those that are
            dropped; int32, shape [n].
        rows: The row of the updates of each, int32, shape [n].
        slots: For each chunk the number of the cut run that it starts with, and of the cut run
            that it ends with if that is another; the number of chunks for none. int32, shape
            [2 * chunks].
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
    def chunks(self) -> int:
        """The number of chunks."""
        return pl.cdiv(self.keys.shape[0], CHUNK)


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
class _Part:
    """The chunk and the columns of a program, and what it reads.

    Attributes:
        launch: How it runs.
        chunk: The number of the chunk.
        column: The columns, int32, shape [columns].
        inside: Whether each exists.
        first: Where the chunk starts.
        end: Where it ends.
        row: From the place of a contribution to its values.
        key: From a place to the destination; at the end, that of the last place.
        cuts: The numbers of the cut runs at the start and at the end.
    """

    launch: Launch
    chunk: jax.Array
    column: jax.Array
    inside: jax.Array
    first: jax.Array
    end: jax.Array
    row: Callable[[jax.Array], jax.Array]
    key: Callable[[jax.Array], jax.Array]
    cuts: tuple[jax.Array, jax.Array]

    def load(self, ref: Any, row: jax.Array, width: int, *, where: jax.Array) -> jax.Array:
        """Returns a row of an array, and 0 where there is none."""
        view = ref.at[jnp.where(where, row, 0) * width + self.column]
        return self.launch.load(view, mask=self.inside & where, other=0)

    def store(
        self, ref: Any, row: jax.Array, width: int, values: jax.Array, *, where: jax.Array
    ) -> None:
        """Stores a row of an array where there is one."""
        view = ref.at[jnp.where(where, row, 0) * width + self.column]
        self.launch.store(view, values, mask=self.inside & where)


def _grid(runs: Runs, width: int) -> tuple[tuple[int, int], int]:
    columns = min(_COLUMNS, pl.next_power_of_2(width))
    return (runs.chunks, pl.cdiv(width, columns)), columns


def _part(
    launch: Launch, runs: Runs, refs: Sequence[Any], updates_ref: Any, width: int, *, negates: bool
) -> _Part:
    keys_ref, rows_ref, slots_ref, *factors = refs
    grid, columns = _grid(runs, width)
    chunk = launch.program_id(0, grid[0])
    column = launch.program_id(1, grid[1]) * columns + jnp.arange(columns, dtype=jnp.int32)
    inside = column < width
    first = chunk * CHUNK
    end = jnp.minimum(first + CHUNK, runs.keys.shape[0])

    def row(place: jax.Array) -> jax.Array:
        view = updates_ref.at[launch.load(rows_ref.at[place]) * width + column]
        loaded = launch.load(view, mask=inside, other=0)
        values = loaded.astype(accumulator(loaded.dtype))
        if factors:
            factor = launch.load(factors[0].at[place])
            values = launch.product(values, jnp.broadcast_to(factor, values.shape))
        return -values if negates else values

    def key(place: jax.Array) -> jax.Array:
        return launch.load(keys_ref.at[jnp.clip(place, first, end - 1)])

    cuts = tuple(launch.load(slots_ref.at[2 * chunk + slot]) for slot in (0, 1))
    return _Part(launch, chunk, column, inside, first, end, row, key, cuts)  # type: ignore[arg-type]


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
        The operand with the sums. The greatest exponents of cut runs in each chunk, int32, shape
        [2 * chunks, width]; the least exponent where there is none.
    """
    size, width = operand.shape
    grid, columns = _grid(runs, width)
    wide = accumulator(operand.dtype)
    number = len(runs.arrays)

    def kernel(*refs: Any) -> None:
        updates_ref, (out_ref, most_ref) = refs[number], refs[-2:]
        part = _part(launch, runs, refs[:number], updates_ref, width, negates=arithmetic.negates)
        other = part.key(part.end)

        def add_run(state: Any) -> Any:
            start, key, *found = state
            at_start = start == part.first
            cut = jnp.where(at_start, part.cuts[0], jnp.where(key == other, part.cuts[1], grid[0]))
            is_cut = cut < grid[0]
            initial = part.load(out_ref, key, width, where=~is_cut).astype(wide)
            end, following, most = _greatest(part, arithmetic, start, key, initial)
            sums = jax.lax.fori_loop(
                start,
                jnp.where(is_cut, start, end),
                lambda place, sums: _added(sums, arithmetic.digits(part.row(place), most)),
                tuple(arithmetic.digits(initial, most)),
            )
            part.store(out_ref, key, width, arithmetic.total(sums, most), where=~is_cut)
            slots = (is_cut & at_start, is_cut & ~at_start)
            pairs = zip(found, slots, strict=True)
            return (end, following, *(jnp.where(is_found, most, old) for old, is_found in pairs))

        none = jnp.zeros(columns, wide)
        _, _, *found = jax.lax.while_loop(
            lambda state: (state[0] < part.end) & (state[1] < size),
            add_run,
            (part.first, part.key(part.first), *[arithmetic.exponent(none)] * 2),
        )
        always = jnp.bool_(True)
        for slot, most in enumerate(found):
            part.store(most_ref, 2 * part.chunk + slot, width, most, where=always)

    out, most = launch(
        kernel,
        grid,
        (
            jax.ShapeDtypeStruct((operand.size,), operand.dtype),
            jax.ShapeDtypeStruct((2 * runs.chunks * width,), np.dtype(np.int32)),
        ),
        *runs.arrays,
        updates.reshape(-1),
        operand.reshape(-1),
        name="scatter_rows_ordered_whole",
        aliases={number + 1: 0},
        num_warps=pl.cdiv(columns, _WARP),
    )
    return out.reshape(operand.shape), most.reshape(-1, width)


def _greatest(
    part: _Part, arithmetic: Arithmetic, start: jax.Array, key: jax.Array, initial: jax.Array
) -> Any:
    """Returns where a run ends in its chunk, the key that follows, and its greatest exponent."""

    def step(state: Any) -> Any:
        place, _, most = state
        most = jnp.maximum(most, arithmetic.exponent(part.row(place)))
        return place + 1, part.key(place + 1), most

    return jax.lax.while_loop(
        lambda state: (state[0] < part.end) & (state[1] == key),
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
    """Adds the contributions of runs that are cut, in each chunk.

    Args:
        runs: The contributions.
        updates: Floats, shape [rows, width].
        exponents: The exponents of each cut run, int32, shape [chunks, width].
        arithmetic: What is computed.
        launch: How to run.

    Returns:
        The sums of each digit, int64, shape [2 * chunks, width]; 0 where there is no cut run.
    """
    width = updates.shape[1]
    grid, columns = _grid(runs, width)
    number = len(runs.arrays)

    def kernel(*refs: Any) -> None:
        updates_ref, exponents_ref, *out_refs = refs[number:]
        part = _part(launch, runs, refs[:number], updates_ref, width, negates=arithmetic.negates)

        place = part.first + jnp.arange(CHUNK, dtype=jnp.int32)
        keys = launch.load(refs[0].at[place], mask=place < part.end, other=-1)

        def fold(slot: int, key: jax.Array) -> None:
            is_cut = part.cuts[slot] < grid[0]
            own = part.load(exponents_ref, part.cuts[slot], width, where=is_cut)
            # A loop that ends by a key, and adds, is beyond Triton.
            count = jnp.where(is_cut, jnp.sum(keys == key, dtype=jnp.int32), 0)
            start = part.first if slot == 0 else part.end - count
            sums = jax.lax.fori_loop(
                start,
                start + count,
                lambda place, sums: _added(sums, arithmetic.digits(part.row(place), own)),
                (jnp.zeros(columns, jnp.int64),) * arithmetic.number,
            )
            for out_ref, total in zip(out_refs, sums, strict=True):
                part.store(out_ref, 2 * part.chunk + slot, width, total, where=jnp.bool_(True))

        fold(0, part.key(part.first))
        fold(1, part.key(part.end))

    shape = jax.ShapeDtypeStruct((2 * runs.chunks * width,), np.dtype(np.int64))
    sums = launch(
        kernel,
        grid,
        (shape,) * arithmetic.number,
        *runs.arrays,
        updates.reshape(-1),
        exponents.reshape(-1),
        name="scatter_rows_ordered_cut",
        num_warps=pl.cdiv(columns, _WARP),
    )
    return [total.reshape(-1, width) for total in sums]
