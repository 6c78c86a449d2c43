"""Kernels that find the lowest position of the element of a given rank in each row.

The technique is radix selection. Elements become unsigned keys of the same order (``sort_keys``),
and the key of the rank is determined digit by digit, the highest first: a digit is the number of
thresholds that have fewer keys up to them than the rank. For the rank 3 of the keys 1, 6, 9 and 14,
which have two digits of two bits:

    thresholds of the high digit   3: 1 key    7: 2 keys   11: 3 keys     so it is 2: 8 to 11
    thresholds of the low digit    8: 2 keys   9: 3 keys   10: 3 keys     so the key is 9

There are three ways to read a row. All of them return the lowest position of an exact key:

- A row that fits the registers of a kernel instance is read once, and its digits have one bit.
- A longer row is most likely read once too: ``select_kth_sample`` finds the element, or reports
  that it could not.
- Where it cannot, instances share each row, and each launch determines a digit of four bits:
  instances count the keys up to each of 15 thresholds, and the instances of the next launch add
  these counts.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp

from impl._families.sort_keys import as_sortable, constant
from impl._kernels import select_kth_sample
from impl._kernels._passes import levels
from impl._kernels._rows import RowTiles, key_dtype, kth_key, load_keys, longest, power_of_two
from impl._kernels.launch import Launch

#: The number of bits of a key that a launch determines, and the numbers that an instance writes for
#: them.
_BITS = 4
_SLOTS = 1 << _BITS
#: The last number is the part of the key that earlier launches determined. The first instance of a
#: row writes it, and the other instances write 0.
_KNOWN = _SLOTS - 1
#: The number of bytes of the keys that a lane holds of a row that one instance reads.
_LANE_BYTES = 128
#: The shape of the elements that an instance reads at once.
_TILE = (8, 512)
#: Two counts of a lane share an integer, to save registers. Even if one instance read the longest
#: array of all, a lane would count less than this number of bits holds.
_HALF = 16
#: About two instances for each multiprocessor of a large GPU (an H100 has 132) share the rows.
_PROGRAMS = 264


def first_position(
    values: jax.Array, ranks: jax.Array, *, launch: Launch, nan_first: bool = False
) -> jax.Array:
    """Finds the lowest position of the element of the given rank in each row.

    Args:
        values: Real numbers, shape [rows, n], which are ordered as ``sort_keys`` orders them.
        ranks: int32, shape [rows]; 1 for the smallest.
        launch: How to run.
        nan_first: Whether a NaN of a row is found, if there is one, whatever the rank is.

    Returns:
        int32, shape [rows].
    """
    nan_first &= bool(jnp.issubdtype(values.dtype, jnp.floating))  # No other dtype has NaNs.
    values = as_sortable(values)
    rows, n = values.shape
    most = longest(_depth(values))
    if n <= most:
        return _in_registers(values, ranks, launch, nan_first=nan_first)

    def exactly() -> jax.Array:
        certain = ranks_of_nans(values, ranks) if nan_first else ranks
        return by_digits(values, certain, launch=launch)

    if not levels(rows, n, most):
        return exactly()
    sampled = select_kth_sample.first_position(
        values, ranks, most, launch=launch, nan_first=nan_first
    )
    # The sample of adversarial data may hold nothing of use.
    return jax.lax.cond(jnp.all(sampled.certain), lambda: sampled.position, exactly)  # type: ignore[no-any-return]


def ranks_of_nans(values: jax.Array, ranks: jax.Array) -> jax.Array:
    """Returns the ranks, or in a row with a NaN the greatest rank, which is the rank of a NaN."""
    return jnp.where(jnp.isnan(values).any(1), values.shape[1], ranks)


def by_digits(values: jax.Array, ranks: jax.Array, *, launch: Launch) -> jax.Array:
    """Computes ``first_position`` by one read for each digit, of any elements."""
    shares = _Shares.of(values)
    counts = _count_digit(values, ranks, None, launch, shares, level=0)
    for level in range(1, shares.levels):
        counts = _count_digit(values, ranks, counts, launch, shares, level=level)
    return _find(values, ranks, counts, launch, shares)


def _depth(values: jax.Array) -> int:
    return _LANE_BYTES // key_dtype(values).itemsize


def _in_registers(
    values: jax.Array, ranks: jax.Array, launch: Launch, *, nan_first: bool
) -> jax.Array:
    rows, n = values.shape
    tiles = RowTiles(rows, n, _depth(values))
    bits = values.dtype.itemsize * 8

    def kernel(values_ref: Any, ranks_ref: Any, out_ref: Any) -> None:
        row, column = tiles.lanes(launch)
        inside = (row < rows)[:, None] & (column < n)[None, :]
        keys = load_keys(launch, values_ref, row[:, None] * n + column[None, :], inside)
        rank = launch.load(ranks_ref.at[row], mask=row < rows, other=1)
        if nan_first:  # The key of a NaN is the greatest.
            nans = inside & (keys == constant((1 << bits) - 1, key_dtype(values)))
            rank = jnp.where(jnp.max(nans.astype(jnp.int32), axis=1) > 0, jnp.int32(n), rank)
        equal = inside & (keys == kth_key(keys, rank, bits)[:, None])
        lowest = jnp.min(jnp.where(equal, column[None, :], jnp.int32(n)), axis=1)
        launch.store(out_ref.at[row], lowest, mask=row < rows)

    return launch(
        kernel,
        (tiles.programs,),
        jax.ShapeDtypeStruct((rows,), jnp.int32),
        values.reshape(-1),
        ranks,
        name="select_ordered_first",
        num_warps=tiles.warps,
    )


@dataclasses.dataclass(frozen=True)
class _Shares:
    """The parts of long rows, one for each kernel instance.

    Attributes:
        rows: The number of rows.
        n: The number of elements of a row.
        parts: The number of parts of a row.
        trips: The tiles of a part.
        bits: The number of bits of a key.
    """

    rows: int
    n: int
    parts: int
    trips: int
    bits: int

    @classmethod
    def of(cls, values: jax.Array) -> _Shares:
        rows, n = values.shape
        tiles = -(-n // (_TILE[0] * _TILE[1]))
        trips = -(-tiles // min(tiles, max(1, _PROGRAMS // rows)))
        return cls(rows, n, -(-tiles // trips), trips, values.dtype.itemsize * 8)

    @property
    def levels(self) -> int:
        """The number of launches that determine a key."""
        return self.bits // _BITS

    def lanes(self, part: jax.Array, trip: jax.Array) -> jax.Array:
        """Returns the columns of a tile of a part."""
        first = (part * self.trips + trip) * (_TILE[0] * _TILE[1])
        high, low = (jnp.arange(size, dtype=jnp.int32) for size in _TILE)
        return first + high[:, None] * _TILE[1] + low[None, :]

    def known(
        self, launch: Launch, counts_ref: Any, row: jax.Array, rank: jax.Array, level: int
    ) -> jax.Array:
        """Returns the digits of the key that the launches before ``level`` determined."""
        part = jnp.arange(power_of_two(self.parts), dtype=jnp.int32)[:, None]
        slot = jnp.arange(_SLOTS, dtype=jnp.int32)
        offset = (row * self.parts + part) * _SLOTS + slot[None, :]
        inside = (part < self.parts) & (slot < _SLOTS)[None, :]
        dtype = jnp.dtype(f"uint{max(32, self.bits)}")
        total = jnp.sum(
            launch.load(counts_ref.at[offset], mask=inside, other=0), axis=0, dtype=dtype
        )
        below = (total < rank.astype(dtype)) & (slot < _KNOWN)
        digit = jnp.sum(below, dtype=dtype)
        known = jnp.sum(jnp.where(slot == _KNOWN, total, jnp.zeros_like(total)), dtype=dtype)
        return known | (digit << dtype.type(self.bits - _BITS * level))  # type: ignore[no-any-return]


def _count_digit(
    values: jax.Array,
    ranks: jax.Array,
    counts: jax.Array | None,
    launch: Launch,
    shares: _Shares,
    *,
    level: int,
) -> jax.Array:
    """Counts the keys of each part up to each threshold of a digit.

    Args:
        values: Shape [rows, n].
        ranks: Shape [rows].
        counts: The result of the level before.
        launch: How to run.
        shares: The parts.
        level: The number of digits that are known.

    Returns:
        Unsigned integers, shape [rows, parts, slots], flat.
    """
    dtype = key_dtype(values)
    shift = shares.bits - _BITS * (level + 1)
    thresholds = [(digit << shift) | ((1 << shift) - 1) for digit in range(_KNOWN)]

    def kernel(values_ref: Any, ranks_ref: Any, *refs: Any) -> None:
        row = launch.program_id(0, shares.rows)
        part = launch.program_id(1, shares.parts)
        greatest = [constant(threshold, dtype) for threshold in thresholds]
        known = jnp.zeros((), dtype)
        if counts is not None:
            rank = launch.load(ranks_ref.at[row])
            known = shares.known(launch, refs[0], row, rank, level)

        def count(trip: jax.Array, totals: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            column = shares.lanes(part, trip)
            keys = load_keys(launch, values_ref, row * shares.n + column, column < shares.n)
            below = [(keys <= (known | each)).astype(jnp.int32) for each in greatest]
            halves = itertools.zip_longest(below[::2], below[1::2], fillvalue=0)
            return tuple(
                total + jnp.sum(low + (high << _HALF), axis=0, dtype=jnp.int32)
                for total, (low, high) in zip(totals, halves, strict=True)
            )

        empty = tuple(jnp.zeros(_TILE[1:], jnp.int32) for _ in thresholds[::2])
        totals = jax.lax.fori_loop(0, shares.trips, count, empty)
        slot = jnp.arange(_SLOTS, dtype=jnp.int32)
        halves = (half for total in totals for half in (total & ((1 << _HALF) - 1), total >> _HALF))
        numbers = [jnp.sum(half, dtype=dtype) for half in itertools.islice(halves, _KNOWN)]
        numbers.append(jnp.where(part == 0, known, jnp.zeros_like(known)))
        out = functools.reduce(
            lambda out, each: jnp.where(slot == each[0], each[1], out),
            enumerate(numbers),
            jnp.zeros(_SLOTS, dtype),
        )
        launch.store(refs[-1].at[(row * shares.parts + part) * _SLOTS + slot], out)

    operands = (
        (values.reshape(-1), ranks) if counts is None else (values.reshape(-1), ranks, counts)
    )
    return launch(
        kernel,
        (shares.rows, shares.parts),
        jax.ShapeDtypeStruct((shares.rows * shares.parts * _SLOTS,), dtype),
        *operands,
        name="select_ordered_digit",
    )


def _find(
    values: jax.Array,
    ranks: jax.Array,
    counts: jax.Array,
    launch: Launch,
    shares: _Shares,
) -> jax.Array:
    """Finds the lowest position of the key that the last counts determine."""
    n = shares.n

    def kernel(values_ref: Any, ranks_ref: Any, counts_ref: Any, out_ref: Any) -> None:
        row = launch.program_id(0, shares.rows)
        part = launch.program_id(1, shares.parts)
        rank = launch.load(ranks_ref.at[row])
        target = shares.known(launch, counts_ref, row, rank, shares.levels)

        def visit(trip: jax.Array, lowest: jax.Array) -> jax.Array:
            column = shares.lanes(part, trip)
            inside = column < n
            equal = load_keys(launch, values_ref, row * n + column, inside) == target
            of_tile = jnp.min(jnp.where(equal & inside, column, jnp.int32(n)), axis=0)
            return jnp.minimum(lowest, of_tile)

        lowest = jax.lax.fori_loop(0, shares.trips, visit, jnp.full(_TILE[1:], n, jnp.int32))
        launch.store(out_ref.at[row * shares.parts + part], jnp.min(lowest))

    grid = (shares.rows, shares.parts)
    out = jax.ShapeDtypeStruct((shares.rows * shares.parts,), jnp.int32)
    operands = (values.reshape(-1), ranks, counts)
    positions = launch(kernel, grid, out, *operands, name="select_ordered_first")
    return jnp.min(positions.reshape(grid), axis=1)
