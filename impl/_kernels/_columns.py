"""Columns of a tile in the registers of a kernel: cuts them from the tile, and joins them again.

Triton indexes no array in registers. ``cut`` and ``joined`` split and stack, which moves elements
between threads; ``picked`` and ``placed`` mask whole tiles, which takes fewer registers.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def numbers(count: int, axis: int, axes: int) -> jax.Array:
    """Returns 0, 1, 2 and so on along an axis of several."""
    shape = [1] * axes
    shape[axis] = count
    return jnp.arange(count, dtype=jnp.int32).reshape(shape)


def cut(part: jax.Array) -> list[jax.Array]:
    """Returns ``part[:, 0]``, ``part[:, 1]`` and so on; their number is a power of two."""
    pieces = jax.lax.split(part, [1] * part.shape[1], 1)
    return [piece.reshape(part.shape[:1] + part.shape[2:]) for piece in pieces]


def picked(part: jax.Array) -> list[jax.Array]:
    """Returns the same columns as ``cut``, but is faster for short ones.

    After ``cut``, each thread holds a large share of every column.
    """
    number = numbers(part.shape[1], 1, part.ndim)
    bits = jax.lax.bitcast_convert_type(part, jnp.dtype(f"int{part.dtype.itemsize * 8}"))
    return [
        jax.lax.bitcast_convert_type(
            jnp.sum(jnp.where(number == k, bits, jnp.zeros_like(bits)), axis=1, dtype=bits.dtype),
            part.dtype,
        )
        for k in range(part.shape[1])
    ]


def placed(columns: list[jax.Array]) -> jax.Array:
    """Returns the same array as ``joined``, but is faster for short columns."""
    shape = (*columns[0].shape[:1], len(columns), *columns[0].shape[1:])
    number = numbers(len(columns), 1, len(shape))
    part = jnp.broadcast_to(columns[0][:, None], shape)
    for k, column in enumerate(columns[1:], 1):
        part = jnp.where(number == k, column[:, None], part)
    return part


def joined(columns: list[jax.Array]) -> jax.Array:
    """Returns the array whose columns, along axis 1, are these."""
    shape = columns[0].shape
    count = len(columns)
    while len(columns) > 1:
        half = len(columns) // 2
        pairs = zip(columns[:half], columns[half:], strict=True)
        columns = [jnp.stack(pair, -1) for pair in pairs]
    # Each stacked axis is a bit of the column's number, the highest bit first.
    (part,) = columns
    order = (0, *range(len(shape), part.ndim), *range(1, len(shape)))
    return jnp.transpose(part, order).reshape(shape[0], count, *shape[1:])
