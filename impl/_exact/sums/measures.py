"""Measures of the terms of a sum, which any order combines, and what they decide.

=========  ==================================  ==================================
measure    of a term                           combination
=========  ==================================  ==================================
value      the term, float64                   sum
magnitude  its absolute value                  sum
depth      greater for a smaller exponent      maximum
=========  ==================================  ==================================

The magnitude of a sum whose terms were counted is the product of that count and of a power of two
above the greatest term, so that it needs a maximum of exponents alone.

The exponent of a term bounds the exponent g of its last bit. If all terms are multiples of 2**g,
and their absolute values add up to at most 2**(g + 53), then float64 adds them without error. Else
the error is at most n u / (1 - n u) times the magnitude for u = 2**-53, in each order of the n
additions (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section 4.2), and
``nearest.interval`` tests whether the bound decides::

    terms            3 * 2**20, 0.75, -2**20           1, 2**-24, 2**-80
    value            2097152.75                        1 + 2**-24, a tie of float32
    last bits        at least 2**-24                   at least 2**-103
    magnitude        4194304.75 < 2**29                1 + 2**-24 > 2**-50
    result           exact                             in doubt

A sum of two terms, and a sum of float16 that has 53 bits, needs no measure but the value. Values
and magnitudes of float64 are 2**64 times smaller than the terms, so that no finite sum overflows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.nearest.sums import log2_above

#: The greatest number of float16 that float64 adds without error: they have 40 bits together.
_FLOAT16 = 1 << 13
#: The bits of a float16 after its leading bit.
_FRACTION16 = 10
#: The greatest number of terms whose absolute values float32 adds with an error below 1 / 8.
_FLOAT32 = 1 << 20
#: A factor for the error of a sum of magnitudes.
_WIDER = 1.25
#: A bound of n u / (1 - n u), relative to n u, less 1, for up to 2**40 terms.
_HIGHER = 2.0**-12
#: The exponent of the factor of float64, and a magnitude that covers terms that it makes subnormal.
_SCALE, _LEAST = -64, 2.0**-900
#: The least exponent of a last bit for which the factor changes no bit of a term.
_KEEPS = -958


@dataclasses.dataclass(frozen=True)
class Measures:
    """The measures of sums.

    Attributes:
        dtype: The dtype of the results, and of the terms: float16, bfloat16, float32 or float64.
            The terms may also be float32.
        fraction: The bits of a term after its leading bit.
        count: The greatest number of terms of a sum, on all devices.
        counts: The numbers of terms of each sum, of a shape that broadcasts; None for no numbers.
        byte: Whether the depth of a term is a byte, if float32 holds the term. If not, it is int32.
    """

    dtype: jax.typing.DTypeLike
    fraction: int
    count: int
    counts: jax.Array | None = None
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
        is_short = jnp.dtype(self.dtype) == np.float16 and self.fraction == _FRACTION16
        return self.count <= 2 or (is_short and self.count <= _FLOAT16)

    @property
    def combinations(self) -> tuple[Literal["add", "max"], ...]:
        """How each measure is combined."""
        if self.is_plain:
            return ("add",)
        return ("add", "add" if self.counts is None else "max", "max")

    @property
    def functions(self) -> tuple[Callable[[jax.Array], jax.Array], ...]:
        """The functions that return each measure of terms."""
        return (self.value, self.magnitude, self.depth)[: len(self.combinations)]

    def value(self, terms: jax.Array) -> jax.Array:
        """Returns the values of terms."""
        value = self.widened(terms)
        if self.is_long and not self.is_plain:
            value = lax.mul(value, lax.full_like(value, 2.0**_SCALE))
        return value

    def magnitude(self, terms: jax.Array) -> jax.Array:
        """Returns the magnitudes of terms, or their exponents."""
        if self.counts is not None:
            return self._as_word(self.field(terms))
        is_enough = self.count <= _FLOAT32 and not self.is_long
        return lax.abs(arithmetic.at_least_float32(terms) if is_enough else self.value(terms))

    def depth(self, terms: jax.Array) -> jax.Array:
        """Returns the depths of terms: 0 for a zero, at least 1 for another term."""
        field = self.field(terms)
        depth = lax.sub(lax.full_like(field, self._deepest), field)
        none = lax.full_like(field, 0)
        return self._as_word(lax.select(lax.eq(field, none), none, depth))

    def terms(self, values: jax.Array) -> jax.Array:
        """Returns terms as float32, or as float64 with zeros for subnormal numbers."""
        if self.is_long:
            return arithmetic.flushed_float64(values)
        return arithmetic.at_least_float32(values)

    def widened(self, values: jax.Array) -> jax.Array:
        """Returns terms as float64, with zeros for subnormal numbers."""
        terms = self.terms(values)
        return terms if self.is_long else arithmetic.widen(terms)

    def field(self, terms: jax.Array) -> jax.Array:
        """Returns the exponent fields of floats."""
        word = np.int64 if self.is_long else np.int32
        raw = lax.bitcast_convert_type(arithmetic.at_least_float32(terms), word)
        field = lax.shift_right_logical(raw, lax.full_like(raw, 52 if self.is_long else 23))
        return lax.bitwise_and(field, lax.full_like(raw, self._deepest))

    def _as_word(self, value: jax.Array) -> jax.Array:
        is_byte = self.byte and not self.is_long
        return lax.convert_element_type(value, np.uint8 if is_byte else np.int32)

    @property
    def _deepest(self) -> int:
        """The greatest exponent field."""
        return 2047 if self.is_long else 255

    def span(self, measures: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
        """Returns two exponents for each sum, int32.

        Returns:
            The exponent of a power of two above the sum of magnitudes; the exponent of the last bit
            that a term may have.
        """
        _, _, depth = measures
        top = arithmetic.exponent_above(self._bound(measures))
        if self.is_long:
            top = lax.sub(top, lax.full_like(top, _SCALE))
        else:  # A sum of float32 magnitudes may be an infinity.
            top = lax.min(top, lax.full_like(top, 128 + log2_above(self.count)))
        bias = 1075 if self.is_long else 150
        bits = 52 if self.is_long else 23
        depth = lax.convert_element_type(depth, np.int32)
        greatest = lax.full_like(depth, self._deepest - bias + bits - self.fraction)
        return top, lax.sub(greatest, depth)

    def _bound(self, measures: Sequence[jax.Array]) -> jax.Array:
        """Returns an upper bound of the sum of absolute values, float64."""
        _, magnitude, _ = measures
        if self.counts is None:
            magnitude = lax.convert_element_type(magnitude, np.float64)
            if self.is_long:
                magnitude = lax.add(magnitude, lax.full_like(magnitude, _LEAST))
            return lax.mul(magnitude, lax.full_like(magnitude, _WIDER))
        # The exponent field of a float32 is the exponent of the power of two below, plus 127.
        field = lax.convert_element_type(magnitude, np.int32)
        power = arithmetic.power_of_two(lax.sub(field, lax.full_like(field, 126)))
        return lax.mul(power, self._counts(power))

    def _counts(self, like: jax.Array) -> jax.Array:
        """Returns the number of terms of each sum, as float64."""
        if self.counts is None:
            return lax.full_like(like, self.count)
        counts = lax.convert_element_type(self.counts, np.float64)
        return lax.broadcast_in_dim(counts, like.shape, tuple(range(counts.ndim)))

    def coded(self, measures: Sequence[jax.Array]) -> jax.Array:
        """Returns the results as words (``interval.rounded``), some of them in doubt."""
        value = measures[0]
        if self.is_plain:
            return interval.word_of(self.plain(value))
        top, last = self.span(measures)
        room = lax.sub(top, last)
        is_exact = lax.le(room, lax.full_like(room, 53))
        if self.is_long:
            keeps = lax.ge(last, lax.full_like(room, _KEEPS))
            is_exact = lax.bitwise_and(is_exact, keeps)
            is_decided = lax.bitwise_or(is_exact, lax.bitwise_not(lax.is_finite(value)))
            value = lax.mul(value, lax.full_like(value, 2.0**-_SCALE))
            word = interval.word_of(interval.positive_zero(arithmetic.flushed_float64(value)))
            return lax.select(is_decided, word, lax.full_like(word, interval.IN_DOUBT))
        bound = self._bound(measures)
        unit = lax.full_like(bound, interval.ROUNDING * (1 + _HIGHER))
        error = lax.mul(lax.mul(bound, unit), self._counts(bound))
        error = lax.select(is_exact, lax.full_like(error, 0), error)
        return interval.rounded(value, error, self.dtype)

    def plain(self, value: jax.Array) -> jax.Array:
        """Returns the results, if the value decides alone."""
        if self.is_long:
            value = arithmetic.flushed_float64(value)
        return interval.positive_zero(arithmetic.narrow(value, self.dtype))


def fraction_of(*dtypes: jax.typing.DTypeLike) -> int:
    """Returns the greatest number of bits that a float of some dtypes has after its leading bit."""
    return max(int(jnp.finfo(dtype).nmant) for dtype in dtypes)
