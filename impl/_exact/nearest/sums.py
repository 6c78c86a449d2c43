"""Sums of many terms in the spec's order ``nearest``: along axes, running, over windows and devices.

A *line* is a set of terms that have a unit in common, such as the terms of one sum. First, the
terms are added in float64, in any order. Of each line, the greatest and the least magnitude say
how far the result may be off:

- All terms are multiples of g, the last place of the least term, and no sum of terms exceeds S, the
  number of terms times the greatest one. If S is at most 2**53 g, float64 adds without error.
- Otherwise the error of a sum of K terms is at most (K - 1) u S for u = 2**-53, whatever the order
  is, to first order in u (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section
  4.2).

The first case is the usual one. It decides ties, which a bound cannot: of sums of a few float32,
one in ten is halfway between two float32. ``nearest.interval`` tests whether the bound decides the
rounding. If an element is left in doubt, a loop adds all terms again, in parts that float64 adds
exactly: multiples of one unit, then of one some 2**40 times finer, and so on (the extraction of
Rump, Ogita and Oishi 2008, AccSum, doi:10.1137/050645671)::

    terms, float32       2**60, 1, -2**-40, -2**60     S = 2**62, g = 2**-63, so float64 may err
    plain sum            0                             in doubt, since the bound is 2**9
    multiples of 2**12   2**60, 0, 0, -2**60           sum 0
    of 2**-37            0, 1, 0, 0                    sum 1
    of 2**-86            0, 0, -2**-40, 0              sum 1 - 2**-40, and no term has a rest

A part of a term is the difference of two of its roundings, so the loop reads the terms and writes
none. Two float64, ``high`` and ``low``, hold the exact sum of the parts so far. An element ends
when no term has a rest, or when the rests cannot change the sign of ``low``: rounding to odd needs
``high`` and that sign alone (``nearest.exact_sum``).

*Exactness.* Let K be at most 2**c, u the unit of a step and v = 2**(51 - c) u the one before. A
rest of the step before is at most v / 2, so the sum of the parts is at most K (v + u) / 2 < 2**51 u.
An element that goes on has abs(low) <= K v <= 2**51 u. ``low`` is a multiple of u, so adding the
sum to it is exact. In the first step, S is at most 2**50 u, and ``low`` is 0.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import fence
from impl._core.shard_axes import vary_like
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.nearest.exact_sum import to_odd, two_sum

#: A function of one array.
_Function = Callable[[jax.Array], jax.Array]
#: The bits that a float64 has for a sum of parts, less two for ``low``.
_BITS = 51


def _same(value: jax.Array) -> jax.Array:
    return value


def _any(flags: jax.Array) -> jax.Array:
    return lax.reduce_or(flags, tuple(range(flags.ndim)))


@dataclasses.dataclass(frozen=True)
class Sums:
    """How an operation adds its terms.

    Attributes:
        count: The greatest number of terms of a sum; a symbolic size of jax.export, too.
        add: Returns the sums of float64 terms.
        greatest: Returns the greatest of the magnitudes of each line.
        least: Returns the least of the magnitudes of each line.
        to_sums: Broadcasts a value of each line to its sums.
        is_any: Returns whether a flag of a sum is set, on any device that shares sums with this one.
    """

    count: Any
    add: _Function
    greatest: _Function
    least: _Function
    to_sums: _Function = _same
    is_any: _Function = _any


def rounded_sums(terms: jax.Array, dtype: jax.typing.DTypeLike, sums: Sums) -> jax.Array:
    """Returns sums rounded once. A sum of zero is +0.

    Args:
        terms: float16, bfloat16 or float32.
        dtype: The dtype of the result: float16, bfloat16 or float32.
        sums: How they are added.
    """
    more = _log2_above(sums.count)
    precision = jnp.finfo(terms.dtype).nmant + 1
    terms = lax.convert_element_type(terms, np.float32)
    value = sums.add(arithmetic.widen(terms))
    magnitude = lax.abs(terms)
    is_zero = lax.eq(magnitude, lax.full_like(magnitude, 0))
    is_term = lax.bitwise_and(lax.is_finite(terms), lax.bitwise_not(is_zero))
    above = _exponent_above(sums.greatest(magnitude), more)
    least = sums.least(lax.select(is_term, magnitude, lax.full_like(magnitude, np.inf)))
    grid = _exponent_above(least, -precision)
    bound = arithmetic.power_of_two(lax.add(above, lax.full_like(above, more - 53)))
    is_exact = lax.le(lax.sub(above, grid), lax.full_like(above, 53))
    error = sums.to_sums(lax.select(is_exact, lax.full_like(bound, 0), bound))
    coded = interval.rounded(value, error, dtype)
    is_doubt = lax.eq(coded, lax.full_like(coded, interval.in_doubt(coded.dtype)))
    lines = tuple(range(above.ndim))
    above, grid = lax.reduce_max(above, lines), lax.reduce_min(grid, lines)
    exact = _exact(terms, is_doubt, above, grid, sums)
    words = interval.word_of(interval.positive_zero(arithmetic.narrow(exact, dtype)))
    return lax.bitcast_convert_type(lax.select(is_doubt, words, coded), dtype)


def _exact(
    terms: jax.Array, is_doubt: jax.Array, above: jax.Array, grid: jax.Array, sums: Sums
) -> jax.Array:
    """Returns the exact sums rounded to odd, float64, where ``is_doubt`` holds.

    Args:
        terms: float32.
        is_doubt: The sums in doubt.
        above: The exponent of a power of two above all sums of magnitudes.
        grid: The exponent of a power of two of which all terms are multiples.
        sums: How the terms are added.
    """
    more = _log2_above(sums.count)
    finer = 2.0 ** (_BITS - more)
    last = arithmetic.power_of_two(grid)

    def step(state: _State) -> _State:
        is_open, unit, high, low = state
        # Without the fence, XLA would widen the terms before the loop.
        fenced, unit = fence((terms, unit))
        scaled = lax.mul(arithmetic.widen(fenced), _full(arithmetic.reciprocal(unit), fenced))
        coarse = arithmetic.nearest_integer(lax.mul(scaled, lax.full_like(scaled, 1 / finer)))
        parts = lax.sub(
            arithmetic.nearest_integer(scaled), lax.mul(coarse, lax.full_like(scaled, finer))
        )
        total = lax.mul(sums.add(parts), _full(unit, low))
        # A sum that ended stays as it is.
        total = lax.select(is_open, total, lax.full_like(total, 0))
        high, low = two_sum(high, lax.add(low, total))
        # The sum of the rests is at most half of it; without rests it is below every ``low``.
        reach = lax.mul(unit, lax.full_like(unit, 2.0**more))
        reach = lax.select(lax.gt(unit, last), reach, lax.neg(unit))
        goes_on = lax.le(lax.abs(low), _full(reach, low))
        return (
            lax.bitwise_and(is_open, goes_on),
            lax.mul(unit, lax.full_like(unit, 1 / finer)),
            high,
            low,
        )

    zero = vary_like(lax.full(is_doubt.shape, 0, np.float64), is_doubt)
    # No term has a part of the unit before, which exceeds twice each of them.
    first = lax.add(above, lax.full_like(above, 1 + more - _BITS))
    state = (is_doubt, arithmetic.power_of_two(first), zero, zero)
    *_, high, low = lax.while_loop(lambda state: sums.is_any(state[0]), step, state)
    return to_odd(high, low)


#: The open sums, the unit of a step, and ``high`` and ``low``.
_State = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def _full(value: jax.Array, like: jax.Array) -> jax.Array:
    """Returns a scalar, broadcast to the shape of an array."""
    return lax.broadcast_in_dim(value, like.shape, ())


def _exponent_above(magnitude: jax.Array, more: int) -> jax.Array:
    """Returns ``more`` plus the exponent of the power of two above each float32, int32."""
    raw = lax.bitcast_convert_type(magnitude, np.int32)
    biased = lax.shift_right_logical(raw, lax.full_like(raw, 23))
    return lax.add(biased, lax.full_like(biased, more - 126))


def _log2_above(count: Any) -> int:
    """Returns the binary logarithm of a power of two that is not below a number of terms."""
    if isinstance(count, int):
        return math.ceil(math.log2(max(count, 1)))
    # A symbolic size has bounds at most.
    return 23 if count <= 1 << 23 else 40
