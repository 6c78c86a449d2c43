"""Measures of the terms of a sum, which any order combines, and what they decide.

=========  ==================================  ==================================
measure    of a term                           combination
=========  ==================================  ==================================
value      the term, float64                   sum
magnitude  its absolute value                  sum
depth      greater for a lower last bit        maximum
=========  ==================================  ==================================

If all terms are multiples of 2**g, and their absolute values add up to less than 2**(g + 53), then
float64 adds them without error. Else the error is at most n u / (1 - n u) times the magnitude for
u = 2**-53, in whatever order n terms are added (Higham, *Accuracy and Stability of Numerical
Algorithms*, 2002, section 4.2), and ``nearest.interval`` tests whether the bound decides::

    terms            3 * 2**20, 0.75, -2**20           1, 2**-24, 2**-80
    value            2097152.75                        1 + 2**-24, a tie of float32
    last bit         2**-2                             2**-80
    magnitude        4194304.75 < 2**51                1 + 2**-24 > 2**-27
    result           exact                             in doubt

A sum of two terms, and a sum of float16 that has 53 bits, needs no measure but the value. Values and
magnitudes of float64 are 2**64 times smaller than the terms, so that no sum overflows that is finite.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.nearest.digits import Sums

#: The greatest number of float16 that float64 adds without error: they have 40 bits together.
_FLOAT16 = 1 << 13
#: The greatest number of terms whose absolute values float32 adds with an error below 1 / 8.
_FLOAT32 = 1 << 20
#: A factor for the error of a sum of magnitudes.
_WIDER = 1.25
#: The exponent of the factor of float64, and a magnitude that covers terms that it makes subnormal.
_SCALE, _LEAST = -64, 2.0**-900
#: The least exponent of a last bit for which the factor changes no bit of a term.
_KEEPS = -958


@dataclasses.dataclass(frozen=True)
class Measures:
    """The measures of sums.

    Attributes:
        dtype: The dtype of the results: float16, bfloat16, float32 or float64.
        count: The greatest number of terms of a sum, on all devices.
        byte: Whether the depth of a term is a byte, if float32 holds the term. If not, it is int32.
    """

    dtype: jax.typing.DTypeLike
    count: int
    byte: bool = False

    @property
    def is_long(self) -> bool:
        """Whether the terms are float64."""
        return jnp.dtype(self.dtype) == np.float64

    @property
    def is_plain(self) -> bool:
        """Whether the value alone, rounded once more, is the result.

        A rounded sum of two terms of at most 24 bits stays the nearest one if 53 bits round it
        first (Figueroa, *When is double rounding innocuous?*, 1995, doi:10.1145/221332.221334).
        """
        is_short = jnp.dtype(self.dtype) == np.float16 and self.count <= _FLOAT16
        return self.count <= 2 or is_short

    def of(self, terms: jax.Array) -> list[jax.Array]:
        """Returns the measures of terms: the value alone, if it suffices.

        Args:
            terms: float32 or float64.
        """
        value = self.widened(terms)
        if self.is_plain:
            return [value]
        if self.is_long:
            value = lax.mul(value, lax.full_like(value, 2.0**_SCALE))
            return [value, lax.abs(value), self._depth(terms)]
        wide = terms if self.count <= _FLOAT32 else value
        return [value, lax.abs(wide), self._depth(terms)]

    def widened(self, terms: jax.Array) -> jax.Array:
        """Returns terms as float64, with zeros for subnormal numbers."""
        return arithmetic.flushed_float64(terms) if self.is_long else arithmetic.widen(terms)

    def _depth(self, terms: jax.Array) -> jax.Array:
        """Returns the depth of the last bit of each term: 0 for a zero, at least 1 for other terms."""
        fraction = 52 if self.is_long else 23
        greatest = (1 << (63 - 52 if self.is_long else 31 - 23)) - 1
        raw = lax.bitcast_convert_type(terms, np.int64 if self.is_long else np.int32)
        one = lax.full_like(raw, 1)
        field = lax.shift_right_logical(raw, lax.full_like(raw, fraction))
        field = lax.bitwise_and(field, lax.full_like(raw, greatest))
        whole = lax.bitwise_or(raw, lax.full_like(raw, 1 << fraction))
        zeros = lax.sub(lax.bitwise_and(whole, lax.neg(whole)), one)
        # The last bit has the exponent of the field 1, plus its own number, less one.
        last = lax.add(field, lax.population_count(zeros))
        deepest = lax.full_like(last, self._deepest)
        depth = lax.sub(deepest, lax.min(last, deepest))
        none = lax.full_like(field, 0)
        depth = lax.select(lax.eq(field, none), none, depth)
        return lax.convert_element_type(depth, np.uint8 if self._is_byte else np.int32)

    @property
    def _is_byte(self) -> bool:
        return self.byte and not self.is_long

    @property
    def _deepest(self) -> int:
        """The number of a last bit that has the depth 0, as have the bits above it."""
        return 2100 if self.is_long else 255

    def sums(self, measures: Sequence[jax.Array]) -> Sums:
        """Returns what an exact sum needs to know."""
        _, magnitude, depth = measures
        magnitude = lax.convert_element_type(magnitude, np.float64)
        if self.is_long:
            magnitude = lax.add(magnitude, lax.full_like(magnitude, _LEAST))
        magnitude = lax.mul(magnitude, lax.full_like(magnitude, _WIDER))
        top = arithmetic.exponent_above(magnitude)
        depth = lax.convert_element_type(depth, np.int32)
        first = self._deepest - (1075 if self.is_long else 150)
        last = lax.sub(lax.full_like(depth, first), depth)
        if self.is_long:
            top = lax.sub(top, lax.full_like(top, _SCALE))
        return Sums(top, last, self.count, self.dtype)

    def coded(self, measures: Sequence[jax.Array]) -> jax.Array:
        """Returns the results as words (``interval.rounded``), in doubt where they are not decided."""
        value, magnitude, _ = measures
        sums = self.sums(measures)
        room = lax.sub(sums.top, sums.last)
        is_exact = lax.le(room, lax.full_like(room, 53))
        if self.is_long:
            keeps = lax.ge(sums.last, lax.full_like(room, _KEEPS))
            is_exact = lax.bitwise_and(is_exact, keeps)
            is_decided = lax.bitwise_or(is_exact, lax.bitwise_not(lax.is_finite(value)))
            value = lax.mul(value, lax.full_like(value, 2.0**-_SCALE))
            word = interval.word_of(interval.positive_zero(arithmetic.flushed_float64(value)))
            return lax.select(is_decided, word, lax.full_like(word, interval.IN_DOUBT))
        magnitude = lax.convert_element_type(magnitude, np.float64)
        error = lax.mul(magnitude, lax.full_like(magnitude, self._relative_error))
        return interval.rounded(
            value, lax.select(is_exact, lax.full_like(error, 0), error), self.dtype
        )

    @property
    def _relative_error(self) -> float:
        """The bound of the error of a value, relative to the magnitude."""
        bound = self.count * interval.ROUNDING
        return _WIDER * bound / (1 - bound)

    def plain(self, value: jax.Array) -> jax.Array:
        """Returns the results, if the value decides alone."""
        if self.is_long:
            value = arithmetic.flushed_float64(value)
        return interval.positive_zero(arithmetic.narrow(value, self.dtype))
