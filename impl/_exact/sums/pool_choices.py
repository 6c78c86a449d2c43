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
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.axes import spread_with_zeros
from impl._core.lax_functions import where
from impl._core.shard_axes import vary_like
from impl._jax import Primitive

#: The greatest number of elements of a window for which the taps are unrolled, which XLA fuses
#: better than a loop. It compiles a few hundred taps for minutes, so that more taps are a loop.
UNROLLED = 64

Padding: TypeAlias = Sequence[tuple[int, int]]
_State = TypeVar("_State")


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

    @classmethod
    def of(
        cls,
        source: jax.Array,
        operand: jax.Array,
        dimensions: Sequence[int],
        strides: Sequence[int],
        padding: Padding,
    ) -> Pool:
        """Returns the windows of a pool, from their values and its operand."""
        # The last tap of a window comes first: an element then adds its windows in ascending order.
        taps = list(np.ndindex(*dimensions))[::-1]
        return cls(taps, operand.shape, source.shape, strides, padding)

    @property
    def reach(self) -> list[int]:
        """The length from the first window's element at a tap to the last's, along each axis."""
        return [(n - 1) * stride + 1 for n, stride in zip(self.outputs, self.strides, strict=True)]

    def tap(self, number: Any) -> Sequence[Any]:
        """Returns the offsets of a tap, whose number the running program may know alone."""
        if isinstance(number, int):
            return self.taps[number]
        return list(jnp.asarray(self.taps, jnp.int32)[number])

    def over_taps(
        self, step: Callable[[Any, _State], _State], state: _State, *, unrolled: bool
    ) -> _State:
        """Returns the state after a step for each number of a tap."""
        if not unrolled:
            last: _State = lax.fori_loop(0, len(self.taps), step, state)
            return last
        for number in range(len(self.taps)):
            state = step(number, state)
        return state


def summed(
    pool: Pool,
    values: jax.Array,
    chosen: jax.Array,
    *,
    unrolled: bool,
    order: jax.Array | None = None,
) -> jax.Array:
    """Returns the sum of the values that each element of the operand gets, tap by tap.

    Each window sends one of ``values`` to its tap of ``chosen``. ``unrolled`` is whether the taps
    are no loop, and ``order`` their order; None for the order of their numbers.
    """

    def step(number: Any, total: jax.Array) -> jax.Array:
        return total + _sent(pool, number if order is None else order[number], values, chosen)

    total = vary_like(jnp.zeros(pool.sizes, values.dtype), values, chosen)
    return pool.over_taps(step, total, unrolled=unrolled)


def _sent(pool: Pool, number: Any, values: jax.Array, chosen: jax.Array) -> jax.Array:
    """Returns the value that each element gets from the window that has it at a tap.

    The value is 0 where that window chose another element, and where there is no such window.
    """
    lows = [low for low, _ in pool.padding]
    # Such that each tap moves the values by part of an edge.
    befores = [max(0, tap - low) for tap, low in zip(pool.taps[0], lows, strict=True)]
    edges = [
        (before, max(0, low + size - reach))
        for before, low, size, reach in zip(befores, lows, pool.sizes, pool.reach, strict=True)
    ]
    picked = where(chosen == number, values, jnp.zeros((), values.dtype))
    dilated = spread_with_zeros(picked, edges, pool.strides)
    pairs = zip(befores, lows, pool.tap(number), strict=True)
    return _part(dilated, [before + low - tap for before, low, tap in pairs], pool.sizes)


def _part(value: jax.Array, starts: Sequence[Any], sizes: Sequence[int]) -> jax.Array:
    """Returns a part of an array, as a slice where its start is known: XLA partitions slices."""
    if all(isinstance(start, int) for start in starts):
        ends = [start + size for start, size in zip(starts, sizes, strict=True)]
        return lax.slice(value, starts, ends)
    return lax.dynamic_slice(value, starts, sizes)


def chosen_taps(
    pool: Pool, operand: jax.Array, select_prim: Primitive, *, unrolled: bool
) -> jax.Array:
    """Returns the number of the tap that each window chose.

    A window that lies in the padding has the number of taps, which is no tap.
    """
    padded = lax.pad(operand, jnp.zeros((), operand.dtype), [(*sides, 0) for sides in pool.padding])
    last = len(pool.taps) - 1

    def compare(step: Any, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        best, chosen = state
        number = last - step  # A window compares its elements from the first one on.
        tap = pool.tap(number)
        window = _part(padded, tap, pool.reach)
        value = lax.slice(window, (0,) * window.ndim, window.shape, pool.strides)
        inside = jnp.ones((1,) * window.ndim, bool)
        for axis, size in enumerate(pool.sizes):
            position = np.arange(pool.outputs[axis], dtype=np.int32) * pool.strides[axis]
            position += tap[axis] - pool.padding[axis][0]
            shape = [-1 if other == axis else 1 for other in range(window.ndim)]
            inside &= ((position >= 0) & (position < size)).reshape(shape)
        replaced = inside & (~select_prim.bind(best, value) | (chosen > last))
        return where(replaced, value, best), where(replaced, number, chosen)

    best = vary_like(jnp.zeros(pool.outputs, operand.dtype), operand)
    none = vary_like(jnp.full(pool.outputs, last + 1, jnp.int32), operand)
    return pool.over_taps(compare, (best, none), unrolled=unrolled)[1]
