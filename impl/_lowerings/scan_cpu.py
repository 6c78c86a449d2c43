"""The spec's blocked scan for a CPU: tile by tile, each folded and carried on while in the cache.

Lanes are what runs side by side: blocks of a row, rows, and elements beside each other. Where
lanes are not adjacent in memory a tile is transposed, and it is small enough to be so in the cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl._core.numerics import fence, product
from impl._core.scan_combines import Combine, Parts
from impl._core.shard_axes import vary_like

#: Lanes of a tile: at least so many, if there are, and so many of one row of adjacent ones.
_LANES = 16
_ADJACENT = 256
#: Elements that a tile has at least, in short rows.
_ELEMENTS = 16384
#: Steps of a fold that are compiled together. With 16, XLA computes sums several times over.
_UNROLL = 4

#: From where a tile starts, [outer, n, inner], and its shape to the parts that are there.
Read = Callable[[tuple[jax.Array | int, ...], tuple[int, int, int]], Parts]


def reader(*parts: jax.Array) -> Read:
    """Reads from arrays."""
    axes = _axes(parts[0].shape)
    # Out here: a loop would be given what is captured in there.
    flat = [part.reshape(part.shape[:axes]) for part in parts]

    def read(start: tuple[jax.Array | int, ...], shape: tuple[int, int, int]) -> Parts:
        found = (jax.lax.dynamic_slice(part, start[:axes], shape[:axes]) for part in flat)
        return tuple(part.reshape(shape) for part in found)

    return read


def _axes(shape: tuple[int, ...]) -> int:
    """How many axes an array in memory has: if the last is of 1, XLA might copy it to drop it."""
    return len(shape) - (shape[-1] == 1)


def scan(read: Read, like: Parts, combine: Combine, block: int, kept: tuple[int, ...]) -> Parts:
    """The blocked scan along the middle axis of [outer, n, inner].

    Args:
        read: Where the parts come from.
        like: Arrays of the shape and dtypes of the parts.
        combine: What they are combined by.
        block: The length of a block.
        kept: Which parts to return.

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
    tiles = _Tiles(read, like, combine, kept, rows, adjacent)
    across = -(-inner // adjacent)

    def row(place: jax.Array | int, out: Parts) -> Parts:
        # At the end a tile is moved back, and writes once more what is there.
        at = _no_more(place // across * rows, outer - rows)
        lane = _no_more(place % across * adjacent, inner - adjacent)
        out, carry = tiles.fold((at, 0, lane), side, length, out, None)
        whole, left = divmod(blocks, side)

        def step(t: jax.Array, state: tuple[Parts, Parts]) -> tuple[Parts, Parts]:
            return tiles.fold((at, t * side * length, lane), side, length, *state)

        def end(_: jax.Array | int, state: tuple[Parts, Parts]) -> tuple[Parts, Parts]:
            if left:
                state = tiles.fold((at, whole * side * length, lane), left, length, *state)
            if tail:
                state = tiles.fold((at, blocks * length, lane), 1, tail, *state)
            return state

        def turn(t: jax.Array, state: tuple[Parts, Parts]) -> tuple[Parts, Parts]:
            return jax.lax.cond(t < whole, step, end, t, state)  # type: ignore[no-any-return]

        if whole == 1:
            return end(1, (out, carry))[0]
        # The end is a turn of the loop too: XLA would copy what the loop returns to write there.
        turns = whole + (1 if left or tail else 0)
        out, _ = jax.lax.fori_loop(1, turns, turn if turns > whole else step, (out, carry))
        return out

    shape = like[0].shape[: _axes(like[0].shape)]
    # Of the type of what it is made of, its sharding included.
    fresh = (jax.lax.full_like(like[k], 0).reshape(shape) for k in kept)
    out = tuple(vary_like(part, *like) for part in fresh)
    count = -(-outer // rows) * across
    out = row(0, out) if count == 1 else jax.lax.fori_loop(0, count, row, out)
    return tuple(part.reshape(like[0].shape) for part in out)


def _no_more(value: jax.Array | int, most: int) -> jax.Array | int:
    return min(value, most) if isinstance(value, int) else jnp.minimum(value, most)


@dataclasses.dataclass(frozen=True)
class _Tiles:
    """How tiles are folded."""

    read: Read
    like: Parts
    combine: Combine
    kept: tuple[int, ...]
    rows: int
    adjacent: int

    def fold(
        self,
        start: tuple[jax.Array | int, ...],
        side: int,
        length: int,
        out: Parts,
        carry: Parts | None,
    ) -> tuple[Parts, Parts]:
        """Writes a tile of ``side`` blocks to ``out``; returns the fold of all up to its end."""
        shape = (self.rows, side * length, self.adjacent)
        lanes = self.rows * side * self.adjacent

        def columns(part: jax.Array) -> jax.Array:
            apart = part.reshape(self.rows, side, length, self.adjacent)
            return fence(apart.transpose(2, 0, 1, 3).reshape(length, lanes))

        local = fold(tuple(map(columns, self.read(start, shape))), self.combine)
        local = tuple(p.reshape(length, self.rows, side, self.adjacent) for p in local)
        carried, carry = self._carried(local, side, carry)
        for place, own in enumerate(self.kept):
            axes = out[place].ndim
            part = carried[own].transpose(1, 2, 0, 3).reshape(shape[:axes])
            new = jax.lax.dynamic_update_slice(out[place], part, start[:axes])
            out = (*out[:place], new, *out[place + 1 :])
        return out, carry

    def _carried(self, local: Parts, side: int, carry: Parts | None) -> tuple[Parts, Parts]:
        """The carry into each block combined with it, and the carry out of the last."""
        totals = tuple(part[-1] for part in local)
        first = carry is None
        own = tuple(part[:, 0] for part in totals)
        carries = [own if carry is None else carry]
        carry = own if carry is None else self.combine(carry, own, product)
        for k in range(1, side):
            carries.append(carry)
            carry = self.combine(carry, tuple(part[:, k] for part in totals), product)
        if first and side == 1:
            return local, carry
        stacked = (jnp.stack(part, 1)[None] for part in zip(*carries, strict=True))
        before = tuple(jnp.broadcast_to(b, p.shape) for b, p in zip(stacked, local, strict=True))
        combined = self.combine(before, local, product)
        if first:
            none = (jnp.arange(side) == 0)[:, None]
            combined = tuple(jnp.where(none, a, b) for a, b in zip(local, combined, strict=True))
        return combined, carry


def fold(columns: Parts, combine: Combine) -> Parts:
    """Running folds down the first axis, left to right."""

    def step(
        state: tuple[Parts, jax.Array], values: Parts
    ) -> tuple[tuple[Parts, jax.Array], Parts]:
        before, t = state
        after = combine(before, values, product)
        # An identity would do for most, but not change no bit of all.
        after = tuple(jnp.where(t == 0, a, b) for a, b in zip(values, after, strict=True))
        return (after, t + 1), after

    first = tuple(part[0] for part in columns)
    _, out = jax.lax.scan(step, (first, jnp.zeros((), jnp.int32)), columns, unroll=_UNROLL)
    return out
