"""Sums along axes in a tree of stages, each of which adds some axes of the sums before it.

A tree has short chains of additions, so few sums are in doubt (``stages``). It is fast, too. XLA
for a CPU computes a reduction of several arrays element by element, with a loop over the terms of
each. Where the terms of an element are apart in memory, XLA unrolls a loop of 16 terms and computes
neighbours together, which is ten times as fast as one long loop::

    shape           axes    split into          stages
    [8192, 1024]    0       [32, 16, 16, 1024]  axis 2, axis 1, axis 0
    [4096, 4096]    1       [4096, 64, 64]      axis 2, axis 1
    [100]           0       [100]               axis 0

The first stage adds terms. Each later one also adds the magnitudes of the sums before it, which
bound its error.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest import last_bits
from impl._exact.nearest.reductions import reduced
from impl._exact.nearest.stages import Stages, divisors
from impl._exact.nearest.sums import Measured

#: The greatest number of terms in a loop that XLA unrolls, the least one that is worth a stage, and
#: the greatest number of terms that are left to the last stage.
_UNROLLED, _WORTH, _LEFT = 16, 4, 32
#: The least number of neighbours in memory of which XLA computes sums together.
_NEIGHBOURS = 8
#: The least number of terms of a first stage whose terms are neighbours in memory.
_LEAST = 64


@dataclasses.dataclass(frozen=True)
class Tree:
    """The stages of a sum along axes.

    Attributes:
        shape: The shape of the terms, some axes of which are split.
        stages: The axes of ``shape`` that each stage adds.
    """

    shape: tuple[Any, ...]
    stages: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls,
        shape: Sequence[Any],
        axes: Sequence[int],
        dtype: jax.typing.DTypeLike,
        *,
        at_once: bool,
    ) -> Tree:
        """Returns the tree of a sum.

        Args:
            shape: The shape of the terms, none of whose sizes is 0.
            axes: The axes to add, in ascending order.
            dtype: The dtype of the sums.
            at_once: Whether one reduction computes all measures (``measured``).
        """
        if not axes or not all(isinstance(size, int) for size in shape):
            return cls(tuple(shape), (tuple(axes),))
        if at_once and math.prod(shape[axes[-1] + 1 :]) >= _NEIGHBOURS:
            return cls._of_columns(shape, axes)
        sizes = [shape[axis] for axis in axes]
        terms = math.prod(sizes)
        is_worth = _may_be_in_doubt(math.prod(shape) // terms, terms, dtype)
        two = Stages.of(sizes, least=_LEAST, is_measured=True) if is_worth else None
        if two is None:
            return cls(tuple(shape), (tuple(axes),))
        first, second = two.axes(axes)
        return cls(two.split_shape(shape, axes), (tuple(first), tuple(second)))

    @classmethod
    def _of_columns(cls, shape: Sequence[int], axes: Sequence[int]) -> Tree:
        """Returns the tree of sums whose terms are apart in memory."""
        end = axes[-1] + 1
        start = min(axis for axis in axes if set(range(axis, end)) <= set(axes))
        left, levels = math.prod(shape[start:end]), list[int]()
        while left > _LEFT:
            level = max(each for each in divisors(left) if each <= _UNROLLED)
            if level < _WORTH:
                break
            levels.insert(0, level)
            left //= level
        last = (*(axis for axis in axes if axis < start), start)
        numbers = range(start + len(levels), start, -1)
        return cls(
            (*shape[:start], left, *levels, *shape[end:]),
            (*((number,) for number in numbers), last),
        )

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of ``shape`` that all stages add."""
        return tuple(sorted(axis for stage in self.stages for axis in stage))

    @property
    def chains(self) -> tuple[int, int] | None:
        """The longest chains of additions of the first stage, and of later ones; None for one."""
        if len(self.stages) == 1:
            return None
        first, *later = (math.prod(self.shape[axis] for axis in stage) for stage in self.stages)
        return first, sum(later)


def reduce_sum(terms: jax.Array, tree: Tree) -> tuple[jax.Array, jax.Array | None]:
    """Returns sums, and the sums of the magnitudes of the terms of later stages, if there are any.

    Args:
        terms: float64, of the tree's shape.
        tree: The stages.
    """

    def reduce(values: Sequence[jax.Array], axes: Sequence[int]) -> list[jax.Array]:
        return [lax.reduce_sum(value, tuple(axes)) for value in values]

    total, magnitudes, *_ = _in_stages(reduce, [terms], tree)
    return total, magnitudes


def measured(terms: jax.Array, tree: Tree) -> Measured:
    """Returns sums of float32 as float64, and their measures, by one reduction for each stage.

    Args:
        terms: float32, of the tree's shape.
        tree: The stages.
    """
    least, bits = last_bits.least_and_bits(terms)
    greatest = lax.bitwise_and(bits, lax.full_like(bits, last_bits.MAGNITUDE))

    def reduce(values: Sequence[jax.Array], axes: Sequence[int]) -> list[jax.Array]:
        steps = [lax.add] * (len(values) - 3)
        return reduced(values, [*steps, lax.max, lax.min, lax.bitwise_or], axes)

    values = [arithmetic.widen(terms), greatest, least, bits]
    total, magnitudes, greatest, least, bits = _in_stages(reduce, values, tree)
    return Measured(total, last_bits.field(greatest), last_bits.exponent(least, bits), magnitudes)


#: Reduces each of some arrays over axes.
_Reduce = Callable[[Sequence[jax.Array], Sequence[int]], list[jax.Array]]


def _in_stages(reduce: _Reduce, values: Sequence[jax.Array], tree: Tree) -> list[Any]:
    """Returns a reduction of arrays, the first of which is a sum.

    Returns:
        The sum; the sum of the magnitudes of later stages, or None; the rest.
    """
    first, *later = tree.stages
    total, *others = reduce(values, first)
    magnitudes, done = None, list(first)
    for stage in later:
        # Without the seal, XLA would make one sum of two stages.
        parts = arithmetic.seal(total)
        magnitudes = lax.abs(parts) if magnitudes is None else magnitudes
        axes = [axis - sum(each < axis for each in done) for axis in stage]
        total, magnitudes, *others = reduce([parts, magnitudes, *others], axes)
        done.extend(stage)
    return [total, magnitudes, *others]


def _may_be_in_doubt(results: int, terms: int, dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether one of several plain sums of random terms is likely in doubt.

    The bound of K terms is about K**2 u, and their sum about sqrt(K) of the terms, so one sum in
    2**(52 - p) K**-1.5 is within the bound of a tie, for p bits of a result.
    """
    return bool(results * terms**1.5 > 2.0 ** (48 - jnp.finfo(dtype).nmant - 1))
