"""Kernels of the spec's blocked scan: each kernel instance scans a tile in its registers.

The technique is reduce-then-scan, on blocks of blocks (Blelloch, "Prefix Sums and Their
Applications", CMU-CS-90-190, 1990). With blocks of two members:

    elements             1   2 | 3   4 | 5   6 | 7   8
    folds in blocks      1   3 | 3   7 | 5  11 | 7  15      their totals  3   7 | 11  15
    folds of the totals  3  10 |11  26                      their totals 10  26
    carries of blocks    -     | 3     |10     |10 + 11
    results              1   3 | 6  10 |15  21 |28  36

A single-pass scan with decoupled look-back (Merrill and Garland, NVIDIA NVR-2016-002, 2016) reads
each element only once. But there a tile combines the totals or the carries of earlier tiles that
are ready when it looks, so that the brackets depend on timing. Here they depend on the length.

A tile has a power of two of steps along the axis, and several lanes: rows, or adjacent elements. It
is loaded once, with neighbouring threads at neighbouring addresses, and cut into its blocks by
moving it between threads; the backend does that in shared memory. A row of one tile is read once
and written once. A longer row is read twice: first for the totals of its tiles, which the same
kernels scan, and then for the results.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.numerics import accumulator
from impl._families.scan_combines import Parts
from impl._families.scan_source import Source, View
from impl._kernels import _columns
from impl._kernels import pallas as pl
from impl._kernels.launch import Launch

Combine = Callable[[Parts, Parts], Parts]
Widened = Callable[[jax.typing.DTypeLike], np.dtype[Any]]

#: The greatest number of steps of a tile in one row: of up to two arrays, and of more.
_STEPS, _STEPS_OF_MANY = 4096, 256
#: The greatest number of steps of a tile of adjacent elements, and of these elements.
_STEPS_APART, _ADJACENT = 256, 32
#: The least elements of a tile, and the elements of a thread.
_ELEMENTS, _OF_A_THREAD = 2048, 32


def takes(parts: Parts, *, together: int = 1) -> bool:
    """Returns whether 32 bits hold the offsets of arrays, up to the ends of their last tiles."""
    outer, n, inner = parts[0].shape
    beyond = n + _ELEMENTS + _STEPS if inner == 1 else _STEPS_APART * inner + _ADJACENT
    return together * outer * n * inner + beyond < 2**31


def scan(
    parts: Parts,
    combine: Combine,
    *,
    block: int,
    results: tuple[int, ...],
    launch: Launch,
    reverse: bool = False,
    positions: bool = False,
    widened: Widened = accumulator,
    source: Source | None = None,
    together: int = 1,
) -> Parts:
    """Computes the blocked scan along the middle axis of [outer, n, inner].

    Args:
        parts: Arrays of one shape. Narrow floats are combined in float32, and rounded once.
        combine: Combines earlier parts with later ones.
        block: The members of a block: a power of two.
        results: The positions of the parts to return.
        launch: How to run.
        reverse: Whether to fold from right to left.
        positions: Whether the position of each element is one more part, as int32.
        widened: Maps the dtype of a part to the dtype in which it is combined.
        source: How the scanned parts are made of ``parts``; None to scan these themselves.
        together: The number of neighbouring parts in one array, so that XLA makes them at once.

    Returns:
        These parts of the running folds.
    """
    source = source or Source.of_all(len(parts))
    how = _Scan(combine, block, reverse, results, positions, widened, source, together, launch)
    return how.run(parts)


@dataclasses.dataclass(frozen=True)
class _Scan:
    """A scan of given operations; the attributes are arguments of ``scan``."""

    combine: Combine
    block: int
    reverse: bool
    results: tuple[int, ...]
    positions: bool
    widened: Widened
    source: Source
    together: int
    launch: Launch

    def run(self, parts: Parts) -> Parts:
        """Returns the chosen parts of the running folds."""
        tiles = _Tiles.of(self, parts)
        if tiles.count == 1:
            return tiles.scan(parts, None)
        return tiles.scan(parts, self.carries(tiles.totals(parts)))

    def carries(self, members: Parts) -> Parts:
        """Returns the fold of all members before each; of the first one it is undefined."""
        every = tuple(range(len(members)))
        plain = dataclasses.replace(
            self, results=every, positions=False, source=Source.of_all(len(every)), together=1
        )
        tiles = _Tiles.of(plain, members)
        carries = None if tiles.count == 1 else plain.carries(tiles.totals(members))
        return tiles.scan(members, carries, before=True)


@dataclasses.dataclass(frozen=True)
class _Tiles:
    """The tiles of one array.

    Attributes:
        how: The scan.
        shape: The shape of the array: [outer, n, inner].
        groups: The members of a block at each level of a tile, from the lowest.
        pieces: The pieces of rows that an instance scans; 1 if it has adjacent elements.
        adjacent: The adjacent elements of a piece; 1 if the axis is the last.
    """

    how: _Scan
    shape: tuple[int, int, int]
    groups: tuple[int, ...]
    pieces: int
    adjacent: int

    @classmethod
    def of(cls, how: _Scan, parts: Parts) -> _Tiles:
        """Returns the tiles of arrays."""
        outer, n, inner = parts[0].shape
        many = len(how.source.types) + how.positions > 2
        longest = _STEPS_APART if inner > 1 else _STEPS_OF_MANY if many else _STEPS
        steps = max(2, min(pl.next_power_of_2(n), longest))
        groups: list[int] = []
        while math.prod(groups) < steps:
            groups.append(min(how.block, steps // math.prod(groups)))
        # The backend's compiler refuses tiles whose last axis has one element.
        adjacent = 1 if inner == 1 else max(2, min(_ADJACENT, pl.next_power_of_2(inner)))
        pieces = max(2, _ELEMENTS // steps) if inner == 1 else 1
        return cls(how, (outer, n, inner), tuple(groups), pieces, adjacent)

    @property
    def steps(self) -> int:
        """The steps of a piece along the axis."""
        return math.prod(self.groups)

    @property
    def count(self) -> int:
        """The number of pieces of a row."""
        return -(-self.shape[1] // self.steps)

    def totals(self, parts: Parts) -> Parts:
        """Returns the folds of all tiles, of shape [outer, tiles, inner]."""
        shape = (self.shape[0], self.count, self.shape[2])
        types = map(self.how.widened, self._types(parts))
        out = tuple(jax.ShapeDtypeStruct((math.prod(shape),), dtype) for dtype in types)
        arrays = self._arrays(parts)

        def kernel(*refs: Any) -> None:
            instance = _Instance(self)
            members = instance.load(refs[: len(arrays)])
            for level in range(len(self.groups)):
                members = instance.last(instance.columns(members, level))
            instance.store_totals(refs[len(arrays) :], members)

        return self._launched(kernel, out, arrays, shape, "scan_ordered_totals")

    def scan(self, parts: Parts, carries: Parts | None, *, before: bool = False) -> Parts:
        """Scans each tile.

        Args:
            parts: The array.
            carries: The fold before each tile but the first, of shape [outer, tiles, inner].
            before: Whether the fold of an element ends before the element; the first fold is then
                undefined.
        """
        types, size = self._types(parts), math.prod(self.shape)
        out = tuple(jax.ShapeDtypeStruct((size,), types[k]) for k in self.how.results)
        arrays = self._arrays(parts)

        def kernel(*refs: Any) -> None:
            instance = _Instance(self)
            others = refs[len(arrays) : len(refs) - len(out)]
            folds, members = [], instance.load(refs[: len(arrays)])
            for level in range(len(self.groups)):
                columns = instance.columns(members, level)
                folds.append(instance.running(columns, before=before or level > 0))
                members = instance.last(columns)
            carry = instance.load_carries(others) if others else None
            for level in reversed(range(1, len(self.groups))):
                carry = instance.carried(folds[level], carry, level, before=True)
            folded = instance.carried(folds[0], carry, 0, before=before)
            instance.store(refs[-len(out) :], folded, refs[: len(arrays)])

        operands = (*arrays, *(carries or ()))
        return self._launched(kernel, out, operands, self.shape, "scan_ordered_tiles")

    def _types(self, parts: Parts) -> list[np.dtype[Any]]:
        """Returns the dtypes of the scanned parts."""
        positions = [jnp.dtype(jnp.int32)] * self.how.positions
        return [parts[k].dtype for k in self.how.source.types] + positions

    def _arrays(self, parts: Parts) -> Parts:
        """Returns the arrays that hold the parts, of which several may be in one."""
        count, flat = self.how.together, [part.reshape(-1) for part in parts]
        return tuple(jnp.concatenate(flat[k : k + count]) for k in range(0, len(flat), count))

    def _launched(
        self,
        kernel: Callable[..., None],
        out: tuple[jax.ShapeDtypeStruct, ...],
        arrays: Parts,
        shape: tuple[int, int, int],
        name: str,
    ) -> Parts:
        threads = self.pieces * self.steps * self.adjacent // _OF_A_THREAD
        results = self.how.launch(
            kernel,
            (self.programs,),
            out,
            *(array.reshape(-1) for array in arrays),
            name=name,
            num_warps=min(8, max(2, threads // 32)),
        )
        return tuple(part.reshape(shape) for part in results)

    @property
    def programs(self) -> int:
        """The number of kernel instances."""
        outer, _, inner = self.shape
        return pl.cdiv(outer * self.count, self.pieces) * pl.cdiv(inner, self.adjacent)


class _Instance:
    """The running kernel instance: its tile, and the steps of a scan on that.

    Parts of a level are [blocks, members, adjacent], or [blocks, members] in rows of their own. The
    blocks of a row come before the blocks of the next row.
    """

    def __init__(self, tiles: _Tiles) -> None:
        self._tiles, self._how = tiles, tiles.how
        across = pl.cdiv(tiles.shape[2], tiles.adjacent)
        number = self._how.launch.program_id(0, tiles.programs)
        self._first = number // across * tiles.pieces
        self._lane = number % across * tiles.adjacent

    def load(self, refs: Any) -> Parts:
        """Returns the tile's elements as blocks of the lowest level."""
        offsets, _, step = self._elements()
        source = self._how.source
        parts = source.parts(*self._views(refs, source.views))
        return (*parts, jnp.broadcast_to(step, offsets.shape)) if self._how.positions else parts

    def _views(self, refs: Any, views: tuple[View, ...]) -> Parts:
        offsets, inside, step = self._elements()
        _, n, inner = self._tiles.shape
        # Parts that share an array lie in it one after another, each whole.
        size, together = math.prod(self._tiles.shape), self._how.together
        parts = []
        for view in views:
            lag = -view.lag if self._how.reverse else view.lag
            known = inside & (step >= lag) & (step < n + lag) if lag else inside
            offset = offsets + (view.array % together * size - lag * inner)
            ref = refs[view.array // together].at[offset]
            part = self._how.launch.load(ref, mask=known, other=view.beyond)
            parts.append(part.astype(self._how.widened(part.dtype)))
        return tuple(parts)

    def store(self, refs: Any, parts: Parts, arrays: Any) -> None:
        """Stores the results, which the source may combine with elements of the arrays."""
        offsets, inside, _ = self._elements()
        source = self._how.source
        at_end = self._views(arrays, source.views_at_end)
        for ref, position in zip(refs, self._how.results, strict=True):
            part = parts[position].reshape(offsets.shape)
            if source.result is not None:
                part = source.result(part, *at_end)
            self._how.launch.store_some(ref, offsets, part.astype(ref.dtype), inside)

    def _elements(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns offsets of the elements, whether each exists, and its step along the axis."""
        tiles, (outer, n, inner) = self._tiles, self._tiles.shape
        group = tiles.groups[0]
        blocks = tiles.steps // group
        number = _columns.numbers(tiles.pieces * blocks, 0, self._axes)
        row, piece = self._pieces(number // blocks)
        start = n - (piece + 1) * tiles.steps if self._how.reverse else piece * tiles.steps
        step = start + number % blocks * group + _columns.numbers(group, 1, self._axes)
        lane = (
            self._lane + _columns.numbers(tiles.adjacent, 2, self._axes) if self._axes == 3 else 0
        )
        inside = (step >= 0) & (step < n) & (row < outer)
        if self._axes == 3:
            inside &= lane < inner
        return (row * n + step) * inner + lane, inside, step

    @property
    def _axes(self) -> int:
        return 2 if self._tiles.adjacent == 1 else 3

    def _pieces(self, number: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns the row of each piece, and its number in the row, in the scan's direction."""
        index = self._first + number
        return index // self._tiles.count, index % self._tiles.count

    def _piece_offsets(self) -> tuple[jax.Array, jax.Array]:
        """Returns the offsets of the totals and carries, and whether each exists."""
        tiles, (outer, _, inner) = self._tiles, self._tiles.shape
        row, piece = self._pieces(_columns.numbers(tiles.pieces, 0, self._axes - 1))
        # Totals are in the order of memory, so that they are scanned in the same direction.
        slot = tiles.count - 1 - piece if self._how.reverse else piece
        inside = row < outer
        offsets = (row * tiles.count + slot) * inner
        if self._axes == 3:
            lane = self._lane + _columns.numbers(tiles.adjacent, 1, 2)
            offsets, inside = offsets + lane, inside & (lane < inner)
        return offsets, inside

    def store_totals(self, refs: Any, totals: Parts) -> None:
        """Stores the folds of the whole pieces."""
        offsets, inside = self._piece_offsets()
        for ref, part in zip(refs, totals, strict=True):
            self._how.launch.store(ref.at[offsets], part.reshape(offsets.shape), mask=inside)

    def load_carries(self, refs: Any) -> Parts:
        """Returns the folds of all elements before the pieces."""
        offsets, inside = self._piece_offsets()
        load = self._how.launch.load
        return tuple(load(ref.at[offsets], mask=inside, other=0) for ref in refs)

    def columns(self, members: Parts, level: int) -> list[Parts]:
        """Returns the members at each index of a block, in the direction of the scan."""
        group = self._tiles.groups[level]
        shape = (-1, group, self._tiles.adjacent)[: self._axes]
        cut = _columns.picked if self._is_short(level, len(members)) else _columns.cut
        columns = zip(*(cut(part.reshape(shape)) for part in members), strict=True)
        return list(columns)[:: -1 if self._how.reverse else 1]

    def _is_short(self, level: int, parts: int) -> bool:
        """Returns whether columns are cut and joined by ``picked`` and ``placed``, for short ones.

        These take more instructions than ``cut`` and ``joined``, but fewer registers. A scan of one
        part has registers enough for ``cut``. An interpreted kernel has no registers, and XLA takes
        minutes to compile ``picked``.
        """
        return level > 0 and parts > 1 and not self._how.launch.interpret

    def running(self, columns: list[Parts], *, before: bool) -> list[Parts]:
        """Returns the running folds of columns; with ``before``, the first one is undefined."""
        folds = [columns[0]]
        for column in columns[1:]:
            folds.append(self._how.combine(folds[-1], column))
        return [columns[0], *folds[:-1]] if before else folds

    def last(self, columns: list[Parts]) -> Parts:
        """Returns the folds of whole blocks."""
        return self.running(columns, before=False)[-1]

    def carried(
        self, folds: list[Parts], carry: Parts | None, level: int, *, before: bool
    ) -> Parts:
        """Returns the folds of a level, each combined with the carry of its block.

        Args:
            folds: The folds, a column for each index in a block.
            carry: The carries of the blocks, or None if no block has one.
            level: The level.
            before: Whether the first fold of each block is undefined; the carry replaces it.

        Returns:
            A fold for each member, of shape [members] or [members, adjacent].
        """
        if carry is not None:
            has_carry = self._has_carry(level)
            for index, fold in enumerate(folds):
                combined = self._how.combine(carry, fold)
                if before and index == 0:
                    folds[index] = carry
                else:
                    pairs = zip(combined, fold, strict=True)
                    folds[index] = tuple(jnp.where(has_carry, a, b) for a, b in pairs)
        in_memory = folds[:: -1 if self._how.reverse else 1]
        join = _columns.placed if self._is_short(level, len(folds[0])) else _columns.joined
        parts = (join(list(part)) for part in zip(*in_memory, strict=True))
        shape = (-1, self._tiles.adjacent)[: self._axes - 1]
        return tuple(part.reshape(shape) for part in parts)

    def _has_carry(self, level: int) -> jax.Array:
        """Returns whether an element of the row comes before each block of a level."""
        tiles = self._tiles
        blocks = tiles.steps // math.prod(tiles.groups[: level + 1])
        number = _columns.numbers(tiles.pieces * blocks, 0, self._axes - 1)
        first = number % blocks == (blocks - 1 if self._how.reverse else 0)
        _, piece = self._pieces(number // blocks)
        return ~first | (piece > 0)
