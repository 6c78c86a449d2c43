"""The exact sum of a few arrays, element by element, rounded once.

Derivatives need it: a value that a program uses five times has a derivative of five parts. The
result is the nearest float to the exact sum, and of two the even one, so it shows no order.

A float32 is exact in float64, but the sum of two is not. TwoSum gives the rounded sum of two
float64 and its error, without another error (Knuth, *The Art of Computer Programming* 2, section
4.2.2). Grow-Expansion applies it to each term and each component so far (Shewchuk 1997,
doi:10.1007/PL00009321): its components have no bit in common, and their sum is the exact sum. They
are added from the least on and rounded to odd, so that the last rounding, to the dtype of the
terms, is the only one that shows. Three terms need two components less (Boldo and Melquiond 2008,
doi:10.1109/TC.2007.70819). For example, terms of three decimal digits are added with six::

    term       components so far
    5.00e6     5.00000e6
    0.123      5.00000e6 and 0.123, the error of their sum
    -5.00e6    0 and 0.123
    0.00450    0.1275
    result     0.128, the even one of the two nearest with three digits

The steps grow with the square of the number of terms. So more than ``FEW`` terms are first split at
fixed powers of two, where sums of the parts are exact, as in a superaccumulator (Kulisch 2013,
*Computer Arithmetic and Validity*, chapter 8). Nothing here is a loop or a branch, so XLA fuses it.
More than ``MOST`` terms are one axis of an array, along which ``reduction`` adds.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import zero_below
from impl._exact import arithmetic
from impl._exact.sums import reduction
from impl._native import sums as native
from impl._native.scope import or_native

#: The most terms of up to 32 bits that are not split. XLA takes seconds to compile the steps of 8.
FEW = 6
#: The most terms that are added element by element, of up to 32 bits and of 64 bits.
MOST, MOST_DOUBLES = 32, 8
#: The units at which terms of up to 32 bits are split: each is below 2**128, and a multiple of
#: 2**-149. A part is at most 2**48 units, so that a float64 holds the sum of ``MOST`` parts.
_UNITS = tuple(2.0**exponent for exponent in (80, 32, -16, -64, -112, -160))

#: float64 in these bounds are added as they are. Greater ones are divided by 2**8, so that no step
#: overflows, and of lower ones the components would be subnormal, so they are multiplied.
_LOWEST, _GREATEST = 2.0**500, 2.0**1020
_UP, _DOWN = 2.0**200, 2.0**-8
#: Next to a term of _LOWEST or more, a lower term counts as zero: its bits could be subnormal.
_NEGLIGIBLE = 2.0**-900


@or_native(native.add)
def add(*terms: jax.Array) -> jax.Array:
    """Returns the exact sum of arrays, rounded once to the nearest float, ties to even.

    A sum is -0 if all terms are -0; any other sum of 0 is 0. Subnormal terms and results count as
    zero, except for float16. Of float64, a term that is 2**1400 times smaller than another counts
    as zero too. With an infinity or a NaN, the sum is the one of IEEE 754, which has no order.

    Args:
        *terms: float16, bfloat16, float32 or float64, at least two of one shape and dtype. Call
            the function inside ``arithmetic.wide()``.
    """
    dtype = terms[0].dtype
    if len(terms) > (MOST_DOUBLES if dtype == np.float64 else MOST):
        total = reduction.reduce_sum(lax.concatenate([*map(_as_row, terms)], 0), (0,))
    elif dtype == np.float64:
        total = _of_doubles(terms)
    else:
        wide = [arithmetic.widen(term) for term in terms]
        # All float16 are multiples of 2**-24 below 2**16, so a float64 holds their sum.
        whole = functools.reduce(lax.add, wide) if dtype == np.float16 else _rounded_to_odd(wide)
        total = arithmetic.narrow(_without_minus_zero(whole), dtype)
    are_minus_zeros = functools.reduce(lax.bitwise_and, map(_is_minus_zero, terms))
    return lax.select(are_minus_zeros, lax.full_like(total, -0.0), total)


def _as_row(term: jax.Array) -> jax.Array:
    return lax.expand_dims(term, (0,))


def _is_minus_zero(term: jax.Array) -> jax.Array:
    """Returns whether elements are -0, by their bits, also where a device keeps subnormals."""
    word = jnp.dtype(f"uint{8 * term.dtype.itemsize}")
    raw = lax.bitcast_convert_type(term, word)
    sign = 1 << (8 * term.dtype.itemsize - 1)
    # A float16 is never subnormal in float32, in which it is computed.
    least = 1 if term.dtype == np.float16 else int(np.array(jnp.finfo(term.dtype).tiny).view(word))
    return lax.lt(lax.bitwise_xor(raw, lax.full_like(raw, sign)), lax.full_like(raw, least))


def _without_minus_zero(value: jax.Array) -> jax.Array:
    zero = lax.full_like(value, 0)
    return lax.select(lax.eq(value, zero), zero, value)


class _Components(NamedTuple):
    """The exact sum of float64, as floats that have no bit in common.

    Attributes:
        last: The greatest one.
        rest: All components but the last, the least one first; there is at least one.
    """

    last: jax.Array
    rest: Sequence[jax.Array]

    @staticmethod
    def of(terms: Sequence[jax.Array]) -> _Components:
        """Returns the components of the sum of two terms or more."""
        last, rest = terms[0], list[jax.Array]()
        for term in terms[1:]:
            components, rest = [*rest, last], []
            last = term
            for component in components:
                last, error = arithmetic.two_sum(last, component)
                rest.append(error)
        return _Components(last, rest)

    @staticmethod
    def of_three(a: jax.Array, b: jax.Array, c: jax.Array) -> _Components:
        """Returns the sum of three terms as two floats, of which the smaller is rounded to odd."""
        high, low = arithmetic.two_sum(b, c)
        last, error = arithmetic.two_sum(a, high)
        return _Components(last, [arithmetic.add_to_odd(error, low)])

    @staticmethod
    def of_many(terms: Sequence[jax.Array]) -> _Components:
        """Returns the components of the sum of terms that are no greater than float32."""
        totals = list[jax.Array]()
        for unit in _UNITS:
            units, inverse = (lax.full_like(terms[0], each) for each in (unit, 1 / unit))
            counts = [arithmetic.nearest_integer(lax.mul(term, inverse)) for term in terms]
            totals.append(lax.mul(functools.reduce(lax.add, counts), units))
            pairs = zip(terms, counts, strict=True)
            terms = [lax.sub(term, lax.mul(count, units)) for term, count in pairs]
        return _Components.of(totals[::-1])

    def with_near_last(self) -> _Components:
        """Returns components whose last one is within one unit in the last place of the sum."""
        last, rest = self.rest[0], list[jax.Array]()
        for component in (*self.rest[1:], self.last):
            last, error = arithmetic.two_sum(component, last)
            rest.append(error)
        return _Components(last, rest)

    def rest_to_odd(self) -> jax.Array:
        """Returns the sum of all but the last, rounded to odd."""
        return functools.reduce(arithmetic.add_to_odd, self.rest)


def _rounded_to_odd(terms: Sequence[jax.Array]) -> jax.Array:
    """Returns the exact sum of float64, none of which is beyond float32, rounded to odd."""
    if len(terms) == 3:
        components = _Components.of_three(*terms)
    else:
        components = (_Components.of if len(terms) <= FEW else _Components.of_many)(terms)
    return _if_finite(terms, arithmetic.add_to_odd(components.last, components.rest_to_odd()))


def _if_finite(terms: Sequence[jax.Array], total: jax.Array) -> jax.Array:
    """Returns ``total``, or the sum of terms that are not all finite, whose order is irrelevant."""
    plain = functools.reduce(lax.add, terms)
    return lax.select(lax.is_finite(plain), total, plain)


def _of_doubles(terms: Sequence[jax.Array]) -> jax.Array:
    """Returns the exact sum of float64, rounded to nearest."""
    terms = [arithmetic.flushed_float64(term) for term in terms]
    greatest = functools.reduce(lax.max, map(lax.abs, terms))
    is_low = lax.lt(greatest, lax.full_like(greatest, _LOWEST))
    is_great = lax.ge(greatest, lax.full_like(greatest, _GREATEST))
    up, down, one = (lax.full_like(greatest, factor) for factor in (_UP, _DOWN, 1))
    factor = lax.select(is_low, up, lax.select(is_great, down, one))
    scaled = [
        lax.mul(lax.select(is_low, term, zero_below(term, _NEGLIGIBLE)), factor) for term in terms
    ]
    if len(scaled) == 3:
        components = _Components.of_three(*scaled)
    else:
        components = _Components.of(scaled).with_near_last()
    total = arithmetic.seal(lax.add(components.last, components.rest_to_odd()))
    total = _without_minus_zero(_if_finite(scaled, total))
    # Here a product of a power of two may be subnormal, which a CPU takes for zero.
    low = lax.mul(zero_below(total, _UP * 2.0**-1022), lax.full_like(total, 1 / _UP))
    great = lax.mul(total, lax.full_like(total, 1 / _DOWN))
    return arithmetic.seal(lax.select(is_low, low, lax.select(is_great, great, total)))
