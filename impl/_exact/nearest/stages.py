"""Sums in two stages, whose error has a smaller bound.

The bound of a sum of K terms grows with the longest chain of additions (Higham, *Accuracy and
Stability of Numerical Algorithms*, 2002, section 4.2): with K, if a device may add in any order.
Two stages of about sqrt(K) terms each have chains of 2 sqrt(K) additions, so fewer sums are in
doubt. A stage adds whole axes, or a part of one axis, such that no term is moved::

    sizes of axes     16, 4096               one axis of 65536
    first stage       4096 terms             256 terms
    second stage      the 16 sums            the 256 sums
    longest chain     4112, not 65536        512, not 65536

The error of the second stage is in proportion to the magnitudes of its terms, the sums of the
first. If terms have both signs, these are far smaller than all terms together. So a sum measures
them, and its first stage is shorter: of about K**0.4 terms.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest.reductions import reduced
from impl._exact.nearest.sums import Measured

#: The least number of terms to add in two stages.
_MANY = 1024
#: All bits of a float32 but its sign, and the bits of the greatest finite one.
_MAGNITUDE, _HUGE = 0x7FFFFFFF, 0x7F7FFFFF
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

    def error(self, *, is_measured: bool) -> float:
        """Returns the error of a sum of random terms, in roundings of the greatest term.

        Args:
            is_measured: Whether the bound knows the magnitudes of the sums of the first stage. A
                sum of n terms of both signs is about sqrt(n) of them, most of which are a fifth of
                the greatest one, or less.
        """
        if not is_measured:
            return self.depth * self.first * self.second
        return self.first**2 * self.second + self.second**2 * math.sqrt(self.first) / 5

    @classmethod
    def of(
        cls, sizes: Sequence[Any], most: float = math.inf, *, is_measured: bool = False
    ) -> Stages | None:
        """Returns the stages with the least error; None if one stage is about as good.

        Args:
            sizes: The sizes of the axes to add. A symbolic size (jax.export) has one stage.
            most: The greatest number of terms of the second stage.
            is_measured: As ``error`` takes it.
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
                    error = stages.error(is_measured=is_measured)
                    found.append((error * (2 if is_cut else 1), stages))
            second *= size
        error, stages = min(found, key=lambda each: each[0])
        return stages if 4 * error <= math.prod(sizes) ** 2 else None

    def split(self, value: jax.Array, axes: Sequence[int]) -> jax.Array:
        """Returns an array with two axes for the one whose parts the second stage adds.

        Args:
            value: Any array.
            axes: The axes to add, in the order of their sizes.
        """
        axis = axes[self.number]
        size = value.shape[axis]
        shape = (*value.shape[:axis], self.parts, size // self.parts, *value.shape[axis + 1 :])
        return lax.reshape(value, shape)

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


def reduce_sum(
    terms: jax.Array, first: Sequence[int], second: Sequence[int]
) -> tuple[jax.Array, jax.Array | None]:
    """Returns sums, and the sums of the magnitudes of the terms of the second stage.

    Args:
        terms: float64.
        first: The axes that the first stage adds.
        second: The axes that the second stage adds; none for one stage.
    """

    def reduce(values: Sequence[jax.Array], axes: Sequence[int]) -> list[jax.Array]:
        return [lax.reduce_sum(value, tuple(axes)) for value in values]

    total, magnitudes, *_ = _in_stages(reduce, [terms], first, second)
    return total, magnitudes


def measured(terms: jax.Array, first: Sequence[int], second: Sequence[int]) -> Measured:
    """Returns sums of float32 as float64, and their measures, by one reduction for each stage.

    Args:
        terms: float32. A zero counts for no least magnitude.
        first: The axes that the first stage adds.
        second: The axes that the second stage adds; none for one stage.
    """
    # An order of magnitudes is an order of their bits, where a NaN comes last.
    raw = lax.bitcast_convert_type(terms, np.int32)
    magnitude = lax.bitwise_and(raw, lax.full_like(raw, _MAGNITUDE))
    is_zero = lax.eq(magnitude, lax.full_like(raw, 0))
    least = lax.select(is_zero, lax.full_like(raw, _HUGE), magnitude)

    def reduce(values: Sequence[jax.Array], axes: Sequence[int]) -> list[jax.Array]:
        steps = [lax.add] * (len(values) - 2)
        return reduced(values, [*steps, lax.max, lax.min], axes)

    values = [arithmetic.widen(terms), magnitude, least]
    total, magnitudes, *words = _in_stages(reduce, values, first, second)
    greatest, least = (lax.bitcast_convert_type(each, np.float32) for each in words)
    return Measured(total, greatest, least, magnitudes)


#: Reduces each of some arrays over axes.
_Reduce = Callable[[Sequence[jax.Array], Sequence[int]], list[jax.Array]]


def _in_stages(
    reduce: _Reduce, values: Sequence[jax.Array], first: Sequence[int], second: Sequence[int]
) -> list[Any]:
    """Returns a reduction of arrays, the first of which is a sum.

    Returns:
        The sum; the sum of the magnitudes of the second stage, or None; the rest.
    """
    total, *others = reduce(values, first)
    if not second:
        return [total, None, *others]
    second = [d - sum(each < d for each in first) for d in second]
    # Without the seal, XLA would make one sum of both stages.
    parts = arithmetic.seal(total)
    return reduce([parts, lax.abs(parts), *others], second)


def may_be_in_doubt(results: Any, terms: Any, dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether one of several plain sums of random terms is likely in doubt.

    The bound of K terms is about K**2 u, and their sum about sqrt(K) of the terms, so one sum in
    2**(52 - p) K**-1.5 is within the bound of a tie, for p bits of a result.
    """
    if not isinstance(results, int) or not isinstance(terms, int):
        return False
    return bool(results * terms**1.5 > 2.0 ** (48 - jnp.finfo(dtype).nmant - 1))
