"""Arrays with other elements between their elements and at their borders, as ``lax.pad`` has them.

XLA's partitioner fails at paddings between elements (jax 0.10.2 to 0.12.0.1; no upstream issue is
known). If the operand is whole on each device and the result is sharded, it slices the operand
before it dilates it. At the end of the operand the slice is clamped and gives wrong values, or the
program does not compile. This program shows it::

    x = lax.with_sharding_constraint(jnp.arange(1.0, 9.0), NamedSharding(mesh, P()))
    y = lax.pad(x, 0.0, [(0, 0, 1)])
    y = lax.with_sharding_constraint(y, NamedSharding(mesh, P("a")))
    y on three devices                  1 0 2 0 3 | 4 0 5 0 6 | 6 0 7 0 8

A sharded operand may end the process. So an axis is whole on each device where ``spread`` dilates
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from impl._jax.shardings import whole


def spread(
    value: jax.Array, fill: Any, padding: Sequence[tuple[int, int]], apart: Sequence[int]
) -> jax.Array:
    """Returns an array with elements ``fill`` between its elements, and then at its borders.

    Dilation, padding and cropping are three steps, since XLA's partitioner aborts at an interior
    padding that crops.

    Args:
        value: The array.
        fill: The new elements: a scalar.
        padding: The low and the high padding of each dimension; negative ones crop.
        apart: The distance of neighbours in each dimension.
    """
    axes = [axis for axis, step in enumerate(apart) if step > 1]
    if axes:
        dilated = lax.pad(whole(value, axes), fill, [(0, 0, step - 1) for step in apart])
        value = whole(dilated, axes)
    if any(edge > 0 for edges in padding for edge in edges):
        value = lax.pad(value, fill, [(max(low, 0), max(high, 0), 0) for low, high in padding])
    if any(edge < 0 for edges in padding for edge in edges):
        starts = [max(-low, 0) for low, _ in padding]
        cut = [max(-high, 0) for _, high in padding]
        ends = [size - less for size, less in zip(value.shape, cut, strict=True)]
        value = lax.slice(value, starts, ends)
    return value


def spread_with_zeros(
    value: jax.Array, padding: Sequence[tuple[int, int]], apart: Sequence[int]
) -> jax.Array:
    """Returns ``spread`` with zeros."""
    return spread(value, lax.full((), 0, value.dtype), padding, apart)
