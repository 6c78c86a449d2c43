"""Products over axes, running products, and running logarithms of sums of exponentials.

The functions take float16, bfloat16, float32 and float64, and return the dtype that they get.

In the spec's order ``doubling``, a running product is computed in rounds of doubled distance, the
data-parallel scan of Hillis and Steele (1986, doi:10.1145/7902.7903). The positions of factors
alone decide which factors are multiplied, and when, so that each device rounds the same products::

    factors          a     b     c     d
    distance 1       a     ab    bc    cd
    distance 2       a     ab    abc   (ab)(cd)

A factor is a significand, float64, and an exponent, int32, so that no product overflows or
underflows before the result is rounded: 1e-200 * 1e-200 * 1e300 is 1e-100.

A logarithm of sums is computed in the same rounds. A prefix is a pair (m, s): the maximum m of its
elements, and the sum s of exp(x - m) over them. Two prefixes (m, s) and (n, t) with m >= n combine
to (m, s + t * exp(n - m)), as in the online softmax (Milakov and Gimelshein 2018,
arXiv:1805.02867).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import fence
from impl._exact import arithmetic
from impl._exact.arithmetic import at_least_float32, is_long
from impl._exact.elementary.exponentials import wide_exp, wide_log

#: Two arrays of one shape. A factor is such a pair: its significand, which may also be a zero, an
#: infinity or a NaN, and its exponent. The significand is held as the bit pattern of a float64,
#: since a float that XLA sends to another device may lose the sign of a zero.
Pair: TypeAlias = tuple[jax.Array, jax.Array]


def reduce_prod(x: jax.Array, axes: Sequence[int], **_: Any) -> jax.Array:
    """Returns the product of floats over axes, whose elements are taken in row-major order."""
    if not axes:
        return x
    axes = tuple(sorted(axis % x.ndim for axis in axes))
    free = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [x.shape[axis] for axis in free]
    n = math.prod(x.shape[axis] for axis in axes)
    if n == 0 or x.size == 0:
        return lax.full(shape, 1, x.dtype)
    factors = _on_both(lax.transpose, _factors(x), (*axes, *free))
    factors = _on_both(lax.reshape, factors, (n, *shape))
    while n > 1:
        # Pairs are made from the end, as the rounds make them for the last running product.
        odd, n = n % 2, -(-n // 2)
        earlier, later = (_on_both(lax.slice_in_dim, factors, odd + k, None, 2) for k in (0, 1))
        products = _product_of_factors(earlier, later)
        first = _on_both(lax.slice_in_dim, factors, 0, odd)
        factors = _concatenated(first, products)
    return _as_float(_on_both(lax.reshape, factors, shape), x.dtype)


def cumprod(x: jax.Array, axis: int, *, reverse: bool = False) -> jax.Array:
    """Returns the running products of floats along an axis; with ``reverse``, from its end."""
    if x.size == 0:
        return x
    factors = _doubled(_product_of_factors, _on_both(_axis_first, _factors(x), axis, reverse))
    return _as_float(_on_both(_axis_back, factors, axis, reverse), x.dtype)


def cumlogsumexp(x: jax.Array, axis: int, *, reverse: bool = False) -> jax.Array:
    """Returns the logarithm of the running sums of exponentials along an axis; see ``cumprod``.

    Pairs (m, s) of float64 are combined in rounds, as the factors of a running product are in the
    spec's order ``doubling``. The result is m + log(s), rounded once. A result of dtype float64 has
    the error of the logarithm.
    """
    if x.size == 0:
        return x
    moved = _axis_first(x, axis, reverse)
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
        return most, lax.add(large, arithmetic.product(small, wide_exp(apart)))

    most, total = _doubled(combine, (wide, lax.full_like(wide, 1)))
    result = arithmetic.narrow(lax.add(most, wide_log(total)), x.dtype)
    return _axis_back(result, axis, reverse)


def _axis_first(x: jax.Array, axis: int, reverse: bool) -> jax.Array:
    """Returns ``x`` with an axis moved to the front, and reversed if the scan is."""
    moved = jnp.moveaxis(x, axis, 0)
    return lax.rev(moved, (0,)) if reverse else moved


def _axis_back(moved: jax.Array, axis: int, reverse: bool) -> jax.Array:
    """Returns an array whose first axis is moved back: the inverse of ``_axis_first``."""
    return jnp.moveaxis(lax.rev(moved, (0,)) if reverse else moved, 0, axis)


def _doubled(combine: Callable[[Pair, Pair], Pair], pair: Pair) -> Pair:
    """Returns the running combinations of elements, in rounds of doubled distance.

    An earlier pair and a later one are combined. Each is two arrays of one shape, whose first axis
    is scanned.
    """
    n = pair[0].shape[0]
    distance = 1
    while distance < n:
        earlier = _on_both(lax.slice_in_dim, pair, 0, n - distance)
        later = _on_both(lax.slice_in_dim, pair, distance, None)
        first = _on_both(lax.slice_in_dim, pair, 0, distance)
        # Without the fence, XLA for a CPU computes a round again in each fusion that reads it.
        pair = _on_both(fence, _concatenated(first, combine(earlier, later)))
        distance *= 2
    return pair


def _factors(x: jax.Array) -> Pair:
    """Returns numbers as significands from 1 to 2, of their sign, and exponents."""
    wide = (
        arithmetic.flushed_float64(x) if is_long(x.dtype) else arithmetic.widen(at_least_float32(x))
    )
    one, exponent = arithmetic.significand(wide)
    exponent = lax.convert_element_type(exponent, np.int32)
    is_special = lax.bitwise_or(
        lax.eq(wide, lax.full_like(wide, 0)), lax.bitwise_not(lax.is_finite(wide))
    )
    return (
        lax.select(is_special, lax.bitcast_convert_type(wide, np.int64), one),
        lax.select(is_special, lax.full_like(exponent, 0), exponent),
    )


def _product_of_factors(a: Pair, b: Pair) -> Pair:
    """Returns products of factors, rounded once; a significand of 2 or more is halved."""
    significand = lax.mul(_significand(a), _significand(b))
    exponent = lax.add(a[1], b[1])
    is_large = lax.ge(lax.abs(significand), lax.full_like(significand, 2))
    half = lax.mul(significand, lax.full_like(significand, 0.5))
    significand = lax.select(is_large, half, significand)
    more = lax.convert_element_type(is_large, np.int32)
    return lax.bitcast_convert_type(significand, np.int64), lax.add(exponent, more)


def _significand(factor: Pair) -> jax.Array:
    return lax.bitcast_convert_type(factor[0], np.float64)


def _as_float(factor: Pair, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the value of a factor, rounded once to a dtype."""
    return arithmetic.narrow(arithmetic.scaled(_significand(factor), factor[1]), dtype)


def _on_both(function: Callable[..., jax.Array], factor: Pair, *args: Any) -> Pair:
    return function(factor[0], *args), function(factor[1], *args)


def _concatenated(first: Pair, second: Pair) -> Pair:
    joined = [lax.concatenate(pair, 0) for pair in zip(first, second, strict=True)]
    return joined[0], joined[1]
