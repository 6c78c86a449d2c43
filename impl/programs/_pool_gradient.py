"""The gradient of a max pool, whose sums have a fixed order: ``lax.select_and_scatter_add``.

Each window sends its cotangent to the element that it chose. Here each element adds what the
windows sent that have it at their first tap, then at the second, and so on, without a scatter.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax
from jax.extend.core import Primitive

from impl._core.numerics import accumulator, convert

Padding = Sequence[tuple[int, int]]


def select_and_scatter_add(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    order: jax.Array | None = None,
) -> jax.Array:
    """Computes ``lax.select_and_scatter_add`` in the spec's window order.

    Args:
        source: The cotangent of each window.
        operand: The input of the pool.
        select_prim: The comparison by which a window keeps the element that it has.
        window_dimensions: The shape of a window.
        window_strides: The distance between windows.
        padding: Elements before and after each axis, which no window chooses.
        order: The order of the taps, for a test; None for that of the windows.

    Returns:
        The cotangent of the operand.
    """
    # The last tap of a window comes first: an element then adds its windows in ascending order.
    taps = list(np.ndindex(*window_dimensions))[::-1]
    chosen = _chosen(operand, source.shape, taps, select_prim, window_strides, padding)
    values = convert(source, accumulator(source.dtype))
    zero = jnp.zeros((), values.dtype)
    padded = [size + low + high for size, (low, high) in zip(operand.shape, padding, strict=True)]

    def sent(number: int) -> jax.Array:
        mine = jnp.where(chosen == number, values, zero)
        sides = []
        for axis, start in enumerate(taps[number]):
            low, _ = padding[axis]
            reach = (source.shape[axis] - 1) * window_strides[axis] + 1
            beyond = padded[axis] - start - reach
            sides.append((start - low, beyond - padding[axis][1], window_strides[axis] - 1))
        return lax.pad(mine, zero, sides)

    if order is not None:
        pieces = jnp.stack([sent(number) for number in range(len(taps))])
        total = jnp.zeros_like(pieces[0])
        total = lax.fori_loop(0, len(taps), lambda step, t: t + pieces[order[step]], total)
        return convert(total, source.dtype)
    total = jnp.zeros(operand.shape, values.dtype)
    for number in range(len(taps)):
        total = total + sent(number)
    return convert(total, source.dtype)


def _chosen(
    operand: jax.Array,
    outputs: Sequence[int],
    taps: Sequence[tuple[int, ...]],
    select_prim: Primitive,
    strides: Sequence[int],
    padding: Padding,
) -> jax.Array:
    """Returns the number of the tap that each window chose, or that of none."""
    padded = lax.pad(operand, jnp.zeros((), operand.dtype), [(*sides, 0) for sides in padding])
    best: jax.Array | None = None
    has_best: npt.NDArray[np.bool_] = np.zeros(1, bool)
    chosen = jnp.full(outputs, len(taps), jnp.int32)
    # A window compares its elements from the first tap on.
    for number in reversed(range(len(taps))):
        limits = [
            start + (count - 1) * stride + 1
            for start, count, stride in zip(taps[number], outputs, strides, strict=True)
        ]
        value = lax.slice(padded, taps[number], limits, strides)
        inside = _inside(taps[number], operand.shape, outputs, strides, padding)
        if best is None:
            best, has_best = value, inside
            chosen = jnp.where(inside, number, chosen)
            continue
        replaced = ~select_prim.bind(best, value)
        if not has_best.all():
            replaced = replaced | ~has_best
        if not inside.all():
            replaced = replaced & inside
        best = jnp.where(replaced, value, best)
        chosen = jnp.where(replaced, number, chosen)
        has_best = has_best | inside
    return chosen


def _inside(
    tap: Sequence[int],
    sizes: Sequence[int],
    outputs: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
) -> npt.NDArray[np.bool_]:
    """Returns whether each window has an element of the operand at a tap."""
    inside: npt.NDArray[np.bool_] = np.ones((1,) * len(sizes), bool)
    for axis, size in enumerate(sizes):
        position = tap[axis] + np.arange(outputs[axis]) * strides[axis] - padding[axis][0]
        shape = [-1 if other == axis else 1 for other in range(len(sizes))]
        inside = inside & ((position >= 0) & (position < size)).reshape(shape)
    return inside
