"""Sums over windows, and the gradient of a max pool, in the spec's order ``nearest``.

``impl._exact.nearest.sums`` adds the terms of each window, of which it asks for sums, maxima and
minima. A *tap* is an offset in a window. Each of the three takes the first tap of all windows, then
the second, and so on. Each step is elementwise, so XLA may partition every axis::

    x = a b c d e, windows of 3 with stride 1       results   a+b+c   b+c+d   c+d+e
    tap 0: a b c                                    added     a       b       c
    tap 1: b c d                                    added     b       c       d
    tap 2: c d e                                    added     c       d       e

In the gradient of a max pool, each element takes, tap by tap, the cotangents of the windows that
chose it (``impl._exact.sums.pool_choices``).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import numpy as np
from jax import lax

from impl._core.jax_internals import Primitive
from impl._core.jax_internals.releases import FENCES_HOLD
from impl._core.numerics import fence
from impl._core.shard_axes import vary_like
from impl._core.spread import spread_with_zeros
from impl._exact.nearest.any_sums import rounded_sums
from impl._exact.nearest.sums import Sums
from impl._exact.sums import pool_choices
from impl._exact.sums.pool_choices import Padding, Pool
from impl._exact.sums.reduction import reduce_sum

#: The greatest number of taps of a max pool's gradient that are unrolled where XLA drops fences
#: (jax 0.10).
_UNROLLED_WITHOUT_FENCES = 32


def reduce_window_sum(
    x: jax.Array,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> jax.Array:
    """Returns the sum of each window, as ``lax.reduce_window_sum`` does.

    Args:
        x: float16, bfloat16, float32 or float64.
        window_dimensions: The shape of a window.
        window_strides: The distance between windows.
        padding: Zeros before and after each axis.
        base_dilation: The distance of the elements of ``x``, between which are zeros.
        window_dilation: The distance between the elements of a window.

    Returns:
        A sum for each window, of the dtype of ``x``.
    """
    windows = _Windows(tuple(window_dimensions), tuple(window_strides), tuple(window_dilation))
    padded = spread_with_zeros(x, padding, base_dilation)
    outputs = windows.outputs(padded.shape)
    if 0 in outputs or padded.size == 0:
        return lax.full(outputs, 0, x.dtype)
    summed = [axis for axis, size in enumerate(windows.sizes) if size > 1]
    if all(outputs[axis] == 1 for axis in summed):
        only_windows = windows.single(padded, outputs)
        if not summed:  # The sum of one term is the term, but for -0: a sum of zeros is 0.
            return reduce_sum(lax.expand_dims(only_windows, [0]), [0])
        return lax.reshape(reduce_sum(only_windows, summed), outputs)
    return _sums_by_taps(windows, padded, outputs)


@dataclasses.dataclass(frozen=True)
class _Windows:
    """Windows over an array that is padded and dilated already.

    Attributes:
        sizes: The shape of a window, in elements.
        strides: The distance between windows.
        dilation: The distance between the elements of a window.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]

    def outputs(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the number of windows along each axis."""
        return tuple(
            max(0, (length - (size - 1) * apart - 1) // stride + 1)
            for length, size, stride, apart in zip(
                shape, self.sizes, self.strides, self.dilation, strict=True
            )
        )

    def reach(self, outputs: Sequence[int]) -> list[int]:
        """Returns the length from the first window's element at a tap to the last's, along axes."""
        return [(n - 1) * stride + 1 for n, stride in zip(outputs, self.strides, strict=True)]

    def single(self, padded: jax.Array, outputs: Sequence[int]) -> jax.Array:
        """Returns the elements of windows, if each axis that is summed has one window."""
        limits = [
            (size - 1) * apart + reach
            for size, apart, reach in zip(
                self.sizes, self.dilation, self.reach(outputs), strict=True
            )
        ]
        pairs = zip(self.sizes, self.dilation, self.strides, strict=True)
        steps = [apart if size > 1 else stride for size, apart, stride in pairs]
        return lax.slice(padded, [0] * padded.ndim, limits, steps)

    def starts(self) -> list[tuple[int, ...]]:
        """Returns the offset of each tap."""
        return [
            tuple(position * apart for position, apart in zip(tap, self.dilation, strict=True))
            for tap in np.ndindex(*self.sizes)
        ]


def _sums_by_taps(windows: _Windows, padded: jax.Array, outputs: Sequence[int]) -> jax.Array:
    starts, reach = windows.starts(), windows.reach(outputs)

    def folded(
        step: Callable[[jax.Array, jax.Array], jax.Array], first: float, values: jax.Array
    ) -> jax.Array:
        """Returns a state after a step for each tap, in a loop if there are many taps."""
        state = vary_like(lax.full(outputs, first, values.dtype), values)
        if len(starts) <= pool_choices.UNROLLED:
            for start in starts:
                limits = [first + length for first, length in zip(start, reach, strict=True)]
                state = step(state, lax.slice(values, start, limits, windows.strides))
            return state
        table = lax.convert_element_type(np.array(starts), np.int32)

        def visit(number: jax.Array, state: jax.Array) -> jax.Array:
            tap = lax.dynamic_index_in_dim(table, number, keepdims=False)
            begin = [lax.index_in_dim(tap, axis, keepdims=False) for axis in range(values.ndim)]
            part = lax.dynamic_slice(values, begin, reach)
            return step(state, lax.slice(part, [0] * part.ndim, part.shape, windows.strides))

        result: jax.Array = lax.fori_loop(0, len(starts), visit, state)
        return result

    how = Sums(
        len(starts),
        add=functools.partial(folded, lax.add, 0),
        greatest=functools.partial(folded, lax.max, 0),
        least=functools.partial(folded, lax.min, np.inf),
    )
    return rounded_sums(padded, padded.dtype, how)


def select_and_scatter_add(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
) -> jax.Array:
    """Returns the gradient of a max pool, as ``lax.select_and_scatter_add`` does.

    Args:
        source: The cotangent of each window: float16, bfloat16, float32 or float64.
        operand: The input of the pool.
        select_prim: The comparison of a window's best element with the next; if it holds, the best
            element stays.
        window_dimensions: The shape of a window.
        window_strides: The distance between windows.
        padding: Elements before and after each axis, which no window chooses.

    Returns:
        The cotangent of the operand, of the dtype of ``source``.
    """
    if 0 in (*operand.shape, *source.shape):
        return lax.full(operand.shape, 0, source.dtype)
    taps = list(np.ndindex(*window_dimensions))[::-1]
    pool = Pool(taps, operand.shape, source.shape, window_strides, padding)
    count = math.prod(
        -(-size // stride) for size, stride in zip(window_dimensions, window_strides, strict=True)
    )
    most_taps = len(taps) if FENCES_HOLD else _UNROLLED_WITHOUT_FENCES
    unrolled = len(taps) <= min(pool_choices.UNROLLED, most_taps)
    # Without the fence, XLA computes the choices again for each tap: 64 taps compiled for minutes.
    chosen = fence(pool_choices.chosen_taps(pool, operand, select_prim, unrolled=unrolled))
    order = lax.iota(np.int32, len(taps))

    def folded(step: _Step, first: float, values: jax.Array) -> jax.Array:
        state = lax.full(operand.shape, first, values.dtype)
        if not unrolled:
            steps = lambda states, _, terms: [step(states[0], terms)]  # noqa: E731
            return pool_choices.folded(pool, order, steps, [state], [], values, chosen)[0]
        for number in range(len(taps)):
            state = step(state, pool_choices.sent(pool, number, values, chosen))
        return state

    def less(state: jax.Array, terms: jax.Array) -> jax.Array:
        # A window sends 0 to the elements that it did not choose.
        is_none = lax.eq(terms, lax.full_like(terms, 0))
        return lax.select(is_none, state, lax.min(state, terms))

    how = Sums(
        count,
        add=functools.partial(folded, lax.add, 0),
        greatest=functools.partial(folded, lax.max, 0),
        least=functools.partial(folded, less, np.inf),
    )
    return rounded_sums(source, source.dtype, how)


#: Takes a state and terms, and returns the state.
_Step: TypeAlias = Callable[[jax.Array, jax.Array], jax.Array]
