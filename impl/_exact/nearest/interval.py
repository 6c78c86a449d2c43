"""The rounding test: whether an approximate sum decides how the exact sum is rounded.

An approximation v and a bound e say that the exact value lies between v - e and v + e. Rounding is
monotonic, so if both ends round to one number, the exact value does too (Ziv 1991,
doi:10.1145/114697.116813)::

    v, e                                   1 + 2**-25, 2**-50        to float32
    both ends                              1 and 1                   so the result is 1
    v, e                                   1 + 2**-24, 2**-50        halfway between two float32
    both ends                              1 and 1 + 2**-23          in doubt

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
import numpy as np
from jax import lax

from impl._exact import arithmetic

#: A bound of a rounding error of float64, relative to the rounded value.
ROUNDING = 2.0**-53
#: The word of an element in doubt: a NaN all of whose bits are 1, which ``word_of`` never returns.
IN_DOUBT = -1


def of_chain(length: int) -> float:
    """Returns n u / (1 - n u), the bound of the error of sums relative to their magnitudes.

    n is the greatest number of roundings that a term goes through (Higham 2002, 4.2).
    """
    relative = length * ROUNDING
    return relative / (1 - relative)


def rounded(value: jax.Array, error: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the bits of rounded values, each zero as +0, or ``IN_DOUBT`` where in doubt.

    An infinity or a NaN is a result, and not in doubt.

    Args:
        value: Approximations, float64.
        error: Bounds of their errors, float64, of the same shape. The computation of a bound may
            itself have a relative error of 2**-11. A bound of 0 says that the value is exact.
        dtype: The dtype of the result: float16, bfloat16, float32 or float64.

    Returns:
        Integers of the size of ``dtype``.
    """
    zero = lax.full_like(value, 0)
    # The ends are rounded too, by half of a last place of the value.
    wider = lax.add(
        lax.mul(error, lax.full_like(error, 1 + 2.0**-10)),
        lax.mul(lax.abs(value), lax.full_like(value, 2 * ROUNDING)),
    )
    is_exact = lax.bitwise_or(lax.eq(error, zero), lax.bitwise_not(lax.is_finite(value)))
    wider = lax.select(is_exact, zero, wider)
    ends = lax.sub(value, wider), lax.add(value, wider)
    low, high = (arithmetic.narrow_sum(each, dtype) for each in ends)
    raw = word_of(positive_zero(low))
    return lax.select(lax.lt(low, high), lax.full_like(raw, IN_DOUBT), raw)


def word_of(value: jax.Array) -> jax.Array:
    """Returns the bits of floats, as integers of their size; of each NaN, the same ones."""
    word = word_type(value.dtype)
    nan = lax.full_like(value, np.nan)
    value = lax.select(lax.ne(value, value), nan, value)
    return lax.bitcast_convert_type(value, word)


def word_type(dtype: jax.typing.DTypeLike) -> np.dtype[np.generic]:
    """Returns the dtype of integers of the size of a dtype."""
    return np.dtype(f"int{8 * np.dtype(dtype).itemsize}")


def is_doubt(words: jax.Array) -> jax.Array:
    """Returns where words (``rounded``) are not decided."""
    return lax.eq(words, lax.full_like(words, IN_DOUBT))


def positive_zero(value: jax.Array) -> jax.Array:
    """Returns floats with +0 for -0."""
    zero = lax.full_like(value, 0)
    return lax.select(lax.eq(value, zero), zero, value)


#: The greatest number of devices over which XLA is likely to cut an axis.
_DEVICES = 8


@dataclasses.dataclass(frozen=True)
class Stages:
    """Two stages of a sum over axes.

    Attributes:
        number: The number of axes that the second stage adds whole.
        parts: The number of parts of the next axis, which the second stage adds too.
        second: The number of terms of the second stage.
    """

    number: int
    parts: int
    second: int

    @classmethod
    def of(cls, sizes: Sequence[Any], most: float = math.inf) -> Stages | None:
        """Returns the stages with the shortest chain of additions; None if one is about as good.

        Args:
            sizes: The sizes of the axes to add. A symbolic size (jax.export) has one stage.
            most: The greatest number of terms of the second stage.
        """
        if not all(isinstance(size, int) for size in sizes):
            return None
        terms, before = math.prod(sizes), 1
        found: list[tuple[int, Stages]] = []
        for number, size in enumerate(sizes):
            for parts in divisors(size):
                second = before * parts
                # XLA keeps the shards of an axis if each device has whole parts.
                is_cut = parts % _DEVICES != 0 and _DEVICES % parts != 0
                if second <= most:
                    chain = (terms // second + second) * (2 if is_cut else 1)
                    found.append((chain, cls(number, parts, second)))
            before *= size
        chain, stages = min(found, key=lambda each: each[0])
        return stages if 4 * chain <= terms else None

    def split(
        self, value: jax.Array, axes: Sequence[int], batch: Sequence[int]
    ) -> tuple[jax.Array, list[int], list[int]]:
        """Returns an array with two axes for the one whose parts the second stage adds.

        Args:
            value: Any array.
            axes: The axes to add, in the order of their sizes.
            batch: Other axes.

        Returns:
            The array; the axes that the first stage adds; those that the second stage adds, and
            the other axes.
        """
        at, shape = axes[self.number], value.shape
        parts = (self.parts, shape[at] // self.parts)
        first = [at + 1, *(d + (d > at) for d in axes[self.number + 1 :])]
        second = [d + (d > at) for d in (*axes[: self.number + 1], *batch)]
        return lax.reshape(value, (*shape[:at], *parts, *shape[at + 1 :])), first, second


def divisors(number: int) -> list[int]:
    """Returns the divisors of a positive number, in ascending order."""
    lower = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*lower, *(number // each for each in lower)})
