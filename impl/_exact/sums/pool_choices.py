"""The choices of a max pool's windows, and the values that windows send to the chosen elements.

The gradient of a max pool, ``lax.select_and_scatter_add``, is computed as a gather. A *tap* is an
offset in a window. For one tap after another, each element takes the value of the window that has
the element at this tap, if the window chose it::

    operand 1 3 2 5, windows of 2 with stride 1     windows   (1 3)   (3 2)   (2 5)
    chosen tap                                                1       0       1
    values of the windows                                     a       b       c
    tap 0 sends, by element                         0   b   0   0
    tap 1 sends, by element                         0   a   0   c
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from impl._core.lax_functions import where
from impl._core.shard_axes import vary_like
from impl._core.spread import spread_with_zeros
from impl._jax import Primitive

#: The greatest number of elements of a window for which the taps are unrolled. XLA compiles a few
#: hundred taps for minutes, so that more taps are a loop.
UNROLLED = 64

Padding: TypeAlias = Sequence[tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Pool:
    """The windows of a pool.

    Attributes:
        taps: The offsets of a window's elements, the last offset first.
        sizes: The shape of the operand.
        outputs: The shape of the result.
        strides: The distance between windows.
        padding: Elements before and after each axis.
    """

    taps: Sequence[tuple[int, ...]]
    sizes: Sequence[int]
    outputs: Sequence[int]
    strides: Sequence[int]
    padding: Padding

    @property
    def reach(self) -> list[int]:
        """The length from the first window's element at a tap to the last's, along each axis."""
        return [(n - 1) * stride + 1 for n, stride in zip(self.outputs, self.strides, strict=True)]

    def padded(self, operand: jax.Array) -> jax.Array:
        """Returns the operand with its padding, which no window chooses."""
        zero = jnp.zeros((), operand.dtype)
        return lax.pad(operand, zero, [(*sides, 0) for sides in self.padding])

    def dilated(self, values: jax.Array) -> jax.Array:
        """Returns values of windows with zeros between them, as far apart as the windows are."""
        return spread_with_zeros(values, [(0, 0)] * values.ndim, self.strides)


def sent(pool: Pool, number: int, values: jax.Array, chosen: jax.Array) -> jax.Array:
    """Returns the value that each element gets from the window that has it at tap ``number``.

    The value is 0 where that window chose another element, and where there is no such window.
    """
    dilated = pool.dilated(where(chosen == number, values, jnp.zeros((), values.dtype)))
    # XLA's partitioner aborts at a pad that is negative, of an array that is dilated.
    starts, limits, sides = [], [], []
    for axis, tap in enumerate(pool.taps[number]):
        size, reach = pool.sizes[axis], pool.reach[axis]
        before = tap - pool.padding[axis][0]
        start = min(max(0, -before), reach)
        limit = max(start, min(reach, size - before))
        low = min(max(0, before), size)
        starts.append(start)
        limits.append(limit)
        sides.append((low, size - low - (limit - start), 0))
    part = lax.slice(dilated, starts, limits)
    return lax.pad(part, jnp.zeros((), values.dtype), sides)


def folded(
    pool: Pool,
    order: jax.Array,
    step: Callable[[list[jax.Array], list[jax.Array], jax.Array], list[jax.Array]],
    states: Sequence[jax.Array],
    others: Sequence[jax.Array],
    values: jax.Array,
    chosen: jax.Array,
) -> list[jax.Array]:
    """Folds the values that the taps send into states, in a loop over the taps.

    Args:
        pool: The windows.
        order: The number of each tap, in the order of the loop.
        step: Takes parts of the states and of ``others``, and the values that a tap sends to each
            element of the part. Returns the parts of the states.
        states: Arrays of the operand's shape.
        others: Arrays of that shape, which the loop only reads.
        values: The value that each window sends.
        chosen: The tap that each window chose.

    Returns:
        The states at the end.
    """
    taps = jnp.asarray(pool.taps, jnp.int32)
    zero = jnp.zeros((), values.dtype)
    read = [pool.padded(array) for array in others]

    def visit(position: jax.Array, states: list[jax.Array]) -> list[jax.Array]:
        number = order[position]
        sent = pool.dilated(where(chosen == number, values, zero))
        starts = list(taps[number])
        parts, fixed = (
            [lax.dynamic_slice(array, starts, sent.shape) for array in arrays]
            for arrays in (states, read)
        )
        return [
            lax.dynamic_update_slice(state, part, starts)
            for state, part in zip(states, step(parts, fixed, sent), strict=True)
        ]

    initial = [vary_like(pool.padded(state), values, chosen, *read) for state in states]
    result = lax.fori_loop(0, len(pool.taps), visit, initial)
    inside = [(-low, -high, 0) for low, high in pool.padding]
    return [lax.pad(state, jnp.zeros((), state.dtype), inside) for state in result]


def chosen_taps(
    pool: Pool, operand: jax.Array, select_prim: Primitive, *, unrolled: bool
) -> jax.Array:
    """Returns the number of the tap that each window chose.

    A window that lies in the padding has the number of taps, which is no tap.
    """
    return (_chosen_unrolled if unrolled else _chosen_by_loop)(pool, operand, select_prim)


def _chosen_by_loop(pool: Pool, operand: jax.Array, select_prim: Primitive) -> jax.Array:
    """Returns the chosen taps, by a loop over the taps."""
    padded = pool.padded(operand)
    taps = jnp.asarray(pool.taps, jnp.int32)
    last = len(pool.taps) - 1

    def compare(step: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        best, chosen = state
        number = last - step
        window = lax.dynamic_slice(padded, list(taps[number]), pool.reach)
        value = lax.slice(window, (0,) * window.ndim, window.shape, pool.strides)
        inside = jnp.ones((1,) * window.ndim, bool)
        for axis, size in enumerate(pool.sizes):
            position = jnp.arange(pool.outputs[axis], dtype=jnp.int32) * pool.strides[axis]
            position += taps[number, axis] - pool.padding[axis][0]
            shape = [-1 if other == axis else 1 for other in range(window.ndim)]
            inside &= ((position >= 0) & (position < size)).reshape(shape)
        replaced = inside & (~select_prim.bind(best, value) | (chosen > last))
        return where(replaced, value, best), where(replaced, number, chosen)

    best = vary_like(jnp.zeros(pool.outputs, operand.dtype), operand)
    none = vary_like(jnp.full(pool.outputs, last + 1, jnp.int32), operand)
    chosen: jax.Array = lax.fori_loop(0, last + 1, compare, (best, none))[1]
    return chosen


def _chosen_unrolled(pool: Pool, operand: jax.Array, select_prim: Primitive) -> jax.Array:
    """Returns the chosen taps, by unrolled operations, which XLA fuses better than a loop."""
    padded = pool.padded(operand)
    best: jax.Array | None = None
    has_best: npt.NDArray[np.bool_] = np.zeros(1, bool)
    chosen = jnp.full(pool.outputs, len(pool.taps), jnp.int32)
    # A window compares its elements from the first tap on.
    for number in reversed(range(len(pool.taps))):
        tap = pool.taps[number]
        limits = [start + reach for start, reach in zip(tap, pool.reach, strict=True)]
        value = lax.slice(padded, tap, limits, pool.strides)
        inside = _inside(pool, tap)
        if best is None:
            best, has_best = value, inside
            chosen = where(inside, number, chosen)
            continue
        replaced = ~select_prim.bind(best, value)
        if not has_best.all():
            replaced = replaced | ~has_best
        if not inside.all():
            replaced = replaced & inside
        best = where(replaced, value, best)
        chosen = where(replaced, number, chosen)
        has_best = has_best | inside
    return chosen


def _inside(pool: Pool, tap: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Returns whether each window has an element of the operand at a tap."""
    inside: npt.NDArray[np.bool_] = np.ones((1,) * len(pool.sizes), bool)
    for axis, size in enumerate(pool.sizes):
        position = np.arange(pool.outputs[axis]) * pool.strides[axis]
        position += tap[axis] - pool.padding[axis][0]
        shape = [-1 if other == axis else 1 for other in range(len(pool.sizes))]
        inside = inside & ((position >= 0) & (position < size)).reshape(shape)
    return inside
