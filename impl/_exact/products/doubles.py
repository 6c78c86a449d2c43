"""Products of float64 in the order ``nearest``.

The product of two float64 has 106 bits. So both factors are cut into *slices*, integers of few
bits in one unit for each row and for each column, whose products float64 adds without error, in
any order (Ozaki, Ogita, Oishi and Rump 2012, doi:10.1007/s11075-011-9478-1). For two slices::

    rows    = a0 + a1 + a2              columns = b0 + b1 + b2
    a0 b0                               exact
    a0 b1 + a1 b0                       exact
    a0 b2 + a1 (b1 + b2) + a2 columns   small, with the error of a product of float64

A slice has few enough bits that a sum of all terms of the second line has at most 53. The error of
the third line leaves a few elements in doubt, among them all ties, and those are added exactly,
as products of the halves of their factors (``exact_sum.Scaled``).

Rows and columns are scaled by powers of two, so nothing overflows or underflows. The part of a
factor that is lost is below the bound of the error by many bits. A result without a term that is
not zero has no error: masks make many of those.

An infinity or a NaN is in the third line alone, where each zero is a zero of the factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import in_any_order
from impl._exact import arithmetic
from impl._exact.nearest import exact_sum, interval, repair
from impl._exact.products.layout import Layout
from impl._jax.shardings import cut_as_the_operands

#: Of the products of slices, by which an engine knows that they make no error. All precisions of
#: float64 are one.
PRECISION = lax.Precision.HIGH
#: The most terms of two slices, as a power of two; more terms have slices of fewer bits, and three.
_TWO = 13
#: Less than any bound of an error, relative to the greatest element, and still less.
_TINY, _LEAST = 2.0**-300, 2.0**-500


def dot_general(lhs: jax.Array, rhs: jax.Array, layout: Layout, dtype: np.dtype[Any]) -> jax.Array:
    """Returns a product of float64, rounded once to a dtype, as ``dot_general.dot_general``."""
    lhs, rhs = arithmetic.flushed_float64(lhs), arithmetic.flushed_float64(rhs)
    with in_any_order():
        coded = _coded(lhs, rhs, layout, dtype)

    def terms(position: jax.Array) -> exact_sum.Scaled:
        return exact_sum.Scaled.products(*layout.lines(lhs, rhs, position))

    return repair.repaired_sums(coded, dtype, 4 * layout.local_terms, terms, layout.devices)


class _Sliced(NamedTuple):
    """A factor, scaled by a power of two for each line.

    Attributes:
        slices: The slices.
        rests: The rests before each slice, and the last one. An infinity or a NaN is 1 or -1.
        special: Infinities and NaNs, and zeros elsewhere.
        exponent: The exponents of the unit of the first slice, int32, without contracted axes.
    """

    slices: Sequence[jax.Array]
    rests: Sequence[jax.Array]
    special: jax.Array
    exponent: jax.Array

    @classmethod
    def of(
        cls,
        value: jax.Array,
        axes: Sequence[int],
        bits: int,
        count: int,
        most: Callable[[jax.Array], jax.Array],
    ) -> _Sliced:
        """Cuts a factor into ``count`` slices; ``most`` is the maximum over devices."""
        zero, is_finite = lax.full_like(value, 0), lax.is_finite(value)
        sizes = lax.select(is_finite, lax.abs(value), zero)
        exponent = arithmetic.exponent_above(most(lax.reduce_max(sizes, tuple(axes))))
        exponent = lax.sub(exponent, lax.full_like(exponent, bits))
        kept = [axis for axis in range(value.ndim) if axis not in axes]
        scaled = arithmetic.scaled(
            value, lax.broadcast_in_dim(lax.neg(exponent), value.shape, tuple(kept))
        )
        is_lost = lax.lt(lax.abs(scaled), lax.full_like(value, _LEAST))
        least = lax.mul(lax.sign(value), lax.full_like(value, _LEAST))
        scaled = lax.select(is_lost, least, scaled)
        rests = [lax.select(is_finite, scaled, lax.sign(value))]
        slices = []
        for number in range(count):
            unit = 2.0 ** (-bits * number)
            whole = lax.mul(rests[-1], lax.full_like(value, 1 / unit))
            whole = lax.mul(arithmetic.nearest_integer(whole), lax.full_like(value, unit))
            slices.append(whole)
            rests.append(lax.sub(rests[-1], whole))
        return cls(slices, rests, lax.select(is_finite, zero, value), exponent)

    def leading(self) -> jax.Array:
        """Returns the first slice, where each element that is not zero has a sign."""
        first = self.slices[0]
        least = lax.mul(lax.sign(self.rests[0]), lax.full_like(first, _TINY))
        return lax.select(lax.eq(first, lax.full_like(first, 0)), least, first)


def _coded(lhs: jax.Array, rhs: jax.Array, layout: Layout, dtype: np.dtype[Any]) -> jax.Array:
    """Returns words as ``interval.rounded`` does."""
    log = exact_sum.log2_above(layout.terms)
    count = 2 if log <= _TWO else 3
    bits = (53 - math.ceil(log + math.log2(count))) // 2
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = layout.numbers
    devices = layout.devices
    left = _Sliced.of(lhs, lhs_sum, bits, count, devices.max)
    right = _Sliced.of(rhs, rhs_sum, bits, count, devices.max)

    def multiplied(lefts: Sequence[jax.Array], rights: Sequence[jax.Array]) -> jax.Array:
        sums, batch = (
            [[axis + 1 for axis in axes] for axes in each]
            for each in ((lhs_sum, rhs_sum), (lhs_batch, rhs_batch))
        )
        numbers = ([0, *sums[0]], [0, *sums[1]]), (batch[0], batch[1])
        total = lax.dot_general(
            jnp.stack(lefts), jnp.stack(rights), numbers, PRECISION, lefts[0].dtype
        )
        return devices.sum(cut_as_the_operands(total))

    near, *others = (
        multiplied(left.slices[: last + 1], right.slices[last::-1]) for last in range(count)
    )
    lefts = [left.leading(), *left.slices[1:], lax.add(left.rests[-1], left.special)]
    rights = [lax.add(right.rests[-1], right.special), *right.rests[-2::-1]]
    rest = multiplied(lefts, rights)
    size = lax.abs(rest)
    for other in others:
        near, lost = arithmetic.two_sum(near, other)
        rest, size = lax.add(rest, lost), lax.add(size, lax.abs(lost))

    # Each of K terms has up to count + 1 parts, of which the first and the last are at most half of
    # 2**(bits * (2 - count)), and others a quarter.
    chain = interval.of_chain((count + 1) << log)
    most = chain * (1 + count / 4) * 2.0 ** (log + bits * (2 - count))
    marks = (lax.convert_element_type(lax.sign(lax.abs(x)), np.float32) for x in (lhs, rhs))
    has_terms = multiplied(*([each] for each in marks))
    error = lax.select(
        lax.eq(has_terms, lax.full_like(has_terms, 0)),
        lax.full_like(rest, 0),
        lax.full_like(rest, most * (1 + 2.0**-10)),
    )
    # The error of adding the parts of the rest.
    error = lax.add(error, lax.mul(size, lax.full_like(size, 2.0**-50)))
    exponent = lax.add(layout.lhs_in_result(left.exponent), layout.rhs_in_result(right.exponent))
    return _decided(near, rest, arithmetic.finite_or_zero(error), exponent, dtype)


def _decided(
    near: jax.Array, rest: jax.Array, error: jax.Array, exponent: jax.Array, dtype: np.dtype
) -> jax.Array:
    """Returns the words of (near + rest) * 2**exponent, where rest is exact within an error."""

    def end(rest: jax.Array) -> jax.Array:
        if arithmetic.is_long(dtype):
            total = arithmetic.seal(lax.add(near, rest))
        else:
            total = arithmetic.add_to_odd(near, rest)
        result = arithmetic.narrow_sum(arithmetic.scaled(total, exponent), dtype)
        return interval.positive_zero(result)

    low, high = end(lax.sub(rest, error)), end(lax.add(rest, error))
    words, others = interval.word_of(low), interval.word_of(high)
    is_decided = lax.eq(words, others)
    if arithmetic.is_long(dtype):
        # A sum below the least normal number is 0, but may be rounded to it.
        least = lax.full_like(low, 2.0**arithmetic.MIN_EXPONENT)
        is_decided = lax.bitwise_and(is_decided, lax.ne(lax.abs(low), least))
    return lax.select(is_decided, words, lax.full_like(words, interval.IN_DOUBT))
