"""Comparisons, extremes and signs of float64, by integers.

The key of a word is a signed integer; the order of keys is the order of numbers::

    number    -inf            -1              -0 and +0    1              inf
    key       -0x7ff0...      -0x3ff0...      0            0x3ff0...      0x7ff0...
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jax import lax

from impl._soft_float64 import words
from impl._soft_float64.words import full

#: A comparison of integers of one dtype.
Comparison = Callable[[jax.Array, jax.Array], jax.Array]


def key(word: jax.Array) -> jax.Array:
    """Returns int64 in the order of numbers; subnormal numbers have the key of zero."""
    field = words.masked(word, words.INFINITY)
    size = lax.select(words.is_zero(field), full(word, 0), words.magnitude(word))
    signed = lax.convert_element_type(size, np.int64)
    return lax.select(is_signed(word), lax.neg(signed), signed)


def sortable(word: jax.Array) -> jax.Array:
    """Returns int64 in the order of numbers, with every NaN after infinity."""
    found = key(word)
    return lax.select(words.is_nan(word), full(found, words.NAN), found)


def is_signed(word: jax.Array) -> jax.Array:
    """Returns where words have a sign."""
    return lax.ge(word, full(word, words.SIGN))


def compared(compare: Comparison) -> Comparison:
    """Returns a comparison of words. It is False where a NaN is, except for ``lax.ne``."""

    def run(a: jax.Array, b: jax.Array) -> jax.Array:
        holds = compare(key(a), key(b))
        has_nan = lax.bitwise_or(words.is_nan(a), words.is_nan(b))
        if compare is lax.ne:
            return lax.bitwise_or(holds, has_nan)
        return lax.bitwise_and(holds, lax.bitwise_not(has_nan))

    return run


def maximum(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the greater words; NaN where one is a NaN."""
    return _chosen(a, b, lax.ge(key(a), key(b)))


def minimum(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns the smaller words; NaN where one is a NaN."""
    return _chosen(a, b, lax.le(key(a), key(b)))


def _chosen(a: jax.Array, b: jax.Array, is_first: jax.Array) -> jax.Array:
    first = lax.bitwise_or(
        words.is_nan(a), lax.bitwise_and(is_first, lax.bitwise_not(words.is_nan(b)))
    )
    return lax.select(first, a, b)


def clamp(low: jax.Array, value: jax.Array, high: jax.Array) -> jax.Array:
    """Returns words between two bounds of the same shape."""
    return minimum(maximum(value, low), high)


def sign(a: jax.Array) -> jax.Array:
    """Returns words of -1, 1, or the zero or NaN itself."""
    one = lax.bitwise_or(words.sign_of(a), full(a, words.ONE))
    is_itself = lax.bitwise_or(words.is_nan(a), lax.eq(key(a), full(key(a), 0)))
    return lax.select(is_itself, a, one)
