"""Exact sums of float64 terms, rounded once: slices of the terms that float64 adds without error.

The technique is the extraction of leading parts (Rump, Ogita and Oishi 2008, AccSum,
doi:10.1137/050645671). A step takes from each term of a row its multiple of one unit, a *slice*.
The unit is 2**-s times a power of two above the greatest term, and s is so small that float64 adds
the slices exactly, in any order and over any devices. The remainders are the terms of the next
step. Two float64, ``high`` and ``low``, hold the sum of all slices so far::

    terms                1, 2**-60, -2**-90              s = 49, enough for three terms
    slices of step 1     1, 0, 0                         high = 1, low = 0
    slices of step 2     2**-60, -2**-90                 high = 1, low = 2**-60 - 2**-90
    result               1 + 2**-60 - 2**-90, rounded once

A row ends when nothing of its terms remains, or when the remainders cannot change the sign of
``low``. Of the exact sum, rounding to odd needs ``high`` and that sign alone (Boldo and Melquiond
2008, doi:10.1109/TC.2007.70819).

*Exactness.* Let K be a power of two that is not below the number of terms, S the sum of slices, u
their unit, and M the greatest remainder so far. A slice is at most 2**s units, and s is
51 - log2(K), so S is at most 2**51 units. A row that goes on has
abs(low) < 2 * K * M < 2 * K * 2**s * u = 2**52 * u. ``low`` is a multiple of u, so ``low + S`` is
an exact float64. The sum of ``high`` and ``low`` is exact by TwoSum (Knuth, *The Art of Computer
Programming* 2, section 4.2.2).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest.interval import positive_zero
from impl._exact.nearest.reductions import reduced
from impl._exact.nearest.sums import BITS, log2_above
from impl._exact.products.shards import Cuts

#: Rows of up to 2**14 terms have slices of the same width. Equal kernels are compiled once.
_FEWEST = 14
#: A power of two below all products of two float32.
_LEAST = 2.0**-400
#: The unit of a row that ended: greater than all terms, which have no slice then.
_ENDED = 2.0**600


def exact_sum(terms: jax.Array, dtype: jax.typing.DTypeLike, cuts: Cuts) -> jax.Array:
    """Returns the sum of each row, rounded once. A sum of zero is +0.

    Args:
        terms: float64, shape [rows, K]: products of two float32, or floats of 32 bits. The sum of
            a row that is not finite is undefined.
        dtype: The dtype of the result.
        cuts: The mesh axes over which the terms of a row are sharded.

    Returns:
        Shape [rows].
    """
    high, low = _sum(terms, cuts)
    if jnp.dtype(dtype) != np.float64:
        return positive_zero(arithmetic.narrow(arithmetic.to_odd(high, low), dtype))
    # Rounding to odd would need more bits than a float64 has. The sum less ``high`` is one more
    # exact sum, whose sign and magnitude decide the last rounding.
    first = lax.broadcast_in_dim(cuts.on_one(lax.neg(high)), (terms.shape[0], 1), (0,))
    rest = arithmetic.to_odd(*_sum(lax.concatenate([terms, first], 1), cuts))
    return positive_zero(arithmetic.seal(lax.add(high, rest)))


def _sum(terms: jax.Array, cuts: Cuts) -> tuple[jax.Array, jax.Array]:
    """Returns the sum of each row as the nearest float64, and what remains, whose sign is exact."""
    more = max(log2_above(terms.shape[1] * cuts.parts), _FEWEST)

    def unit_of(most: jax.Array) -> jax.Array:
        above = _power_above(lax.max(most, lax.full_like(most, _LEAST)))
        unit = lax.mul(above, lax.full_like(above, 2.0 ** (more - BITS)))
        return lax.select(_is_positive(most), unit, lax.full_like(most, _ENDED))

    def step(state: _State) -> _State:
        terms, columns = state
        high, low, most = (lax.index_in_dim(columns, i, keepdims=False) for i in range(3))
        unit = unit_of(most)
        slices = lax.mul(terms, _along(arithmetic.reciprocal(unit), terms))
        slices = lax.mul(arithmetic.nearest_integer(slices), _along(unit, terms))
        rest = lax.sub(terms, slices)
        # XLA vectorises a maximum of integers. Positive floats have the order of their bits.
        words = lax.bitcast_convert_type(lax.abs(rest), np.int64)
        added, most = reduced([lax.sub(terms, rest), words], [lax.add, lax.max], (1,))
        most = lax.bitcast_convert_type(most, np.float64)
        added, most = cuts.sum(added), cuts.max(most)
        high, low = arithmetic.two_sum(high, lax.add(low, added))
        reach = lax.mul(most, lax.full_like(most, 2.0 ** (more + 1)))
        is_open = lax.lt(lax.abs(low), reach)
        most = lax.select(is_open, most, lax.full_like(most, 0))
        return rest, _columns(high, low, most)

    def is_open(state: _State) -> jax.Array:
        # A slice of one column would be a kernel of its own.
        number = lax.broadcasted_iota(np.int32, state[1].shape, 0)
        is_most = lax.eq(number, lax.full_like(number, 2))
        most = lax.select(is_most, state[1], lax.full_like(state[1], 0))
        return lax.gt(lax.reduce_max(most, (0, 1)), np.float64(0))

    most = cuts.max(lax.reduce_max(lax.abs(terms), (1,)))
    zero = lax.full_like(most, 0)
    # A row with a NaN ends at once, so that it hides no other row from ``is_open``.
    start = _columns(zero, zero, lax.select(_is_positive(most), most, zero))
    _, columns = lax.while_loop(is_open, step, (terms, start))
    high, low, _ = (lax.index_in_dim(columns, i, keepdims=False) for i in range(3))
    return high, low


def _columns(*values: jax.Array) -> jax.Array:
    """Returns values of each row as one array.

    XLA for a CPU writes each array of a state in a kernel of its own.
    """
    return lax.concatenate([lax.expand_dims(value, (0,)) for value in values], 0)


def _is_positive(value: jax.Array) -> jax.Array:
    return lax.gt(value, lax.full_like(value, 0))


def _along(row: jax.Array, terms: jax.Array) -> jax.Array:
    """Returns a value of each row, for each of its terms."""
    return lax.broadcast_in_dim(row, terms.shape, (0,))


#: The remaining terms; of each row, ``high``, ``low`` and the greatest term, 0 if the row ended.
_State = tuple[jax.Array, jax.Array]


def _power_above(value: jax.Array) -> jax.Array:
    """Returns a power of two above each positive float64, at most twice as great."""
    raw = lax.bitcast_convert_type(value, np.int64)
    field = lax.bitwise_and(raw, lax.full_like(raw, 0x7FF << 52))
    return lax.bitcast_convert_type(lax.add(field, lax.full_like(raw, 1 << 52)), np.float64)
