"""Running logarithms of sums of exponentials, in rounds of doubled distance.

A prefix is a pair (m, s): the maximum m of its elements, and the sum s of exp(x - m) over them. Two
prefixes (m, s) and (n, t) with m >= n combine to (m, s + t * exp(n - m)), as in the online softmax
(Milakov and Gimelshein 2018, arXiv:1805.02867).
"""

from __future__ import annotations

import jax
from jax import lax

from impl._exact import arithmetic
from impl._exact.arithmetic import at_least_float32, is_long
from impl._exact.elementary.exponentials import exp, log
from impl._exact.running.cumprod import Pair, axis_back, axis_first, doubled


def cumlogsumexp(x: jax.Array, axis: int, *, reverse: bool = False) -> jax.Array:
    """Returns the logarithm of the running sums of exponentials along an axis.

    Pairs (m, s) of float64 are combined in rounds, as the factors of a running product are in the
    spec's order ``doubling``. The result is m + log(s), rounded once. A result of dtype float64 has
    the error of the logarithm.

    Args:
        x: float16, bfloat16, float32 or float64.
        axis: The axis.
        reverse: Whether the sums start at the end.

    Returns:
        Shape and dtype of ``x``.
    """
    if x.size == 0:
        return x
    moved = axis_first(x, axis, reverse)
    wide = moved if is_long(x.dtype) else arithmetic.widen(at_least_float32(moved))

    def combine(earlier: Pair, later: Pair) -> Pair:
        (a, sum_of_a), (b, sum_of_b) = earlier, later
        most, least = lax.max(a, b), lax.min(a, b)
        # The difference of two equal infinities would be NaN.
        equal = lax.eq(most, least)
        apart = lax.select(equal, lax.full_like(most, 0), lax.sub(least, most))
        a_is_less = lax.lt(a, b)
        large = lax.select(a_is_less, sum_of_b, sum_of_a)
        small = lax.select(a_is_less, sum_of_a, sum_of_b)
        return most, lax.add(large, arithmetic.product(small, exp(apart)))

    most, total = doubled(combine, (wide, lax.full_like(wide, 1)))
    result = arithmetic.narrow(lax.add(most, log(total)), x.dtype)
    return axis_back(result, axis, reverse)
