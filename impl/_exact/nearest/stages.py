"""Sums in two stages, whose error has a smaller bound.

The bound of a sum of K terms grows with the longest chain of additions (Higham, *Accuracy and
Stability of Numerical Algorithms*, 2002, section 4.2): with K, if a device may add in any order.
Two stages of about sqrt(K) terms each have chains of 2 sqrt(K) additions, so fewer sums are in
doubt. A stage adds whole axes, or a part of one axis, such that no term is moved::

    sizes of axes     16, 4096               one axis of 65536
    first stage       4096 terms             256 terms
    second stage      the 16 sums            the 256 sums
    longest chain     4112, not 65536        512, not 65536
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

#: The least number of terms to add in two stages.
_MANY = 1024
#: The greatest number of devices over which XLA is likely to cut an axis.
_DEVICES = 8


@dataclasses.dataclass(frozen=True)
class Stages:
    """Two stages of a sum over axes.

    Attributes:
        number: The number of axes that the second stage adds whole.
        parts: The number of parts of the next axis, which the second stage adds too.
        second: The number of terms of the second stage.
        first: The number of terms of the first stage.
    """

    number: int
    parts: int
    second: int
    first: int

    @property
    def depth(self) -> int:
        """The longest chain of additions."""
        return self.first + self.second

    @property
    def error(self) -> int:
        """The error of a sum of random terms, in roundings of the greatest term."""
        return self.depth * self.first * self.second

    @classmethod
    def of(cls, sizes: Sequence[Any], most: float = math.inf) -> Stages | None:
        """Returns the stages with the least error; None if one stage is about as good.

        Args:
            sizes: The sizes of the axes to add. A symbolic size (jax.export) has one stage.
            most: The greatest number of terms of the second stage.
        """
        if not all(isinstance(size, int) for size in sizes) or math.prod(sizes) < _MANY:
            return None
        found: list[tuple[float, Stages]] = []
        second = 1
        for number, size in enumerate(sizes):
            for parts in divisors(size):
                first = math.prod(sizes) // (second * parts)
                stages = cls(number, parts, second * parts, first)
                # XLA keeps the shards of an axis if each device has whole parts.
                is_cut = parts % _DEVICES != 0 and _DEVICES % parts != 0
                if stages.second <= most:
                    found.append((stages.error * (2 if is_cut else 1), stages))
            second *= size
        error, stages = min(found, key=lambda each: each[0])
        return stages if 4 * error <= math.prod(sizes) ** 2 else None

    def split(self, value: jax.Array, axes: Sequence[int]) -> jax.Array:
        """Returns an array with two axes for the one whose parts the second stage adds.

        Args:
            value: Any array.
            axes: The axes to add, in the order of their sizes.
        """
        axis, shape = axes[self.number], value.shape
        split = (*shape[:axis], self.parts, shape[axis] // self.parts, *shape[axis + 1 :])
        return lax.reshape(value, split)

    def after_split(self, axis: int, axes: Sequence[int]) -> int:
        """Returns the number of an axis after ``split``, which splits it into parts and terms."""
        return axis + (axis > axes[self.number])

    def axes(self, axes: Sequence[int]) -> tuple[list[int], list[int]]:
        """Returns the axes after ``split`` that the first and the second stage add."""
        moved = [self.after_split(axis, axes) for axis in axes]
        second, first = moved[: self.number + 1], moved[self.number + 1 :]
        return [second[-1] + 1, *first], second


def divisors(number: int) -> list[int]:
    """Returns the divisors of a positive number, in ascending order."""
    lower = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*lower, *(number // each for each in lower)})
