"""Measures of the terms of a sum, which a kernel combines in any order, and what they decide.

=========  ====================================  ============
measure    of a term                             combination
=========  ====================================  ============
value      the term, float64                     sum
greatest   its exponent field                    maximum
depth      greater for a smaller exponent field  maximum
=========  ====================================  ============

The sum of n terms has a magnitude of at most n times a power of two above the greatest term. All
terms are multiples of the last bit 2**g that the least exponent allows. If the magnitude is at most
2**(g + 53), float64 adds the terms without error. Else the error is at most n u / (1 - n u) times
the magnitude for u = 2**-53, in each order of the n additions (Higham, *Accuracy and Stability of
Numerical Algorithms*, 2002, section 4.2), and ``nearest.interval`` tests whether the bound
decides::

    terms            3 * 2**20, 0.75, -2**20           1, 2**-24, 2**-80
    value            2097152.75                        1 + 2**-24, a tie of float32
    last bits        at least 2**-24                   at least 2**-103
    magnitude        3 * 2**22 < 2**29                 6 > 2**-50
    result           exact                             in doubt
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest import interval

#: How each measure is combined.
COMBINATIONS: tuple[Literal["add", "max"], ...] = ("add", "max", "max")
#: The greatest exponent field of a float32.
_DEEPEST = 255
#: A bound of n u / (1 - n u), relative to n u, less 1, for up to 2**40 terms.
_HIGHER = 2.0**-12


@dataclasses.dataclass(frozen=True)
class Measures:
    """The measures of sums.

    Attributes:
        dtype: The dtype of the results: float16, bfloat16 or float32.
        fraction: The bits of a term after its leading bit.
    """

    dtype: jax.typing.DTypeLike
    fraction: int

    def of(self, terms: jax.Array) -> tuple[jax.Array, ...]:
        """Returns the measures of terms: of 0, the numbers that change no measure.

        Args:
            terms: Floats of the dtype of the results, or float32.
        """
        terms = arithmetic.at_least_float32(terms)
        raw = lax.bitcast_convert_type(terms, np.int32)
        field = lax.shift_right_logical(raw, lax.full_like(raw, 23))
        field = lax.bitwise_and(field, lax.full_like(raw, _DEEPEST))
        depth, none = lax.sub(lax.full_like(field, _DEEPEST), field), lax.full_like(field, 0)
        depth = lax.select(lax.eq(field, none), none, depth)
        return arithmetic.widen(terms), field, depth

    def coded(self, measures: Sequence[jax.Array], counts: jax.Array) -> jax.Array:
        """Returns the results as words (``interval.rounded``), some of them in doubt.

        Args:
            measures: Of sums.
            counts: The number of terms of each sum, of a shape that broadcasts.
        """
        value, greatest, depth = measures
        # The exponent field of a float32 is the exponent of the power of two below, plus 127.
        power = arithmetic.power_of_two(lax.sub(greatest, lax.full_like(greatest, 126)))
        counts = lax.convert_element_type(counts, np.float64)
        counts = lax.broadcast_in_dim(counts, power.shape, tuple(range(counts.ndim)))
        bound = lax.mul(power, counts)
        last = lax.sub(lax.full_like(depth, _DEEPEST - 127 - self.fraction), depth)
        room = lax.sub(arithmetic.exponent_above(bound), last)
        is_exact = lax.le(room, lax.full_like(room, 53))
        unit = lax.full_like(bound, interval.ROUNDING * (1 + _HIGHER))
        error = lax.mul(lax.mul(bound, unit), counts)
        error = lax.select(is_exact, lax.full_like(error, 0), error)
        return interval.rounded(value, error, self.dtype)


def fraction_of(*dtypes: jax.typing.DTypeLike) -> int:
    """Returns the greatest number of bits that a float of some dtypes has after its leading bit."""
    return max(int(jnp.finfo(dtype).nmant) for dtype in dtypes)
