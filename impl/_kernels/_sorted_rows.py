"""Sorted contributions to rows, and what a program reads and writes of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from impl._core.numerics import accumulator
from impl._kernels import pallas as pl
from impl._kernels.launch import Launch

#: Contributions of a chunk, and those of a part, which are at least as many.
CHUNK, PART = 64, 256
#: Columns that one program takes, and those of a warp.
_COLUMNS, WARP = 256, 64
#: The rows of a part that are read at once.
ROWS = 8


@dataclasses.dataclass(frozen=True)
class Runs:
    """Contributions sorted by destination.

    Attributes:
        keys: The destination of each, ascending, and the number of destinations for those that are
            dropped; int32 or uint16, shape [n].
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
class Cut:
    """The share of a part in a cut run: the run's number, whether it is one, start and count.

    ``is_owner`` tells whether the run starts in this part, and ``key`` is its destination.
    """

    number: jax.Array
    is_cut: jax.Array
    is_owner: jax.Array
    key: jax.Array
    start: jax.Array
    count: jax.Array


class Program:
    """What a program reads and writes: some columns of rows."""

    def __init__(
        self, launch: Launch, runs: Runs, refs: Sequence[Any], width: int, *, negates: bool
    ) -> None:
        self._keys, self._rows, self._slots, *factors, self._updates = refs
        self._factors = factors[0] if factors else None
        self._launch, self._runs, self._width, self._negates = launch, runs, width, negates
        across, columns = columns_of(width)
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
        key = self._launch.load(self._keys.at[jnp.clip(place, 0, self._runs.count - 1)])
        return key.astype(jnp.int32)

    def keys(self, first: jax.Array, size: int) -> jax.Array:
        """Returns the destinations of adjacent contributions, and -1 where there is none."""
        place = first + jnp.arange(size, dtype=jnp.int32)
        inside = place < self._runs.count
        view = self._keys.at[jnp.where(inside, place, 0)]
        key = self._launch.load(view, mask=inside, other=0).astype(jnp.int32)
        return jnp.where(inside, key, -1)

    def load(self, ref: Any, row: jax.Array, *, where: jax.Array) -> jax.Array:
        """Returns a row of an array, and 0 where there is none."""
        view = ref.at[jnp.where(where, row, 0) * self._width + self.column]
        return self._launch.load(view, mask=self._inside & where, other=0)

    def store(self, ref: Any, row: jax.Array, values: jax.Array, *, where: jax.Array) -> None:
        """Stores a row of an array where there is one."""
        view = ref.at[jnp.where(where, row, 0) * self._width + self.column]
        self._launch.store(view, values, mask=self._inside & where)

    def fill(self, out_ref: Any, chunk: jax.Array, out: jax.ShapeDtypeStruct | jax.Array) -> None:
        """Stores zeros in the rows of a chunk of destinations that have no contributions."""
        first = jnp.where(chunk < 0, out.shape[0], chunk * CHUNK)
        count = jnp.minimum(out.shape[0] - first, CHUNK)
        lane = jnp.arange(CHUNK, dtype=jnp.int32)
        start = first_place(self._launch, self._keys, self._runs.count, first + lane)
        is_empty = (start == self._runs.count) | (self.key(start) != first + lane)
        is_empty &= lane < count
        # One number holds all, since a program takes no part of an array that it computed.
        one = jnp.ones(CHUNK, jnp.int64)
        empty = jnp.sum(jnp.where(is_empty, one << lane.astype(jnp.int64), 0))

        def some(number: jax.Array, _: None) -> None:
            place = number * ROWS + jnp.arange(ROWS, dtype=jnp.int32)
            bits = jnp.broadcast_to(empty, place.shape) >> place.astype(jnp.int64)
            mask = ((bits & 1) == 1)[:, None] & self._inside[None, :]
            # An interpreted store writes the old value where the mask is false, so that no other
            # row may be written there.
            beyond = jnp.int32(math.prod(out.shape)) if self._launch.interpret else 0
            row = (first + place)[:, None]
            offsets = jnp.where(mask, row * self._width + self.column[None, :], beyond)
            zeros = jnp.zeros(offsets.shape, out.dtype)
            self._launch.store(out_ref.at[offsets], zeros, mask=mask)

        jax.lax.fori_loop(0, (count + ROWS - 1) // ROWS, some, None)

    def cut_runs(self, part: jax.Array, where: jax.Array) -> list[Cut]:
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
            key = self.key(place)
            same = jnp.sum(keys == key, dtype=jnp.int32)
            count = jnp.where(is_cut, same, 0)
            start = first if slot == 0 else end - count
            found.append(Cut(number, is_cut, is_cut & (number == safe), key, start, count))
        return found

    def fold(self, cut: Cut, step: Callable[[Any, jax.Array], Any], initial: Any) -> Any:
        """Folds the rows of a cut run in a part, some at once."""

        def some(number: jax.Array, state: Any) -> Any:
            place = number * ROWS + jnp.arange(ROWS, dtype=jnp.int32)
            return step(state, self.rows(cut.start + place, place < cut.count))

        return jax.lax.fori_loop(0, (cut.count + ROWS - 1) // ROWS, some, initial)


def first_place(launch: Launch, keys_ref: Any, count: int, key: jax.Array) -> jax.Array:
    """Returns the place of the first of the sorted keys that is no less; ``count`` for none."""

    def halve(step: jax.Array, low: jax.Array) -> jax.Array:
        probe = low + (jnp.int32(1) << (count.bit_length() - 1 - step))
        inside = probe <= count
        other = launch.load(keys_ref.at[jnp.where(inside, probe, 1) - 1]).astype(jnp.int32)
        return jnp.where(inside & (other < key), probe, low)

    none = jnp.zeros(key.shape, jnp.int32)
    return jax.lax.fori_loop(0, count.bit_length(), halve, none)  # type: ignore[no-any-return]


def columns_of(width: int) -> tuple[int, int]:
    """Returns the programs side by side, and the columns of each."""
    columns = min(_COLUMNS, pl.next_power_of_2(width))
    return pl.cdiv(width, columns), columns
