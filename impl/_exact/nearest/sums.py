"""Sums of many terms in the order ``nearest``: along axes, running, over windows and devices.

A *line* is a set of terms that have a unit in common, such as the terms of one sum. First, the
terms are added in float64, in any order. Of each line, the greatest and the least magnitude say
how far the result may be off:

- All terms are multiples of g, the last place of the least term, and no sum of terms exceeds S, the
  number of terms times the greatest one. If S is at most 2**53 g, float64 adds without error.
- Otherwise the error is at most d u S for u = 2**-53, to first order in u, if no term goes through
  more than d additions (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section
  4.2). In any order, K terms go through K - 1 at most. Of two ``stages``, each has an error of its
  own, with chains of fewer additions.

The first case is the usual one. It decides ties, which a bound cannot: of sums of a few float32,
one in ten is halfway between two float32. ``nearest.interval`` tests whether the bound decides the
rounding. If an element is left in doubt, a loop adds all terms again, in parts that float64 adds
exactly: multiples of one unit, then of one some 2**40 times finer, and so on (the extraction of
Rump, Ogita and Oishi 2008, AccSum, doi:10.1137/050645671)::

    terms, float32       2**60, 1, -2**-40, -2**60     S = 2**62, g = 2**-63, so float64 may err
    plain sum            0                             in doubt, since the bound is 2**11
    multiples of 2**13   2**60, 0, 0, -2**60           sum 0
    of 2**-36            0, 1, 0, 0                    sum 1
    of 2**-85            0, 0, -2**-40, 0              sum 1 - 2**-40, and no term has a rest

A part of a term is the difference of two of its roundings, so the loop reads the terms and writes
none. Two float64, ``high`` and ``low``, hold the sum of the parts so far. The loop ends when no
term has a rest. Rounding to odd needs ``high`` and the sign of ``low`` alone (Boldo and Melquiond
2008, doi:10.1109/TC.2007.70819).

*Exactness.* Let K be at most 2**c, u the unit of a step, and v = 2**(51 - c) u the unit before. A
rest of the step before is at most v / 2, so the sum P of the parts is at most K (v + u) / 2, less
than 2**51 u. ``low`` is a multiple of u. So ``low + P`` is exact, unless ``low`` exceeds 2**52 u.
Such a ``low`` is greater than all later parts together: no error changes its sign. The sum of
``high`` and ``low`` is exact by TwoSum (Knuth, *The Art of Computer Programming* 2, section 4.2.2).

*Cost.* On one device, ``reductions`` computes the sum and both magnitudes along axes by one
reduction. Where XLA partitions the axes, a CPU reduces by XLA's library YNN. It takes a product, a
maximum and a sign with the reduction, but neither a comparison nor a choice, for which XLA would
compile and store much more.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import fence, in_any_order
from impl._core.shard_axes import vary_like
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.nearest.reductions import greatest_of_all

#: A function of one array.
_Function = Callable[[jax.Array], jax.Array]
#: The bits that a float64 has for a sum of parts, less two for ``low``.
BITS = 51


def _same(value: jax.Array) -> jax.Array:
    return value


class Measured(NamedTuple):
    """Plain sums, and the measures of their terms.

    Attributes:
        value: The sums, float64.
        top: The greatest exponent field of the float32 of each line, int32.
        last: All terms of a line are multiples of 2**(last - 126); int32.
        magnitudes: Of several ``stages``, the sums of the magnitudes that later ones add; None for
            one stage.
    """

    value: jax.Array
    top: jax.Array
    last: jax.Array
    magnitudes: jax.Array | None = None


@dataclasses.dataclass(frozen=True)
class Sums:
    """How an operation adds its terms.

    Attributes:
        count: The greatest number of terms of a sum; a symbolic size of jax.export, too.
        add: Returns the sums of float64 terms.
        greatest: Returns the greatest of the magnitudes of each line, float32.
        least: Returns the least of the magnitudes of each line, float32.
        to_sums: Broadcasts a value of each line to its sums.
        over_devices: Returns the greatest of the values of all devices that share a loop; None for
            one device.
        chains: The longest chains of additions of the first stage and of later ones; None for one
            stage.
        in_stages: Returns the sums of float64 terms, and the magnitudes that ``Measured`` has; None
            for ``add``.
        at_once: Returns the sums of float32 terms and their measures; None if they cannot be
            computed together.
    """

    count: Any
    add: _Function
    greatest: _Function
    least: _Function
    to_sums: _Function = _same
    over_devices: _Function | None = None
    chains: tuple[int, int] | None = None
    in_stages: Callable[[jax.Array], tuple[jax.Array, jax.Array | None]] | None = None
    at_once: Callable[[jax.Array], Measured] | None = None

    def measured(self, terms: jax.Array, precision: int) -> Measured:
        """Returns the sums of float32 terms, and their measures.

        Args:
            terms: float32.
            precision: The number of bits of a term.
        """
        if self.at_once is not None:
            return self.at_once(terms)
        wide = arithmetic.widen(terms)
        value, magnitudes = (
            (self.add(wide), None) if self.in_stages is None else self.in_stages(wide)
        )
        # Without the fences, XLA would merge them with the maximum of all, and store magnitudes.
        greatest = fence(self.greatest(lax.abs(terms)))
        least = fence(self.least(or_huge(terms)))
        # A NaN may hide a lesser term.
        least = lax.select(lax.eq(least, least), least, lax.full_like(least, 0))
        last = _field(least)
        last = lax.sub(last, lax.full_like(last, precision))
        return Measured(value, _field(greatest), last, magnitudes)

    def error(self, above: jax.Array, magnitudes: jax.Array | None) -> jax.Array:
        """Returns a bound of the errors of the plain sums, to first order.

        Args:
            above: Bounds of the sums of all magnitudes, float64.
            magnitudes: As of ``Measured``.
        """
        if self.chains is None or magnitudes is None:
            return _times(above, interval.ROUNDING * _at_most(self.count))
        first, second = self.chains
        of_first = _times(above, interval.ROUNDING * first)
        return lax.add(of_first, _times(magnitudes, interval.ROUNDING * second))

    def greatest_of_all(self, *values: jax.Array) -> list[jax.Array]:
        """Returns the greatest of integers of each array, on all devices that share a loop."""
        found = greatest_of_all(*values)
        if self.over_devices is None:
            return found
        stacked = self.over_devices(lax.concatenate([lax.reshape(x, (1,)) for x in found], 0))
        return [lax.index_in_dim(stacked, i, keepdims=False) for i in range(len(values))]


def rounded_sums(terms: jax.Array, dtype: jax.typing.DTypeLike, sums: Sums) -> jax.Array:
    """Returns sums rounded once. A sum of zero is +0.

    Args:
        terms: float16, bfloat16 or float32.
        dtype: The dtype of the result: float16, bfloat16 or float32.
        sums: How they are added.
    """
    precision = jnp.finfo(terms.dtype).nmant + 1
    terms = fence(lax.convert_element_type(terms, np.float32))
    with in_any_order():
        found = sums.measured(terms, precision)
    above, grid = _times(_power(found.top), _at_most(sums.count)), _power(found.last)
    is_exact = lax.le(_times(above, interval.ROUNDING), grid)
    bound = sums.error(above, found.magnitudes)
    error = sums.to_sums(lax.select(is_exact, lax.full_like(bound, 0), bound))
    coded = interval.rounded(found.value, error, dtype)
    is_doubt = interval.is_doubt(coded)
    # Without doubt, the first unit is 0, and the loop takes no step.
    has_doubt, top, depth = sums.greatest_of_all(
        lax.convert_element_type(is_doubt, np.int32), found.top, lax.neg(found.last)
    )
    first = _times(_power(top), 2)
    first = lax.select(lax.gt(has_doubt, np.int32(0)), first, lax.full_like(first, 0))
    last = _power(lax.neg(depth))
    zero = vary_like(lax.full(found.value.shape, 0, np.float64), found.value)
    odd = exact(lambda part: sums.add(part(terms)), sums.count, first, last, zero)
    words = interval.word_of(interval.positive_zero(arithmetic.narrow(odd, dtype)))
    return lax.bitcast_convert_type(lax.select(is_doubt, words, coded), dtype)


def exact(
    add: Callable[[_Function], jax.Array],
    count: Any,
    first: jax.Array,
    last: jax.Array,
    zero: jax.Array,
    *,
    keeps_special: bool = False,
) -> jax.Array:
    """Returns the exact sums rounded to odd, float64.

    Args:
        add: Takes a function from terms of float32 to their parts, float64, and returns the sums of
            all parts.
        count: The greatest number of terms of a sum; a symbolic size of jax.export, too.
        first: A power of two above twice all magnitudes.
        last: A power of two of which all terms are multiples.
        zero: Zeros of the shape of the sums, float64.
        keeps_special: Whether an infinity is a part of itself. Otherwise its sum is NaN, and XLA
            for a CPU may leave the terms to its library, which takes no choice.
    """
    finer = 2.0 ** (BITS - log2_above(count))

    def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        unit, pairs = state

        def part(terms: jax.Array) -> jax.Array:
            # Without the fence, XLA would widen the terms before the loop.
            scaled, before = fence((terms, arithmetic.reciprocal(unit)))
            scaled = lax.mul(arithmetic.widen(scaled), full(before, scaled))
            coarse = arithmetic.nearest_integer(scaled)
            fine = arithmetic.nearest_integer(lax.mul(scaled, lax.full_like(scaled, finer)))
            parts = lax.sub(fine, lax.mul(coarse, lax.full_like(scaled, finer)))
            return lax.select(lax.is_finite(scaled), parts, scaled) if keeps_special else parts

        fine = lax.mul(unit, lax.full_like(unit, 1 / finer))
        total = lax.mul(arithmetic.seal(add(part)), full(fine, zero))
        high, low = lax.real(pairs), lax.imag(pairs)
        # XLA for a CPU writes each array of a state in a kernel of its own: here one.
        high, low = arithmetic.two_sum(high, lax.add(low, total))
        return fine, lax.complex(high, arithmetic.finite_or_zero(low))

    start = (first, lax.complex(zero, zero))
    with in_any_order():
        _, pairs = lax.while_loop(lambda state: lax.gt(state[0], last), step, start)
    return arithmetic.to_odd(lax.real(pairs), lax.imag(pairs))


def or_huge(terms: jax.Array) -> jax.Array:
    """Returns magnitudes, with a huge one for each 0."""
    sign = lax.sign(terms)
    is_zero = lax.sub(lax.full_like(sign, 1), lax.mul(sign, sign))
    huge = lax.full_like(sign, float(np.finfo(terms.dtype).max))
    return lax.add(lax.mul(sign, terms), lax.mul(is_zero, huge))


def full(value: jax.Array, like: jax.Array) -> jax.Array:
    """Returns a scalar, broadcast to the shape of an array."""
    return lax.broadcast_in_dim(value, like.shape, ())


def _field(magnitude: jax.Array) -> jax.Array:
    """Returns the exponent field of each float32, int32."""
    raw = lax.bitcast_convert_type(lax.abs(magnitude), np.int32)
    return lax.shift_right_logical(raw, lax.full_like(raw, 23))


def _times(value: jax.Array, factor: float) -> jax.Array:
    return lax.mul(value, lax.full_like(value, factor))


def _power(field: jax.Array) -> jax.Array:
    """Returns 2**(field - 126), float64: a power of two above a float32 of an exponent field."""
    return arithmetic.power_of_two(lax.sub(field, lax.full_like(field, 126)))


def _at_most(count: Any) -> float:
    """Returns a number of terms, or a bound of a symbolic one."""
    return float(count) if isinstance(count, int) else 2.0 ** log2_above(count)


def log2_above(count: Any) -> int:
    """Returns the binary logarithm of a power of two that is not below a number of terms."""
    if isinstance(count, int):
        return math.ceil(math.log2(max(count, 1)))
    # A symbolic size has bounds at most.
    return 23 if count <= 1 << 23 else 40
