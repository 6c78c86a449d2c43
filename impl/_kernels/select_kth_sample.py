"""Kernels that find the element of a given rank in long rows, most likely by one read of them.

A sample of a row gives two pivots, between which the element most likely is. One pass counts the
keys below the pivots and equal to them, and copies those between them, with their positions, to
slots of its program. The slots are narrowed in the same way, until a program holds a whole row of
them.

The counts tell whether an element is found, so the sample decides of no result. If an element is
not between the pivots, or a program has too few slots, the row is not certain.
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

#: The numbers that a program writes for its part of a row: the keys below the lower pivot, equal
#: to it, between the pivots, and equal to the upper pivot; and the first positions of equal ones,
#: and of a NaN.
_BELOW, _LOWS, _BETWEEN, _HIGHS, _FIRST_LOW, _FIRST_HIGH, _FIRST_NAN = range(7)
_COUNTS = 8
#: What is known of a row: the rank that is left, the position if it is found, and whether it is
#: certain so far.
_STATE = 4
_NOT_FOUND = -1
#: Comes after every position.
_BEYOND = np.iinfo(np.int32).max
#: The keys of a lane, if a program has at most so many warps.
_OF_A_LANE, _WARPS = 16, 32


class Found(NamedTuple):
    """What is found of rows, or of a row in a kernel.

    Attributes:
        position: The position of the element.
        certain: Whether it is right.
    """

    position: jax.Array
    certain: jax.Array


def _warps(width: int) -> int:
    """Returns the warps of a program that holds so many keys; a power of two."""
    return min(_WARPS, max(1, width // (_OF_A_LANE * 32)))


def first_position(
    values: jax.Array, ranks: jax.Array, most: int, *, launch: Launch, nan_first: bool = False
) -> Found:
    """Finds the lowest position of the element of the given rank in each row.

    Args:
        values: Shape [rows, n], as ``as_sortable`` returns them, for which there are ``levels``.
        ranks: int32, shape [rows]; 1 for the smallest.
        most: How many elements of a row a program holds.
        launch: How to run.
        nan_first: Whether the first NaN of a row is found, if there is one, whatever the rank is.

    Returns:
        int32 and bools, shape [rows]; a position that is not certain is anything.

    Raises:
        ValueError: There are no ``levels``.
    """
    rows, n = values.shape
    passes = levels(rows, n, most)
    if not passes:
        raise ValueError(f"rows of {n} elements are not narrowed")
    bits = values.dtype.itemsize * 8
    search = _Search(bits, key_dtype(values), launch, passes[0] if nan_first else None)
    sample = jnp.take(values, passes[0].sampled(), axis=1, mode="clip")
    pivots, state = search.pivots_of_sample(passes[0], sample, ranks)
    left = search.narrowed(passes[0], (values.reshape(-1),), None, pivots)
    for before, level in itertools.pairwise(passes):
        pivots, state = search.pivots_of_slots(level, before, left, state)
        left = search.narrowed(level, left, before, pivots)
    return search.found(passes[-1], left, state)


class _Totals(NamedTuple):
    """What a program has counted so far: for each lane, but for the number between."""

    below: jax.Array
    lows: jax.Array
    between: jax.Array
    highs: jax.Array
    first_low: jax.Array
    first_high: jax.Array
    first_nan: jax.Array | None

    @classmethod
    def of_none(cls, *, with_nans: bool) -> _Totals:
        """Returns the numbers of no elements; without NaNs, these are not looked for."""
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
        """Returns the numbers with those of a tile."""
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
        """Returns the numbers of all lanes."""
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
        nan_pass: The pass that finds the first NaN, which is the element then; None for none.
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
        self, level: Level, before: Level, left: tuple[jax.Array, ...], state: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the pivots of rows of slots, and the state of the search in them."""
        keys, _, counts = left

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
        """Stores the keys whose ranks in the sample are around that of the element.

        Beyond the sample's ends they are the least and the greatest of all keys.
        """
        middle = (rank.astype(jnp.float32) * share).astype(jnp.int32)
        side = jnp.arange(2, dtype=jnp.int32)
        ranks = jnp.where(side == 0, middle - level.reach, middle + level.reach + 1)
        pivots = kth_key(keys[None, :], ranks, self.bits)
        self.launch.store(pivots_ref.at[row * 2 + side], pivots)

    def _store_state(self, ref: Any, row: jax.Array, *numbers: jax.Array) -> None:
        for place, number in enumerate(numbers):
            self.launch.store(ref.at[row * _STATE + place], number)

    def _state(
        self, level: Level, counts_ref: Any, state_ref: Any, row: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Returns what is known of a row after a pass.

        Returns:
            The rank among what is left, the position if it is found, 1 if the row is certain, and
            how many are left.
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
        left, has_slots = jnp.sum(between, dtype=jnp.int32), jnp.max(between) <= level.capacity
        rank, position, certain = (
            self.launch.load(state_ref.at[row * _STATE + place]) for place in range(3)
        )
        beyond = rank - below - lows
        is_low, is_between = beyond <= 0, (beyond > 0) & (beyond <= left)
        is_known = (rank > below) & (beyond <= left + highs) & (~is_between | has_slots)
        here = jnp.where(is_low, first_low, jnp.where(is_between, _NOT_FOUND, first_high))
        if level is self.nan_pass:
            first_nan = jnp.min(numbers(_FIRST_NAN, _BEYOND))
            position = jnp.where(first_nan < _BEYOND, first_nan, position)
        is_found = position >= 0
        position = jnp.where(is_found | ~is_known, position, here)
        certain = jnp.where(is_found | is_known, certain, 0)
        return jnp.maximum(beyond, 1), position, certain, left

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
        """Copies the keys between the pivots, and counts them and the others.

        Args:
            level: The pass.
            source: The elements, or what the pass before returned.
            before: The pass before.
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
                    wanted = from_low & (keys <= high)
                    position = self.launch.load(sources[1].at[offset], mask=wanted, other=0)
                ones = between.astype(jnp.int32).reshape(-1)
                rising = jnp.cumsum(ones, dtype=jnp.int32).reshape(between.shape)
                slot = totals.between + rising - 1
                kept = between & (slot < level.capacity)
                self.launch.store_some(keys_ref, first + slot, keys, kept)
                self.launch.store_some(positions_ref, first + slot, position, kept)
                below = inside & (keys < low)
                nans = inside & (keys == constant((1 << self.bits) - 1, self.dtype))
                return totals.with_tile(below, lows, between, highs, nans, position)

            none = _Totals.of_none(with_nans=level is self.nan_pass)
            totals = jax.lax.fori_loop(0, level.trips, visit, none)
            self._empty_others(level, positions_ref, first, totals.between)
            place = (row * level.parts + part) * _COUNTS
            for number, total in enumerate(totals.reduced()):
                self.launch.store(counts_ref.at[place + number], total)

        out = (
            jax.ShapeDtypeStruct((size,), self.dtype),
            jax.ShapeDtypeStruct((size,), jnp.int32),
            jax.ShapeDtypeStruct((level.rows * level.parts * _COUNTS,), jnp.int32),
        )
        grid = (level.rows, level.parts)
        return tuple(
            self.launch(kernel, grid, out, *source, pivots, name="select_ordered_narrowed")
        )

    def _empty_others(self, level: Level, ref: Any, first: jax.Array, taken: jax.Array) -> None:
        """Stores to the slots that are not taken a position that comes after all others."""
        width = TILE[1] * TILE[2]

        def visit(trip: jax.Array, _: None) -> None:
            slot = trip * width + jnp.arange(width, dtype=jnp.int32)
            free = (slot >= taken) & (slot < level.capacity)
            self.launch.store_some(ref, first + slot, jnp.full((width,), _BEYOND, jnp.int32), free)

        jax.lax.fori_loop(0, -(-level.capacity // width), visit, None)

    def found(self, level: Level, left: tuple[jax.Array, ...], state: jax.Array) -> Found:
        """Returns what is found in the slots of the last pass."""
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
            *left,
            state,
            name="select_ordered_found",
            num_warps=_warps(width),
        )
        return Found(position, certain > 0)
