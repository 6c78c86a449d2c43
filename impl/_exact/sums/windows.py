"""Sums over windows, and the gradient of a max pool, in the spec's order ``nearest``.

``impl._exact.nearest.exact_sum`` splits the terms of all windows into parts. XLA adds the parts of
a window in any order, without error::

    x = a b c d e, windows of 3 with stride 1       results   a+b+c   b+c+d   c+d+e

In the gradient of a max pool, each element takes, tap by tap, the cotangents of the windows that
chose it (``impl._exact.sums.pool_choices``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import jax
from jax import lax

from impl._core.axes import spread_with_zeros
from impl._core.numerics import fence
from impl._exact.nearest.exact_sum import Addition
from impl._exact.sums import pool_choices
from impl._exact.sums.pool_choices import Padding, Pool
from impl._jax import Primitive
from impl._jax.releases import FENCES_HOLD
from impl._native import windows as native
from impl._native.scope import or_native

#: The greatest number of taps of a max pool's gradient that are unrolled where XLA drops fences
#: (jax 0.10).
_UNROLLED_WITHOUT_FENCES = 32


@or_native(native.reduce_window)
def reduce_window_sum(
    x: jax.Array,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> jax.Array:
    """Returns the sum of each window, as the primitive ``reduce_window_sum`` does.

    The array is of float16, bfloat16, float32 or float64.
    """
    # XLA's partitioner fails at windows that have padding or dilation.
    padded = spread_with_zeros(x, padding, base_dilation)
    none = [(0, 0)] * x.ndim
    counts = lax.reduce_window_shape_tuple(
        padded.shape, window_dimensions, window_strides, none, None, window_dilation
    )
    if 0 in counts:
        return lax.full(counts, 0, x.dtype)

    def add(parts: jax.Array) -> jax.Array:
        for axis, (size, apart) in enumerate(zip(window_dimensions, window_dilation, strict=True)):
            parts = _sums_of_neighbours(parts, axis, size, apart)
        limits = [
            (count - 1) * step + 1 for count, step in zip(counts, window_strides, strict=True)
        ]
        return lax.slice(parts, [0] * parts.ndim, limits, window_strides)

    return Addition(add, math.prod(window_dimensions)).rounded(x.dtype, padded)


def _sums_of_neighbours(parts: jax.Array, axis: int, size: int, apart: int) -> jax.Array:
    """Returns the sum of each element along an axis and of the ``size - 1`` ones after it.

    A sum of 2, 4, 8, ... neighbours adds two sums of half as many, and a sum of ``size`` neighbours
    adds one of these for each bit of ``size``. The parts are float64, of at least one such sum, and
    neighbours are ``apart`` from each other.
    """
    length = parts.shape[axis] - (size - 1) * apart
    sums, start = list[jax.Array](), 0
    for power in range(size.bit_length()):
        step = apart << power
        if size >> power & 1:
            sums.append(lax.slice_in_dim(parts, start, start + length, axis=axis))
            start += step
        if size >> (power + 1):
            ends = parts.shape[axis] - step
            pair = (lax.slice_in_dim(parts, at, at + ends, axis=axis) for at in (0, step))
            parts = lax.add(*pair)
    return functools.reduce(lax.add, sums)


@or_native(native.select_and_scatter_add)
def select_and_scatter_add(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
) -> jax.Array:
    """Returns the gradient of a max pool, as the primitive ``select_and_scatter_add`` does.

    ``source`` are the cotangents of windows: float16, bfloat16, float32 or float64. A window's best
    element stays if ``select_prim`` holds of it and the next one. No window chooses its padding.
    """
    if 0 in (*operand.shape, *source.shape):
        return lax.full(operand.shape, 0, source.dtype)
    pool = Pool.of(source, operand, window_dimensions, window_strides, padding)
    count = math.prod(
        -(-size // stride) for size, stride in zip(window_dimensions, window_strides, strict=True)
    )
    most_taps = len(pool.taps) if FENCES_HOLD else _UNROLLED_WITHOUT_FENCES
    unrolled = len(pool.taps) <= min(pool_choices.UNROLLED, most_taps)
    # Without the fence, XLA computes the choices again for each tap: 64 taps compiled for minutes.
    chosen = fence(pool_choices.chosen_taps(pool, operand, select_prim, unrolled=unrolled))

    def add(parts: jax.Array) -> jax.Array:
        return pool_choices.summed(pool, parts, chosen, unrolled=unrolled)

    return Addition(add, count).rounded(source.dtype, source)
