"""The spec's blocked scan by operations of XLA on whole arrays.

The technique is reduce-then-scan, on blocks of blocks; ``impl._kernels.scan_tiles`` has its source
and an example. The running folds of all blocks are computed at the same time, in one of two ways.
Where combining is cheap, every element folds the members of its block in turn, up to itself. For a
block of four elements:

    member          0    1      2             3
    fold            a    a      a             a            number 0
    number >= 1     a    a + b  a + b         a + b        combined with member 1
    number >= 2     a    a + b  (a + b) + c   (a + b) + c  combined with member 2
    ...

This is up to 16 times the arithmetic, but no loop, so that XLA uses vectors and shares the blocks
among all cores. Where combining is dear, a loop over the members of a block combines vectors of
blocks.

XLA would compute the totals of a level again for each use. Fences stop it, except on a CPU with jax
0.10, where conditionals do.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.jax_internals.releases import FENCES_HOLD
from impl._core.numerics import fence
from impl._core.shard_axes import vary_like
from impl._families.scan_combines import Parts

#: An associative operation: combines earlier parts with later ones.
Combine = Callable[[Parts, Parts], Parts]


def scan(
    parts: Parts,
    combine: Combine,
    block: int,
    *,
    reverse: bool = False,
    dear: bool = False,
    fences_hold: bool = FENCES_HOLD,
) -> Parts:
    """Computes the blocked scan along the middle axis of [outer, n, inner].

    Args:
        parts: Arrays of one shape.
        combine: The operation that combines them.
        block: The members of a block.
        reverse: Whether to fold from right to left.
        dear: Whether combining costs much more than loading.
        fences_hold: Whether the compiler fuses nothing across a fence.

    Returns:
        The running folds.
    """
    levels = _Levels(combine, block, reverse, dear, fences_hold)
    shape = parts[0].shape
    # XLA might copy an array to drop a last axis of length 1, so it is dropped here.
    arrays = tuple(part.reshape(shape[: 2 + (shape[2] > 1)]) for part in parts)

    # The folds have the types of the blocks. To trace them all would take as long again.
    like = jax.eval_shape(levels.cut, arrays)
    out = apart(levels.scan, arrays, like, fences_hold)
    # The blocks are joined in an operation of their own. In the operation that computes the folds,
    # XLA finds the index of an element in its block by arithmetic, a third of the time.
    whole = (joined(part, arrays[0].shape, reverse=reverse) for part in out)
    return tuple(part.reshape(shape) for part in whole)


def apart(
    function: Callable[[Parts], Parts],
    parts: Parts,
    like: Any = None,
    fences_hold: bool = FENCES_HOLD,
) -> Parts:
    """Calls a function that XLA fuses with nothing outside: in fences, or in a conditional.

    Args:
        function: Takes and returns arrays.
        parts: Its arguments.
        like: The types of its results; None to find them by a trace.
        fences_hold: Whether the compiler fuses nothing across a fence.
    """
    if fences_hold:
        return tuple(map(fence, function(tuple(map(fence, parts)))))
    corner = jax.lax.slice(parts[0], (0,) * parts[0].ndim, (1,) * parts[0].ndim)
    number = jax.lax.convert_element_type(jax.lax.reshape(corner, ()), jnp.int32)
    one = np.int32(1)
    # The product of neighbours is even, which XLA does not know.
    product = jax.lax.mul(number, jax.lax.add(number, one))
    always = jax.lax.eq(jax.lax.bitwise_and(product, one), np.int32(0))

    def never(parts: Parts) -> Parts:
        return tuple(vary_like(jnp.zeros(part.shape, part.dtype), *parts) for part in like)

    like = jax.eval_shape(function, parts) if like is None else like
    out: Parts = jax.lax.cond(always, function, never, tuple(vary_like(p, *parts) for p in parts))
    return out


def cut(part: jax.Array, block: int, *, reverse: bool = False) -> jax.Array:
    """Returns [outer, n] or [outer, n, inner] with blocks as axis 1, the last one padded.

    A single block has n members.
    """
    outer, n, *inner = part.shape
    if n <= block:
        return part.reshape(outer, 1, n, *inner)
    rest = (-n % block, 0) if reverse else (0, -n % block)
    padded = jnp.pad(part, [(0, 0), rest, *[(0, 0)] * len(inner)]) if any(rest) else part
    return padded.reshape(outer, -1, block, *inner)


def joined(part: jax.Array, shape: tuple[int, ...], *, reverse: bool = False) -> jax.Array:
    """Returns the array of ``shape`` that ``cut`` has cut."""
    whole = part.reshape(shape[0], -1, *shape[2:])
    rest = whole.shape[1] - shape[1]
    if not rest:
        return whole
    return whole[:, rest:] if reverse else whole[:, : shape[1]]


@dataclasses.dataclass(frozen=True)
class _Levels:
    """The blocks of one scan; the attributes are arguments of ``scan``."""

    combine: Combine
    block: int
    reverse: bool
    dear: bool
    fences_hold: bool

    def cut(self, parts: Parts) -> Parts:
        """Returns the blocks of the elements."""
        return tuple(cut(part, self.block, reverse=self.reverse) for part in parts)

    def scan(self, parts: Parts) -> Parts:
        """Returns the running folds of the elements, in blocks."""
        blocks = self.cut(parts)
        if blocks[0].shape[1] == 1:
            local, _ = self._folds(blocks, before=False, with_totals=False)
        else:
            local, totals = self._folds(blocks, before=False, with_totals=True)
            carries = self._above(totals)
            combined = self.combine(self._spread(carries, blocks[0]), local)
            local = self._where(self._is_first(blocks[0], 1), local, combined)
        return local

    def _above(self, totals: Parts) -> Parts:
        """Returns the carries of blocks; XLA computes their totals once."""
        if self.fences_hold:
            return self._carries(totals)
        return apart(self._carries, totals, totals, fences_hold=False)

    def _carries(self, members: Parts) -> Parts:
        """Returns the fold of all members before each; of the first one it is undefined."""
        shape = members[0].shape
        blocks = self.cut(members)
        if blocks[0].shape[1] == 1:
            before, _ = self._folds(blocks, before=True, with_totals=False)
        else:
            before, totals = self._folds(blocks, before=True, with_totals=True)
            carries = self._spread(self._above(totals), blocks[0])
            combined = self.combine(carries, before)
            combined = self._where(self._is_first(blocks[0], 1), before, combined)
            before = self._where(self._is_first(blocks[0], 2), carries, combined)
        return tuple(fence(joined(part, shape, reverse=self.reverse)) for part in before)

    def _spread(self, carries: Parts, like: jax.Array) -> Parts:
        """Returns the carry of each block at each of its members."""
        axes = [axis for axis in range(like.ndim) if axis != 2]
        return tuple(jax.lax.broadcast_in_dim(part, like.shape, axes) for part in carries)

    def _number(self, like: jax.Array, axis: int) -> jax.Array:
        """Returns the numbers of blocks (axis 1) or members (axis 2) in the scan's direction."""
        number = jax.lax.broadcasted_iota(jnp.int32, like.shape, axis)
        if not self.reverse:
            return number
        return jax.lax.sub(np.int32(like.shape[axis] - 1), number)

    def _is_first(self, like: jax.Array, axis: int) -> jax.Array:
        """Returns where the number of a block or member is 0."""
        return jax.lax.eq(self._number(like, axis), np.int32(0))

    def _where(self, condition: jax.Array, yes: Parts, no: Parts) -> Parts:
        return tuple(jax.lax.select(condition, a, b) for a, b in zip(yes, no, strict=True))

    def _folds(self, blocks: Parts, *, before: bool, with_totals: bool) -> tuple[Parts, Parts]:
        """Folds each block from its first member on.

        Args:
            blocks: Shape [outer, blocks, block] or [outer, blocks, block, inner].
            before: Whether the fold of a member ends before it; the first fold is then undefined.
            with_totals: Whether to fold whole blocks too.

        Returns:
            The running folds, and the totals, which have no axis of members.
        """
        if self.dear:
            return self._folds_by_loop(blocks, before=before)
        shape = blocks[0].shape
        members = [jax.lax.split(part, (1,) * shape[2], 2) for part in blocks]
        columns = list(zip(*members, strict=True))[:: -1 if self.reverse else 1]
        number = self._number(blocks[0], 2)
        axes = [*range(len(shape))]
        fold, *others = (
            tuple(jax.lax.broadcast_in_dim(part, shape, axes) for part in column)
            for column in columns
        )
        # Each operation is of ``lax``: an operator, or one of ``jax.numpy``, is a trace of its own.
        is_after = jax.lax.gt if before else jax.lax.ge
        for member, wide in enumerate(others, 1):
            takes_part = is_after(number, np.int32(member))
            fold = self._where(takes_part, self.combine(fold, wide), fold)
        if not with_totals:
            return fold, ()
        totals = functools.reduce(self.combine, columns)
        return fold, tuple(fence(part.reshape(shape[:2] + shape[3:])) for part in totals)

    def _folds_by_loop(self, blocks: Parts, *, before: bool) -> tuple[Parts, Parts]:
        def step(
            state: tuple[Parts, jax.Array], column: Parts
        ) -> tuple[tuple[Parts, jax.Array], Parts]:
            fold, member = state
            # Combining with an identity could change a bit, for example the sign of a zero.
            after = self._where(jax.lax.eq(member, zero), column, self.combine(fold, column))
            return (after, jax.lax.add(member, one)), fold if before else after

        zero: Any = np.int32(0)
        one = np.int32(1)
        axes = [*range(3, blocks[0].ndim)]
        columns = tuple(jax.lax.transpose(part, (2, 0, 1, *axes)) for part in blocks)
        first = (tuple(jax.lax.index_in_dim(part, 0, 0, False) for part in columns), zero)
        (totals, _), folds = jax.lax.scan(step, first, columns, reverse=self.reverse)
        return tuple(jax.lax.transpose(part, (1, 2, 0, *axes)) for part in folds), totals
