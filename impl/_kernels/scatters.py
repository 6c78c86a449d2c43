"""The kernels of scatters: ``fold`` combines in a fixed order, and ``combine`` by atomics.

The ordered kernel is a segmented reduction of contributions that are sorted by destination.

A run is the contributions of one destination, in the order of the source. The sorted contributions
are cut into blocks. One lane takes one block and one column. It combines each run from left to
right, and writes the result of a run that lies in its block. A run that is cut leaves a share in
each of its blocks. The shares of a run are neighbours, so the same kernel combines them in the next
level, and one destination of all contributions takes as long as many destinations. With blocks of 4
contributions::

    destinations    0 0 1 1 | 1 1 1 1 | 1 2 3 3      written at once: 0, 2 and 3
    shares          - 1     | 1 1     | 1 -          a head and a tail of each block, or no (-)
    next level      - 1 1 1 | 1 -                    written in the level after this one: 1

The order of a sum depends on the positions of its contributions alone, and no update is atomic.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.numerics import accumulator
from impl._kernels import pallas as pl
from impl._kernels.launch import Launch, Reduction

#: The contributions of a block. Blocks of narrow rows are a line of the cache, and blocks of wide
#: rows, of at least ``_WIDE`` elements, are longer, since a row has many lanes. Shares are few,
#: so long blocks of them save launches.
_NARROW_BLOCK, _WIDE_BLOCK, _SHARES_BLOCK = 32, 256, 512
_WIDE = 32
#: The lanes of a kernel instance, and the contributions that a lane of a GPU loads at once.
_LANES, _AHEAD = 128, 4


def fold(
    operand: jax.Array,
    keys: jax.Array,
    rows: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    launch: Launch,
) -> jax.Array:
    """Combines each row of the operand with its contributions, after its initial value.

    float16 and bfloat16 are combined in float32, and rounded once.

    Args:
        operand: Floats, shape [size, width].
        keys: The destination of each contribution, int32, shape [n]. Equal ones are neighbours; a
            contribution to ``size`` is dropped.
        rows: The row of the updates that is each contribution, int32, shape [n].
        updates: The dtype of ``operand``, shape [m, width].
        reduction: The operation that combines.
        launch: How to run.

    Returns:
        Shape and dtype of ``operand``.
    """
    size, width = operand.shape
    flat: jax.Array = operand.reshape(-1)
    values, sources = updates.reshape(-1), [rows]
    while True:
        count = keys.shape[0]
        level = _Level(launch, reduction, count, size, width, are_shares=not sources)
        flat, keys, values = level.run(flat, [keys, *sources, values])
        if level.blocks == 1:
            return flat.reshape(size, width)
        sources = []


class _Level:
    """One launch, over contributions or over shares, which include the initial value."""

    def __init__(
        self,
        launch: Launch,
        reduction: Reduction,
        count: int,
        size: int,
        width: int,
        *,
        are_shares: bool,
    ) -> None:
        self._launch, self._reduction, self._are_shares = launch, reduction, are_shares
        self._count, self._size, self._width = count, size, width
        self._ahead = 1 if launch.interpret else _AHEAD
        first = _WIDE_BLOCK if width >= _WIDE else _NARROW_BLOCK
        self._block = _SHARES_BLOCK if are_shares else first
        self.blocks = pl.cdiv(count, self._block)
        self._columns = min(_LANES, pl.next_power_of_2(width))
        self._rows = _LANES // self._columns
        self._grid = (pl.cdiv(self.blocks, self._rows), pl.cdiv(width, self._columns))

    def run(self, operand: jax.Array, arrays: list[jax.Array]) -> Any:
        """Returns the operand with its results, and the destinations and values of all shares."""
        wide = accumulator(operand.dtype)
        return self._launch(
            self._kernel,
            self._grid,
            (
                jax.ShapeDtypeStruct(operand.shape, operand.dtype),
                jax.ShapeDtypeStruct((2 * self.blocks,), np.dtype(np.int32)),
                jax.ShapeDtypeStruct((2 * self.blocks * self._width,), wide),
            ),
            *arrays,
            operand,
            name=f"scatter_{self._reduction.name}_runs",
            aliases={len(arrays): 0},
        )

    def _kernel(self, keys_ref: Any, *refs: Any) -> None:
        *rows_ref, values_ref, _, out_ref, share_keys_ref, shares_ref = refs
        launch, combine, wide = self._launch, self._reduction.combine, shares_ref.dtype
        block, column = (
            launch.program_id(axis, self._grid[axis]) * length + jnp.arange(length, dtype=jnp.int32)
            for axis, length in enumerate((self._rows, self._columns))
        )
        first, is_column = block * self._block, column < self._width
        identity = jnp.full((self._rows, self._columns), self._reduction.identity(wide), wide)

        def key_at(position: jax.Array) -> jax.Array:
            inside = (position >= 0) & (position < self._count)
            return launch.load(keys_ref.at[position], mask=inside, other=-1)

        def is_key(key: jax.Array) -> jax.Array:
            return (key >= 0) & (key < self._size)

        def row_at(ref: Any, row: jax.Array, where: jax.Array) -> jax.Array:
            offset, mask = self._offsets(row, column), where[:, None] & is_column[None, :]
            return launch.load(ref.at[offset], mask=mask, other=identity.dtype.type(0)).astype(wide)

        def write(ref: Any, row: jax.Array, value: jax.Array, where: jax.Array) -> None:
            offset, mask = self._offsets(row, column), where[:, None] & is_column[None, :]
            launch.store_some(ref, offset, value.astype(ref.dtype), mask)

        def step(number: jax.Array, state: Any) -> Any:
            previous, is_own, total, head = state
            positions = [first + number * self._ahead + ahead for ahead in range(self._ahead + 1)]
            # All loads come before the first combination, so that the GPU overlaps them.
            keys = [previous, *map(key_at, positions)]
            starts = [key != before for before, key in itertools.pairwise(keys[:-1])]
            terms = []
            for position, key, is_start in zip(positions, keys[1:-1], starts, strict=False):
                row = position
                if rows_ref:
                    row = launch.load(rows_ref[0].at[position], mask=is_key(key), other=0)
                initial = identity
                if not self._are_shares:
                    initial = row_at(out_ref, key, is_start & is_key(key))
                terms.append((row_at(values_ref, row, is_key(key)), initial))
            for key, after, is_start, (term, initial) in zip(
                keys[1:-1], keys[2:], starts, terms, strict=True
            ):
                starting = term if self._are_shares else combine(initial, term)
                total = jnp.where(is_start[:, None], starting, combine(total, term))
                is_own |= is_start
                head = jnp.where(is_own[:, None], head, total)
                write(out_ref, key, total, is_own & (key != after) & is_key(key))
            return keys[-2], is_own, total, head

        before, is_own = key_at(first - 1), jnp.zeros(self._rows, bool)
        _, is_own, total, head = jax.lax.fori_loop(
            0, self._block // self._ahead, step, (before, is_own, identity, identity)
        )
        last = jnp.minimum(first + self._block, self._count) - 1
        tail = jnp.where(is_own[:, None], total, identity)
        exists = block < self.blocks
        for slot, position, neighbour, value in (
            (0, first, before, head),
            (1, last, key_at(last + 1), tail),
        ):
            key = key_at(position)
            is_cut = exists & (key == neighbour) & is_key(key)
            write(shares_ref, 2 * block + slot, value, is_cut)
            share_key = jnp.where(is_cut, key, self._size)
            is_first = launch.program_id(1, self._grid[1]) == 0
            launch.store_some(share_keys_ref, 2 * block + slot, share_key, exists & is_first)

    def _offsets(self, row: jax.Array, column: jax.Array) -> jax.Array:
        return row[:, None] * self._width + column[None, :]


#: The lanes of an instance of the atomic kernel, each of which takes one element of the updates.
_ALONE = 256


def combine(
    operand: jax.Array, keys: jax.Array, updates: jax.Array, *, reduction: Reduction, launch: Launch
) -> jax.Array:
    """Combines rows of the operand with contributions, in one pass of atomics, in any order.

    It is for operations that XLA compiles to a loop of compare and swap.

    Args:
        operand: float32 or float64, shape [size, width].
        keys: The destination of each contribution, int32, shape [n]; ``size`` for one to drop.
        updates: Shape [n, width].
        reduction: The operation that combines: ``ADD`` or ``MUL``.
        launch: How to run.

    Returns:
        Shape and dtype of ``operand``.
    """
    size, width = operand.shape
    programs = pl.cdiv(updates.size, _ALONE)

    def kernel(_: Any, keys_ref: Any, updates_ref: Any, out_ref: Any) -> None:
        lane = launch.program_id(0, programs) * _ALONE + jnp.arange(_ALONE, dtype=jnp.int32)
        exists = lane < updates.size
        key = launch.load(keys_ref.at[lane // width], mask=exists, other=size)
        value = launch.load(updates_ref.at[lane], mask=exists, other=0)
        inside = exists & (key < size)
        launch.atomic(out_ref, key * width + lane % width, value, inside, reduction)

    (flat,) = launch(
        kernel,
        (programs,),
        (jax.ShapeDtypeStruct((operand.size,), operand.dtype),),
        operand.reshape(-1),
        keys,
        updates.reshape(-1),
        name=f"scatter_{reduction.name}_atomic",
        aliases={0: 0},
    )
    return flat.reshape(operand.shape)
