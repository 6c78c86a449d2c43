"""The exact sum of a few arrays, element by element, rounded once.

Derivatives need it: a value that a program uses five times has a derivative of five parts. The
result is the nearest float to the exact sum, and of two the even one, so it shows no order.

Three terms, as most derivatives have, need no parts and no loop, so XLA fuses their sum. TwoSum
(Knuth, *The Art of Computer Programming* 2, section 4.2.2) adds two of them, and then the third
one, each time with an error. The sum of the errors is rounded to odd before it is added (Boldo and
Melquiond 2008, doi:10.1109/TC.2007.70819)::

    terms, float32       2**60, 1, -2**60
    two of them          2**60 + 1, as 2**60 and the error 1
    with the third       0 and the errors 0 and 1      sum 1

All other sums are added by parts (``impl._exact.nearest.exact_sum``).
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.nearest.exact_sum import Addition
from impl._native import sums as native
from impl._native.scope import or_native


@or_native(native.add)
def add(*terms: jax.Array) -> jax.Array:
    """Returns the exact sum of arrays, rounded once to the nearest float, ties to even.

    A sum is -0 if all terms are -0; any other sum of 0 is 0. Subnormal terms and results count as
    zero, except for float16. With an infinity or a NaN, the sum is the one of IEEE 754, which has
    no order.

    Args:
        *terms: float16, bfloat16, float32 or float64, at least two of one shape and dtype. Call
            the function inside ``arithmetic.wide()``.
    """
    dtype, count = terms[0].dtype, len(terms)
    if count != 3 or dtype in (np.float16, np.float64):
        total = Addition(_plain, count).rounded(dtype, *terms)
    else:
        wide = [arithmetic.widen(term) for term in terms]
        whole, plain = _sum_of_three(*wide), _plain(*wide)
        # An infinity or a NaN has no order.
        whole = lax.select(lax.is_finite(plain), whole, plain)
        total = interval.positive_zero(arithmetic.narrow(whole, dtype))
    are_minus_zeros = functools.reduce(lax.bitwise_and, map(_is_minus_zero, terms))
    return lax.select(are_minus_zeros, lax.full_like(total, -0.0), total)


def _plain(*terms: jax.Array) -> jax.Array:
    return functools.reduce(lax.add, terms)


def _is_minus_zero(term: jax.Array) -> jax.Array:
    """Returns whether elements are -0, by their bits, also where a device keeps subnormals."""
    word = jnp.dtype(f"uint{8 * term.dtype.itemsize}")
    raw = lax.bitcast_convert_type(term, word)
    sign = 1 << (8 * term.dtype.itemsize - 1)
    # A float16 is never subnormal in float32, in which it is computed.
    least = 1 if term.dtype == np.float16 else int(np.array(jnp.finfo(term.dtype).tiny).view(word))
    return lax.lt(lax.bitwise_xor(raw, lax.full_like(raw, sign)), lax.full_like(raw, least))


def _sum_of_three(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """Returns the exact sum of float64 that float32 holds, rounded to odd."""
    high, low = arithmetic.two_sum(b, c)
    last, error = arithmetic.two_sum(a, high)
    return arithmetic.add_to_odd(last, arithmetic.add_to_odd(error, low))
