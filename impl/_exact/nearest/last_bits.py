"""The last bit of terms: the greatest power of two of which all of them are multiples.

If float64 has the bits from it up to the sum of magnitudes, it adds the terms without error, in any
order. That decides ties, which no bound of an error can::

    terms                  0.75, 1024, 2**-10
    last bit               2**-10
    sum of magnitudes      2048 at most, 2**21 last bits: exact
    of 1, 2**-80           2**81 last bits: float64 may err

Two measures of float32 suffice: the least magnitude that is not 0, and the bits that any term has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from impl._core.devices import Devices
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.nearest.exact_sum import full, reduced

#: All bits of a float32 but its sign, and the bits of the greatest finite one.
_MAGNITUDE, _HUGE = 0x7FFFFFFF, 0x7F7FFFFF
#: The bits of a float32 after its leading bit, which is the next one.
_FRACTION = 23
#: The number of results from which on the ties among them take longer than the last bits.
_MANY = 4096
#: The greatest number of terms of a sum that several devices compare last bits for.
_FEW = 64


def _of_all(terms: jax.Array) -> jax.Array:
    """Returns an int32 e for all float32 of an array, which are multiples of 2**(e - 126)."""
    # Equal kernels are compiled once, so the shape is left out.
    raw = lax.bitcast_convert_type(lax.reshape(terms, (terms.size,)), np.int32)
    magnitude = lax.bitwise_and(raw, lax.full_like(raw, _MAGNITUDE))
    is_zero = lax.eq(magnitude, lax.full_like(raw, 0))
    # An order of magnitudes is an order of their bits, where a NaN comes last.
    magnitude = lax.select(is_zero, lax.full_like(raw, _HUGE), magnitude)
    least, bits = reduced([magnitude, raw], [lax.min, lax.bitwise_or], (0,))
    # The last bit of the terms is the least one that is set in any of them.
    bits = lax.bitwise_or(bits, lax.full_like(bits, 1 << _FRACTION))
    after = lax.sub(lax.bitwise_and(bits, lax.neg(bits)), lax.full_like(bits, 1))
    field = lax.shift_right_logical(least, lax.full_like(least, _FRACTION))
    last = lax.add(field, lax.population_count(after))
    return lax.sub(last, lax.full_like(last, _FRACTION + 1))


def error_of_products(
    error: jax.Array,
    chain: Any,
    factors: Sequence[jax.Array],
    terms: Any,
    devices: Devices,
    *,
    is_partitioned: bool,
) -> jax.Array:
    """Returns bounds of the errors of sums of products: 0 where float64 adds without error.

    Few results are soon computed again. Where XLA partitions a product, it exchanges the bits
    between devices, which only sums of few terms are worth: weights of an interpolation make ties
    of those. All other bounds stay as they are.

    Args:
        error: Bounds of the errors: ``chain`` times bounds of the sums of magnitudes, float64.
        chain: As ``interval.of_chain`` returns it.
        factors: The left factors and the right ones, float32.
        terms: The number of terms of a sum; a symbolic size of jax.export, too.
        devices: The devices that share the sums.
        is_partitioned: Whether XLA may partition the product.
    """
    results: Any = error.size
    if isinstance(results, int) and results < _MANY:
        return error
    if is_partitioned and not (isinstance(terms, int) and terms <= _FEW):
        return error
    lhs, rhs = (devices.min(_of_all(each)) for each in factors)
    return _unless_exact(error, chain, lhs, rhs)


def _unless_exact(error: jax.Array, chain: Any, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Returns bounds of errors, 0 where they are exact, by the exponents of both factors."""
    last = arithmetic.power_of_two(lax.sub(lax.add(lhs, rhs), np.int32(2 * 126)))
    # The bound itself may be off by less than this.
    most = chain / interval.ROUNDING * (1 - 2.0**-10)
    is_exact = lax.le(error, full(lax.mul(last, lax.full_like(last, most)), error))
    return lax.select(is_exact, lax.full_like(error, 0), error)
