"""The operations on pairs that only functions of float64 need.

``quotient`` and ``root`` are pairs. XLA divides by a broadcast number in another way than by an
array, so ``reciprocal`` divides by Newton's method, which has the same bits everywhere.

A result is a pair times a power of two, which is applied to the rounded pair (``rounded``).
``quick_results`` rounds both ends of the interval that an error leaves (Ziv 1991,
doi:10.1145/114697.116813).

Near a point where a function is a short polynomial, its value can be much closer to the middle of
two float64 than a pair tells. ``first_terms`` adds three terms there as if exactly::

    exp(2**-53)      1 + 2**-53 + 2**-107      above the middle of 1 and 1 + 2**-52
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import jax
import numpy as np
from jax import lax

from impl._core import contexts
from impl._core.numerics import fence
from impl._exact.arithmetic import (
    add_to_odd,
    flushed_float64,
    product,
    scaled_normal,
    seal,
    two_sum,
)
from impl._exact.elementary._pairs import Pair, fast_two_sum, reciprocal, two_product
from impl._exact.elementary._words import times, wide_root
from impl._exact.elementary.doubles._function import Double

#: A pair and a float64 n, which stand for the pair times 2**n, or for the pair if n is None.
Scaled: TypeAlias = tuple[Pair, jax.Array | None]


def scaled_by(x: Pair, power: jax.Array) -> Pair:
    """Returns a pair times a power of two, exactly."""
    return lax.mul(x[0], power), lax.mul(x[1], power)


def root(x: Pair) -> Pair:
    """Returns the square root of a positive pair, with a relative error of less than 2**-100."""
    near = wide_root(x[0])
    above, below = two_product(near, near)
    rest = seal(lax.add(lax.sub(lax.sub(x[0], above), below), x[1]))
    return fast_two_sum(near, product(rest, reciprocal(lax.add(near, near))))


def scaled(value: jax.Array, n: jax.Array | None) -> jax.Array:
    """Returns a rounded pair times 2**n."""
    return value if n is None else scaled_normal(value, n)


def rounded(value: Pair, n: jax.Array | None) -> jax.Array:
    """Returns a pair times 2**n, rounded once."""
    return scaled(seal(lax.add(*value)), n)


def quick_results(
    value: Pair, error: jax.Array, finish: Callable[[jax.Array], jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Returns the result of the lower end of an interval, rounded, and another or the same one.

    Args:
        value: A pair in the midst of the interval.
        error: Its absolute error.
        finish: Takes a rounded end, and returns its result.

    The other result has other bits where the upper end is another number.
    """
    high, low = value
    below, above = (seal(lax.add(high, change(low, error))) for change in (lax.sub, lax.add))
    result = finish(below)
    raw, *ends = (lax.bitcast_convert_type(each, np.int64) for each in (result, above, below))
    return result, lax.bitcast_convert_type(lax.add(raw, lax.sub(*ends)), np.float64)


def first_terms(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """Returns ``a + b + c``, rounded once, where c is less than an ulp of b."""
    high, low = two_sum(a, b)
    return seal(lax.add(high, add_to_odd(low, c)))


def of_pairs(
    value: Callable[..., Scaled],
    finish: Callable[..., jax.Array],
    *,
    error: float | Callable[..., jax.Array] | None = None,
    near: Callable[..., tuple[jax.Array, jax.Array]] | None = None,
) -> Double:
    """Returns a function of float64.

    Args:
        value: Takes arguments, which are not subnormal, and whether all digits are needed. It
            returns any finite pair for special arguments.
        finish: Takes arguments and the rounded value, and returns the result, also of
            special arguments.
        error: The relative error of ``value`` with fewer digits, or a function of arguments and
            values that returns the absolute one, which is infinite where ``value`` needs all
            digits. None if it has but one way.
        near: Returns whether arguments are near a point where first terms of a series are needed,
            and their sum. There, the ends of the interval may differ.
    """

    def full(*operands: jax.Array, **_: object) -> jax.Array:
        x = [flushed_float64(each) for each in operands]
        result = rounded(*value(*x, True))
        if not contexts.keeps_subnormals.value:
            # The loop vectorizer of XLA 0.12 for a CPU takes hours for one loop of all operations.
            result = fence(result)
        if near is not None:
            is_near, terms = near(*x)
            result = lax.select(is_near, terms, result)
        return finish(*x, result)

    def quick(*operands: jax.Array, **_: object) -> tuple[jax.Array, jax.Array]:
        x = [flushed_float64(each) for each in operands]
        about, n = value(*x, False)
        more = error(*x, about[0]) if callable(error) else times(about[0], error or 0)
        return quick_results(about, more, lambda end: finish(*x, scaled(end, n)))

    return Double(full, quick if error else None)
