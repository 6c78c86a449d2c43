"""Kernels that find the element of a given rank in long rows, most likely by one read of them.

The technique is selection by sampled pivots: SELECT of Floyd and Rivest (Algorithm 489,
Communications of the ACM 18, 1975, 173; doi:10.1145/360680.360694). A sample of a row gives two
pivots, between which the element lies almost certainly. One pass over the row counts the keys below
the pivots and equal to them, and copies the keys between the pivots, with their positions, to slots
of its kernel instance. The slots are the row of the next pass, until an instance holds a whole row
of them. For the median, of rank 5, of nine keys:

    keys       7 1 9 4 8 2 6 3 5      the sample 1 8 6 3 gives the pivots 3 and 6
    counts     2 below the pivots, 1 equal to the lower one, 1 equal to the upper one
    slots      4 5
    next pass  the slots' key of rank 5 - 2 - 1 = 2, which is 5

The pivots are only a guess, but the counts are exact: they prove that the element is one of the
pivots, or between them. A row is not certain if the element is outside, or if an instance has too
few slots; ``select_kth`` then searches all rows by digits. So a sample changes the time of a
search, and never its result.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from impl._families.sort_keys import constant
from impl._kernels._passes import TILE, Level, levels
from impl._kernels._rows import key_dtype, kth_key, load_keys, power_of_two
from impl._kernels.launch import Launch

#: The numbers that an instance writes for its part of a row, in the order of ``_Totals``: the
#: number of keys below the lower pivot, equal to the lower pivot, between the pivots, and equal to
#: the upper pivot; then the first position of the lower pivot, of the upper one, and of a NaN.
_BELOW, _LOWS, _BETWEEN, _HIGHS, _FIRST_LOW, _FIRST_HIGH, _FIRST_NAN = range(7)
_COUNTS = 8
#: The state of the search in a row is three numbers: the rank among the slots, the position or
#: ``_NOT_FOUND``, and 1 if the row is certain so far. A fourth one is padding.
_STATE = 4
_NOT_FOUND = -1
#: Comes after every position.
_BEYOND = np.iinfo(np.int32).max
#: The number of keys of a lane, unless that takes more warps than an instance may have.
_OF_A_LANE, _WARPS = 16, 32


class Found(NamedTuple):
    """The result of a search in rows.

    Attributes:
        position: The position of the element, int32; undefined in a row that is not certain.
        certain: Whether the position is proved.
    """

    position: jax.Array
    certain: jax.Array


def _warps(width: int) -> int:
    """Returns the warps of an instance that holds ``width`` keys; a power of two."""
    return min(_WARPS, max(1, width // (_OF_A_LANE * 32)))


def first_position(
    values: jax.Array, ranks: jax.Array, most: int, *, launch: Launch, nan_first: bool = False
) -> Found:
    """Finds the lowest position of the element of the given rank in each row.

    Args:
        values: Shape [rows, n], as ``as_sortable`` returns them, for which there are ``levels``.
        ranks: int32, shape [rows]; 1 for the smallest.
        most: How many elements of a row an instance holds.
        launch: How to run.
        nan_first: Whether the first NaN of a row is found, if there is one, whatever the rank is.

    Returns:
        Positions and their certainty, each of shape [rows].

    Raises:
        ValueError: There are no ``levels`` that narrow these rows.
    """
    rows, n = values.shape
    passes = levels(rows, n, most)
    if not passes:
        raise ValueError(f"rows of {n} elements are not narrowed")
    bits = values.dtype.itemsize * 8
    search = _Search(bits, key_dtype(values), launch, passes[0] if nan_first else None)
    sample = jnp.take(values, passes[0].sampled(), axis=1, mode="clip")
    pivots, state = search.pivots_of_sample(passes[0], sample, ranks)
    slots = search.narrowed(passes[0], (values.reshape(-1),), None, pivots)
    for before, level in itertools.pairwise(passes):
        pivots, state = search.pivots_of_slots(level, before, slots, state)
        slots = search.narrowed(level, slots, before, pivots)
    return search.found(passes[-1], slots, state)


class _Totals(NamedTuple):
    """The counts of an instance so far, and first positions. All but ``between`` are per lane.

    Attributes:
        below: The number of keys below the lower pivot.
        lows: The number of keys equal to the lower pivot.
        between: The number of keys between the pivots, which is the number of slots in use.
        highs: The number of keys equal to the upper pivot.
        first_low: The first position of a key equal to the lower pivot.
        first_high: The first position of a key equal to the upper pivot.
        first_nan: The first position of a NaN; None if NaNs count as other keys do.
    """

    below: jax.Array
    lows: jax.Array
    between: jax.Array
    highs: jax.Array
    first_low: jax.Array
    first_high: jax.Array
    first_nan: jax.Array | None

    @classmethod
    def of_none(cls, *, with_nans: bool) -> _Totals:
        """Returns the counts of no elements; ``with_nans`` tells whether to look for NaNs."""
        lanes = (TILE[1] * TILE[2],)
        none, beyond = jnp.zeros(lanes, jnp.int32), jnp.full(lanes, _BEYOND, jnp.int32)
        first_nan = beyond if with_nans else None
        return cls(none, none, jnp.zeros((), jnp.int32), none, beyond, beyond, first_nan)

    def with_tile(
        self,
        below: jax.Array,
        lows: jax.Array,
        between: jax.Array,
        highs: jax.Array,
        nans: jax.Array,
        position: jax.Array,
    ) -> _Totals:
        """Returns the counts with the elements of one more tile."""
        counts = (jnp.sum(each, axis=0, dtype=jnp.int32) for each in (below, lows, highs))
        firsts = (jnp.min(jnp.where(each, position, _BEYOND), axis=0) for each in (lows, highs))
        more_below, more_lows, more_highs = counts
        first_low, first_high = firsts
        first_nan = self.first_nan
        if first_nan is not None:
            first_nan = jnp.minimum(first_nan, jnp.min(jnp.where(nans, position, _BEYOND), axis=0))
        return _Totals(
            self.below + more_below,
            self.lows + more_lows,
            self.between + jnp.sum(between, dtype=jnp.int32),
            self.highs + more_highs,
            jnp.minimum(self.first_low, first_low),
            jnp.minimum(self.first_high, first_high),
            first_nan,
        )

    def reduced(self) -> tuple[jax.Array, ...]:
        """Returns the counts of all lanes together, in the order in which they are stored."""
        counts = (self.below, self.lows, self.highs)
        below, lows, highs = (jnp.sum(each, dtype=jnp.int32) for each in counts)
        positions = (self.first_low, self.first_high, self.first_nan)
        firsts = (jnp.min(each) for each in positions if each is not None)
        return (below, lows, self.between, highs, *firsts)


@dataclasses.dataclass(frozen=True)
class _Search:
    """The kernels of a search.

    Attributes:
        bits: The bits of a key that count.
        dtype: The dtype of keys.
        launch: How to run.
        nan_pass: The pass in which the first NaN is the element, if there is one; None if no pass
            looks for NaNs.
    """

    bits: int
    dtype: np.dtype[Any]
    launch: Launch
    nan_pass: Level | None = None

    def pivots_of_sample(
        self, level: Level, sample: jax.Array, ranks: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the pivots of rows of elements, and the state of the search in them."""

        def kernel(sample_ref: Any, ranks_ref: Any, pivots_ref: Any, state_ref: Any) -> None:
            row = self.launch.program_id(0, level.rows)
            number = jnp.arange(level.sample, dtype=jnp.int32)
            inside = number < level.sample
            keys = load_keys(self.launch, sample_ref, row * level.sample + number, inside)
            rank = self.launch.load(ranks_ref.at[row])
            self._store_pivots(level, pivots_ref, row, keys, rank, level.sample / level.n)
            self._store_state(state_ref, row, rank, jnp.int32(_NOT_FOUND), jnp.int32(1))

        return self._launched_pivots(level, kernel, sample.reshape(-1), ranks)

    def pivots_of_slots(
        self, level: Level, before: Level, slots: tuple[jax.Array, ...], state: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the pivots of rows of slots, and the state of the search in them."""
        keys, _, counts = slots

        def kernel(
            keys_ref: Any, counts_ref: Any, before_ref: Any, pivots_ref: Any, state_ref: Any
        ) -> None:
            row = self.launch.program_id(0, level.rows)
            rank, position, certain, filled = self._state(before, counts_ref, before_ref, row)
            slot = level.sampled()
            inside = self._is_filled(before, counts_ref, row, slot)
            sample = load_keys(self.launch, keys_ref, row * level.n + slot, inside)
            drawn = jnp.sum(inside, dtype=jnp.int32).astype(jnp.float32)
            share = drawn / jnp.maximum(filled, 1).astype(jnp.float32)
            self._store_pivots(level, pivots_ref, row, sample, rank, share)
            self._store_state(state_ref, row, rank, position, certain)

        return self._launched_pivots(level, kernel, keys, counts, state)

    def _launched_pivots(
        self, level: Level, kernel: Any, *operands: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        out = (
            jax.ShapeDtypeStruct((level.rows * 2,), self.dtype),
            jax.ShapeDtypeStruct((level.rows * _STATE,), jnp.int32),
        )
        pivots, state = self.launch(
            kernel,
            (level.rows,),
            out,
            *operands,
            name="select_ordered_pivots",
            num_warps=_warps(level.sample),
        )
        return pivots, state

    def _store_pivots(
        self,
        level: Level,
        pivots_ref: Any,
        row: jax.Array,
        keys: jax.Array,
        rank: jax.Array,
        share: jax.Array | float,
    ) -> None:
        """Stores two keys of the sample, of ranks around the expected rank of the element there.

        A rank beyond an end of the sample gives the least or the greatest of all keys.
        """
        middle = (rank.astype(jnp.float32) * share).astype(jnp.int32)
        side = jnp.arange(2, dtype=jnp.int32)
        ranks = jnp.where(side == 0, middle - level.reach, middle + level.reach + 1)
        pivots = kth_key(keys[None, :], ranks, self.bits)
        self.launch.store(pivots_ref.at[row * 2 + side], pivots)

    def _store_state(self, ref: Any, row: jax.Array, *numbers: jax.Array) -> None:
        for slot, number in enumerate(numbers):
            self.launch.store(ref.at[row * _STATE + slot], number)

    def _state(
        self, level: Level, counts_ref: Any, state_ref: Any, row: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Returns the state of the search in a row after a pass.

        Returns:
            The rank among the slots in use, the position or ``_NOT_FOUND``, 1 if the row is
            certain, and the number of slots in use.
        """
        part = jnp.arange(power_of_two(level.parts), dtype=jnp.int32)
        inside = part < level.parts

        def numbers(slot: int, other: int) -> jax.Array:
            offset = (row * level.parts + part) * _COUNTS + slot
            return self.launch.load(counts_ref.at[offset], mask=inside, other=other)

        between = numbers(_BETWEEN, 0)
        below, lows, highs = (
            jnp.sum(numbers(slot, 0), dtype=jnp.int32) for slot in (_BELOW, _LOWS, _HIGHS)
        )
        first_low, first_high = (
            jnp.min(numbers(slot, _BEYOND)) for slot in (_FIRST_LOW, _FIRST_HIGH)
        )
        in_use, has_slots = jnp.sum(between, dtype=jnp.int32), jnp.max(between) <= level.capacity
        rank, position, certain = (
            self.launch.load(state_ref.at[row * _STATE + slot]) for slot in range(3)
        )
        beyond = rank - below - lows
        is_low, is_between = beyond <= 0, (beyond > 0) & (beyond <= in_use)
        is_known = (rank > below) & (beyond <= in_use + highs) & (~is_between | has_slots)
        of_pivot = jnp.where(is_low, first_low, jnp.where(is_between, _NOT_FOUND, first_high))
        if level is self.nan_pass:
            first_nan = jnp.min(numbers(_FIRST_NAN, _BEYOND))
            position = jnp.where(first_nan < _BEYOND, first_nan, position)
        is_found = position >= 0
        position = jnp.where(is_found | ~is_known, position, of_pivot)
        certain = jnp.where(is_found | is_known, certain, 0)
        return jnp.maximum(beyond, 1), position, certain, in_use

    def _is_filled(
        self, before: Level, counts_ref: Any, row: jax.Array, slot: jax.Array
    ) -> jax.Array:
        """Returns whether slots of the pass before hold an element."""
        inside = slot < before.slots
        offset = (row * before.parts + slot // before.capacity) * _COUNTS + _BETWEEN
        count = self.launch.load(counts_ref.at[offset], mask=inside, other=0)
        return inside & (slot % before.capacity < count)

    def narrowed(
        self,
        level: Level,
        source: tuple[jax.Array, ...],
        before: Level | None,
        pivots: jax.Array,
    ) -> tuple[jax.Array, ...]:
        """Copies the keys between the pivots to slots, and makes the counts of ``_Totals``.

        Args:
            level: The pass.
            source: The elements, or the result of the pass before: its slots.
            before: The pass before; None for the first.
            pivots: The pivots of each row.

        Returns:
            Keys and their positions, shape [rows, slots], and the counts of each part, all flat.
        """
        size = level.rows * level.slots

        def kernel(*refs: Any) -> None:
            *sources, pivots_ref, keys_ref, positions_ref, counts_ref = refs
            row = self.launch.program_id(0, level.rows)
            part = self.launch.program_id(1, level.parts)
            low, high = (self.launch.load(pivots_ref.at[row * 2 + side]) for side in range(2))
            first = (row * level.parts + part) * level.capacity

            def visit(trip: jax.Array, totals: _Totals) -> _Totals:
                column = level.lanes(part, trip)
                offset = row * level.n + column
                inside = column < level.n
                if before is not None:
                    inside = self._is_filled(before, sources[2], row, column)
                keys = load_keys(self.launch, sources[0], offset, inside)
                from_low = inside & (keys >= low)
                between = from_low & (keys > low) & (keys < high)
                lows, highs = from_low & (keys == low), from_low & (keys > low) & (keys == high)
                position = column
                if before is not None:
                    candidates = from_low & (keys <= high)
                    position = self.launch.load(sources[1].at[offset], mask=candidates, other=0)
                ones = between.astype(jnp.int32).reshape(-1)
                rising = jnp.cumsum(ones, dtype=jnp.int32).reshape(between.shape)
                slot = totals.between + rising - 1
                fits = between & (slot < level.capacity)
                self.launch.store_some(keys_ref, first + slot, keys, fits)
                self.launch.store_some(positions_ref, first + slot, position, fits)
                below = inside & (keys < low)
                nans = inside & (keys == constant((1 << self.bits) - 1, self.dtype))
                return totals.with_tile(below, lows, between, highs, nans, position)

            none = _Totals.of_none(with_nans=level is self.nan_pass)
            totals = jax.lax.fori_loop(0, level.trips, visit, none)
            self._clear_rest(level, positions_ref, first, totals.between)
            start = (row * level.parts + part) * _COUNTS
            for number, total in enumerate(totals.reduced()):
                self.launch.store(counts_ref.at[start + number], total)

        out = (
            jax.ShapeDtypeStruct((size,), self.dtype),
            jax.ShapeDtypeStruct((size,), jnp.int32),
            jax.ShapeDtypeStruct((level.rows * level.parts * _COUNTS,), jnp.int32),
        )
        grid = (level.rows, level.parts)
        return tuple(
            self.launch(kernel, grid, out, *source, pivots, name="select_ordered_narrowed")
        )

    def _clear_rest(self, level: Level, ref: Any, first: jax.Array, in_use: jax.Array) -> None:
        """Stores to the slots that are not in use a position after every position of a row."""
        width = TILE[1] * TILE[2]

        def visit(trip: jax.Array, _: None) -> None:
            slot = trip * width + jnp.arange(width, dtype=jnp.int32)
            free = (slot >= in_use) & (slot < level.capacity)
            self.launch.store_some(ref, first + slot, jnp.full((width,), _BEYOND, jnp.int32), free)

        jax.lax.fori_loop(0, -(-level.capacity // width), visit, None)

    def found(self, level: Level, slots: tuple[jax.Array, ...], state: jax.Array) -> Found:
        """Returns the result of the search, for which an instance holds the last slots of a row."""
        width = power_of_two(level.slots)

        def kernel(
            keys_ref: Any, positions_ref: Any, counts_ref: Any, state_ref: Any, *refs: Any
        ) -> None:
            row = self.launch.program_id(0, level.rows)
            rank, position, certain, _ = self._state(level, counts_ref, state_ref, row)
            slot = jnp.arange(width, dtype=jnp.int32)
            inside = self._is_filled(level, counts_ref, row, slot)
            offset = row * level.slots + slot
            keys = load_keys(self.launch, keys_ref, offset, inside)
            target = kth_key(keys[None, :], jnp.broadcast_to(rank, (1,)), self.bits)
            equal = (keys == target) & (slot < level.slots)
            where = self.launch.load(positions_ref.at[offset], mask=equal, other=_BEYOND)
            self.launch.store(refs[0].at[row], jnp.where(position >= 0, position, jnp.min(where)))
            self.launch.store(refs[1].at[row], certain)

        out = (jax.ShapeDtypeStruct((level.rows,), jnp.int32),) * 2
        position, certain = self.launch(
            kernel,
            (level.rows,),
            out,
            *slots,
            state,
            name="select_ordered_found",
            num_warps=_warps(width),
        )
        return Found(position, certain > 0)
