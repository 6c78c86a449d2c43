"""Sorted contributions to rows, and the reads and writes of one kernel instance.

A run is the contributions of one destination. The contributions are cut into chunks and, more
coarsely, into parts. A run that is longer than a part is cut, and each part adds its share. With
parts of 4 contributions (really ``PART``):

    keys        0 0 1 1 | 1 1 1 1 | 1 2 3 3
    part        0         1         2
    cut run     destination 1, number 0 (the part it starts in), with shares of 2, 4 and 1
    slots       [3, 0]    [0, 3]    [0, 3]      3, the number of parts, stands for no cut run
"""

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

#: The number of contributions of a chunk, and of a part, which is at least as long.
CHUNK, PART = 64, 256
#: The number of columns that one kernel instance takes, and that a warp takes.
_COLUMNS, WARP = 256, 64
#: The number of rows of a part that are read at once.
ROWS = 8


@dataclasses.dataclass(frozen=True)
class Runs:
    """Contributions sorted by destination.

    Attributes:
        keys: The destination of each contribution, ascending; the number of destinations for
            contributions that are dropped. int32 or uint16, shape [n].
        rows: The row of the updates that each contribution adds, int32, shape [n].
        slots: For each part the number of the cut run that the part starts with, and of the cut run
            that it ends with if this is another run; the number of parts stands for no cut run.
            int32, shape [2 * parts].
        factors: The factor of each row, in the accumulator's dtype; None for 1.
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
    """The share of a part in a cut run.

    Attributes:
        number: The number of the run.
        is_cut: Whether there is such a run. If not, the share is empty.
        is_owner: Whether the run starts in this part.
        key: The destination of the run.
        start: The position of the first contribution of the share.
        count: The number of contributions of the share.
    """

    number: jax.Array
    is_cut: jax.Array
    is_owner: jax.Array
    key: jax.Array
    start: jax.Array
    count: jax.Array


class KernelInstance:
    """The reads and writes of one kernel instance, which handles some columns of the rows."""

    def __init__(
        self, launch: Launch, runs: Runs, refs: Sequence[Any], width: int, *, negates: bool
    ) -> None:
        self._keys, self._rows, self._slots, *factors, self._updates = refs
        self._factors = factors[0] if factors else None
        self._launch, self._runs, self._width, self._negates = launch, runs, width, negates
        across, columns = columns_of(width)
        self.column = launch.program_id(1, across) * columns + jnp.arange(columns, dtype=jnp.int32)
        self._inside = self.column < width

    def rows(self, position: jax.Array, where: jax.Array) -> jax.Array:
        """Returns the values of contributions, [n, columns]; 0 where ``where`` is False.

        Args:
            position: Positions among the sorted contributions, shape [n].
            where: Whether each position is read.
        """
        safe, load = jnp.where(where, position, 0), self._launch.load
        row = load(self._rows.at[safe])[:, None]
        mask = where[:, None] & self._inside[None, :]
        loaded = load(
            self._updates.at[row * self._width + self.column[None, :]], mask=mask, other=0
        )
        factor = None if self._factors is None else load(self._factors.at[safe])[:, None]
        return self._signed(loaded, factor)

    def row(self, position: jax.Array) -> jax.Array:
        """Returns the values of the contribution at a position."""
        load = self._launch.load
        view = self._updates.at[load(self._rows.at[position]) * self._width + self.column]
        loaded = load(view, mask=self._inside, other=0)
        return self._signed(
            loaded, None if self._factors is None else load(self._factors.at[position])
        )

    def _signed(self, loaded: jax.Array, factor: jax.Array | None) -> jax.Array:
        values = loaded.astype(accumulator(loaded.dtype))
        if factor is not None:
            values = self._launch.product(values, jnp.broadcast_to(factor, values.shape))
        return -values if self._negates else values

    def key(self, position: jax.Array) -> jax.Array:
        """Returns the destination of the contribution at a position, which is clamped."""
        key = self._launch.load(self._keys.at[jnp.clip(position, 0, self._runs.count - 1)])
        return key.astype(jnp.int32)

    def keys(self, first: jax.Array, size: int) -> jax.Array:
        """Returns the destinations of adjacent contributions; -1 beyond the last contribution."""
        position = first + jnp.arange(size, dtype=jnp.int32)
        inside = position < self._runs.count
        view = self._keys.at[jnp.where(inside, position, 0)]
        key = self._launch.load(view, mask=inside, other=0).astype(jnp.int32)
        return jnp.where(inside, key, -1)

    def load(self, ref: Any, row: jax.Array, *, where: jax.Array) -> jax.Array:
        """Returns a row of an array; 0 where ``where`` is False."""
        view = ref.at[jnp.where(where, row, 0) * self._width + self.column]
        return self._launch.load(view, mask=self._inside & where, other=0)

    def store(self, ref: Any, row: jax.Array, values: jax.Array, *, where: jax.Array) -> None:
        """Stores a row of an array if ``where`` is True."""
        view = ref.at[jnp.where(where, row, 0) * self._width + self.column]
        self._launch.store(view, values, mask=self._inside & where)

    def fill(self, out_ref: Any, chunk: jax.Array, out: jax.ShapeDtypeStruct | jax.Array) -> None:
        """Stores zeros in the rows of a chunk of destinations that have no contributions."""
        first = jnp.where(chunk < 0, out.shape[0], chunk * CHUNK)
        count = jnp.minimum(out.shape[0] - first, CHUNK)
        lane = jnp.arange(CHUNK, dtype=jnp.int32)
        start = first_position(self._launch, self._keys, self._runs.count, first + lane)
        is_empty = (start == self._runs.count) | (self.key(start) != first + lane)
        is_empty &= lane < count
        # One number holds all bits, since Triton takes no element of an array that it computed.
        one = jnp.ones(CHUNK, jnp.int64)
        empty = jnp.sum(jnp.where(is_empty, one << lane.astype(jnp.int64), 0))

        def some(number: jax.Array, _: None) -> None:
            bit = number * ROWS + jnp.arange(ROWS, dtype=jnp.int32)
            bits = jnp.broadcast_to(empty, bit.shape) >> bit.astype(jnp.int64)
            mask = ((bits & 1) == 1)[:, None] & self._inside[None, :]
            # Where the mask is False, an interpreted store writes the old value back. Another
            # instance may have stored to that row, so such a store goes beyond the end.
            beyond = jnp.int32(math.prod(out.shape)) if self._launch.interpret else 0
            row = (first + bit)[:, None]
            offsets = jnp.where(mask, row * self._width + self.column[None, :], beyond)
            zeros = jnp.zeros(offsets.shape, out.dtype)
            self._launch.store(out_ref.at[offsets], zeros, mask=mask)

        jax.lax.fori_loop(0, (count + ROWS - 1) // ROWS, some, None)

    def cut_runs(self, part: jax.Array, where: jax.Array) -> list[Cut]:
        """Returns the cut run that a part starts with, and the cut run that it ends with."""
        safe = jnp.where(where, part, 0)
        first = safe * PART
        end = jnp.minimum(first + PART, self._runs.count)
        keys = self.keys(first, PART)
        cuts = []
        for slot, position in enumerate((first, end - 1)):
            number = self._launch.load(self._slots.at[2 * safe + slot])
            is_cut = where & (number < self._runs.parts)
            # Counting equal keys needs no loop that ends at a key, which Triton cannot compile.
            key = self.key(position)
            same = jnp.sum(keys == key, dtype=jnp.int32)
            count = jnp.where(is_cut, same, 0)
            start = first if slot == 0 else end - count
            cuts.append(Cut(number, is_cut, is_cut & (number == safe), key, start, count))
        return cuts

    def fold(self, cut: Cut, step: Callable[[Any, jax.Array], Any], initial: Any) -> Any:
        """Folds the rows of a part's share of a cut run, ``ROWS`` at a time."""

        def some(number: jax.Array, state: Any) -> Any:
            offset = number * ROWS + jnp.arange(ROWS, dtype=jnp.int32)
            return step(state, self.rows(cut.start + offset, offset < cut.count))

        return jax.lax.fori_loop(0, (cut.count + ROWS - 1) // ROWS, some, initial)


def first_position(launch: Launch, keys_ref: Any, count: int, key: jax.Array) -> jax.Array:
    """Returns the position of the first of the sorted keys that is at least ``key``, or ``count``.

    This is a binary search.
    """

    def halve(step: jax.Array, low: jax.Array) -> jax.Array:
        probe = low + (jnp.int32(1) << (count.bit_length() - 1 - step))
        inside = probe <= count
        other = launch.load(keys_ref.at[jnp.where(inside, probe, 1) - 1]).astype(jnp.int32)
        return jnp.where(inside & (other < key), probe, low)

    none = jnp.zeros(key.shape, jnp.int32)
    return jax.lax.fori_loop(0, count.bit_length(), halve, none)  # type: ignore[no-any-return]


def columns_of(width: int) -> tuple[int, int]:
    """Returns the number of kernel instances side by side, and the columns of each."""
    columns = min(_COLUMNS, pl.next_power_of_2(width))
    return pl.cdiv(width, columns), columns
