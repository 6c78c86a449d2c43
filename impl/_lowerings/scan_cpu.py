"""The spec's blocked scan on a CPU: tile by tile, each of which stays in the cache.

Lanes are the columns that a tile folds side by side: blocks of a row, rows, and adjacent elements.
A tile whose lanes are not adjacent in memory is transposed, which is cheap within the cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl._core.numerics import fence, product
from impl._core.scan_combines import Combine, Parts
from impl._core.shard_axes import vary_like

#: The least lanes of a tile.
_LANES = 16
#: The lanes of a tile that are adjacent elements, if there are so many.
_ADJACENT = 256
#: The least elements of a tile with short rows.
_ELEMENTS = 16384
#: Steps of a fold that are unrolled. With 16 of them XLA computes sums several times.
_UNROLL = 4

#: From the start of a tile in [outer, n, inner] and its shape to the parts in that tile.
Read = Callable[[tuple[jax.Array | int, ...], tuple[int, int, int]], Parts]


def reader(*parts: jax.Array) -> Read:
    """Returns a function that reads tiles of arrays."""
    axes = _number_of_axes(parts[0].shape)
    # Reshape outside the loop, since a loop passes the arrays that its body captures.
    arrays = [part.reshape(part.shape[:axes]) for part in parts]

    def read(start: tuple[jax.Array | int, ...], shape: tuple[int, int, int]) -> Parts:
        tiles = (jax.lax.dynamic_slice(array, start[:axes], shape[:axes]) for array in arrays)
        return tuple(tile.reshape(shape) for tile in tiles)

    return read


def _number_of_axes(shape: tuple[int, ...]) -> int:
    """Returns the number of axes of an array, without a last axis of length 1.

    XLA might copy the array to drop that axis.
    """
    return len(shape) - (shape[-1] == 1)


def scan(read: Read, like: Parts, combine: Combine, block: int, results: tuple[int, ...]) -> Parts:
    """Computes the blocked scan along the middle axis of [outer, n, inner].

    Args:
        read: Reads a tile of the parts.
        like: Arrays of the shape and dtypes of the parts.
        combine: The operation that combines parts.
        block: The length of a block.
        results: The positions of the parts to return.

    Returns:
        These parts of the running folds.
    """
    outer, n, inner = like[0].shape
    length = min(n, block)
    blocks, tail = divmod(n, length)
    lanes = max(_LANES, _ELEMENTS // length)
    adjacent = min(inner, max(lanes, _ADJACENT))
    rows = min(outer, max(1, lanes // adjacent))
    side = min(blocks, max(1, lanes // (rows * adjacent)))
    tiles = _Tiles(read, combine, results, rows, adjacent, length, blocks, side, tail)
    across = -(-inner // adjacent)

    def scan_rows(number: jax.Array | int, out: Parts) -> Parts:
        # The last tile may start earlier. It then writes some results again.
        row = _minimum(number // across * rows, outer - rows)
        lane = _minimum(number % across * adjacent, inner - adjacent)
        return tiles.scan(row, lane, out)

    shape = like[0].shape[: _number_of_axes(like[0].shape)]
    # full_like keeps the type of the operand, including its sharding.
    initial = (jax.lax.full_like(like[k], 0).reshape(shape) for k in results)
    out = tuple(vary_like(part, *like) for part in initial)
    count = -(-outer // rows) * across
    out = scan_rows(0, out) if count == 1 else jax.lax.fori_loop(0, count, scan_rows, out)
    return tuple(part.reshape(like[0].shape) for part in out)


def _minimum(value: jax.Array | int, limit: int) -> jax.Array | int:
    return min(value, limit) if isinstance(value, int) else jnp.minimum(value, limit)


@dataclasses.dataclass(frozen=True)
class _Tiles:
    """The tiles of one scan, each of ``side`` blocks of some rows and adjacent elements.

    Attributes:
        read: Reads a tile of the parts.
        combine: The operation that combines parts.
        results: The positions of the parts to return.
        rows: Rows of a tile.
        adjacent: Adjacent elements of a tile.
        length: The length of a block.
        blocks: The number of whole blocks of a row.
        side: The number of blocks of a tile.
        tail: The length of the last block if it is shorter than the others, else 0.
    """

    read: Read
    combine: Combine
    results: tuple[int, ...]
    rows: int
    adjacent: int
    length: int
    blocks: int
    side: int
    tail: int

    def scan(self, row: jax.Array | int, lane: jax.Array | int, out: Parts) -> Parts:
        """Scans some rows from end to end, and returns ``out`` with the results written."""
        side, length = self.side, self.length
        full_tiles, other_blocks = divmod(self.blocks, side)
        out, carry = self.fold((row, 0, lane), side, length, out, None)

        def fold_tile(t: jax.Array, state: tuple[Parts, Parts]) -> tuple[Parts, Parts]:
            return self.fold((row, t * side * length, lane), side, length, *state)

        def fold_end(_: jax.Array | int, state: tuple[Parts, Parts]) -> tuple[Parts, Parts]:
            if other_blocks:
                start = (row, full_tiles * side * length, lane)
                state = self.fold(start, other_blocks, length, *state)
            if self.tail:
                state = self.fold((row, self.blocks * length, lane), 1, self.tail, *state)
            return state

        def step(t: jax.Array, state: tuple[Parts, Parts]) -> tuple[Parts, Parts]:
            return jax.lax.cond(t < full_tiles, fold_tile, fold_end, t, state)  # type: ignore[no-any-return]

        if full_tiles == 1:
            return fold_end(1, (out, carry))[0]
        # The end is one more step of the loop. After the loop XLA would copy the loop's result
        # before it writes to it.
        steps = full_tiles + (1 if other_blocks or self.tail else 0)
        body = step if steps > full_tiles else fold_tile
        out, _ = jax.lax.fori_loop(1, steps, body, (out, carry))
        return out

    def fold(
        self,
        start: tuple[jax.Array | int, ...],
        side: int,
        length: int,
        out: Parts,
        carry: Parts | None,
    ) -> tuple[Parts, Parts]:
        """Folds a tile of ``side`` blocks.

        Returns:
            ``out`` with the tile written, and the fold of all elements up to the tile's end.
        """
        shape = (self.rows, side * length, self.adjacent)
        lanes = self.rows * side * self.adjacent

        def columns(part: jax.Array) -> jax.Array:
            apart = part.reshape(self.rows, side, length, self.adjacent)
            return fence(apart.transpose(2, 0, 1, 3).reshape(length, lanes))

        local = fold(tuple(map(columns, self.read(start, shape))), self.combine)
        local = tuple(p.reshape(length, self.rows, side, self.adjacent) for p in local)
        carried, carry = self._carried(local, side, carry)
        for position, result in enumerate(self.results):
            axes = out[position].ndim
            part = carried[result].transpose(1, 2, 0, 3).reshape(shape[:axes])
            new = jax.lax.dynamic_update_slice(out[position], part, start[:axes])
            out = (*out[:position], new, *out[position + 1 :])
        return out, carry

    def _carried(self, local: Parts, side: int, carry: Parts | None) -> tuple[Parts, Parts]:
        """Combines each block with the carry into it; returns also the carry after the last."""
        totals = tuple(part[-1] for part in local)
        is_first = carry is None
        first_total = tuple(part[:, 0] for part in totals)
        carries = [first_total if carry is None else carry]
        carry = first_total if carry is None else self.combine(carry, first_total, product)
        for k in range(1, side):
            carries.append(carry)
            carry = self.combine(carry, tuple(part[:, k] for part in totals), product)
        if is_first and side == 1:
            return local, carry
        stacked = (jnp.stack(part, 1)[None] for part in zip(*carries, strict=True))
        before = tuple(jnp.broadcast_to(b, p.shape) for b, p in zip(stacked, local, strict=True))
        combined = self.combine(before, local, product)
        if is_first:
            no_carry = (jnp.arange(side) == 0)[:, None]
            pairs = zip(local, combined, strict=True)
            combined = tuple(jnp.where(no_carry, a, b) for a, b in pairs)
        return combined, carry


def fold(columns: Parts, combine: Combine) -> Parts:
    """Computes running folds along the first axis, left to right."""

    def step(
        state: tuple[Parts, jax.Array], values: Parts
    ) -> tuple[tuple[Parts, jax.Array], Parts]:
        before, t = state
        after = combine(before, values, product)
        # Combining with an identity could change a bit, for example the sign of a zero, so the
        # first value is selected instead.
        after = tuple(jnp.where(t == 0, a, b) for a, b in zip(values, after, strict=True))
        return (after, t + 1), after

    first = tuple(part[0] for part in columns)
    _, out = jax.lax.scan(step, (first, jnp.zeros((), jnp.int32)), columns, unroll=_UNROLL)
    return out
