"""Between PyTorch's shapes and the three axes, [outer, n, inner], of the core primitives."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp


def within(index: jax.Array, size: int) -> jax.Array:
    """``index`` in 32 bits where it fits, and ``size`` in place of what is not in [0, size).

    Clamped before it is narrowed, so that no wide index is taken for another.
    """
    inside = (index >= 0) & (index < size)
    kept = jnp.where(inside, index, size)
    return kept.astype(jnp.int32) if size < jnp.iinfo(jnp.int32).max else kept


def countable(size: int) -> jnp.dtype:
    """The dtype of an index that can count ``size`` elements.

    Raises:
        NotImplementedError: There is none while x64 is off.
    """
    for dtype in (jnp.dtype(jnp.int32), jnp.dtype(jnp.result_type(int))):
        if size <= jnp.iinfo(dtype).max:
            return dtype
    raise NotImplementedError(
        f"an index of 32 bits cannot count {size} elements; set jax_enable_x64"
    )


def wrapped(index: jax.Array, size: int) -> jax.Array:
    """``index``, with negative ones counted from the end; what is below ``-size`` stays negative.

    Raises:
        NotImplementedError: Its dtype, or the widest there is, cannot count to ``size``.
    """
    index = index.astype(jnp.promote_types(index.dtype, countable(size)))
    return jnp.where(index < 0, index + size, index)


def one_or_more(value: jax.Array) -> jax.Array:
    """``value``, a number as an array of one element."""
    return value.reshape(1) if value.ndim == 0 else value


def window(shape: tuple[int, ...], dim: int) -> tuple[slice, ...]:
    """The corner of an array that ``shape`` spans, but all of it along ``dim``."""
    return tuple(slice(None) if axis == dim else slice(length) for axis, length in enumerate(shape))


def three_axes(value: jax.Array, dim: int) -> jax.Array:
    """Folds the dimensions before and after ``dim``; a 0-d array has one of length 1."""
    shape = value.shape or (1,)
    return value.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))


def rows_at(values: jax.Array, index: jax.typing.ArrayLike) -> jax.Array:
    """``values[:, index]`` of [outer, n, inner], where every index is known to be in [0, n).

    Makes one operation, where indexing makes a dozen, most of them for negative indices.
    """
    index = jnp.asarray(index)
    numbers = jax.lax.GatherDimensionNumbers(
        offset_dims=(0, index.ndim + 1), collapsed_slice_dims=(1,), start_index_map=(1,)
    )
    sizes = (values.shape[0], 1, values.shape[2])
    return jax.lax.gather(values, index[..., None], numbers, sizes, mode="promise_in_bounds")


def rows_of_each(values: jax.Array, index: jax.Array) -> jax.Array:
    """``values[a, index[a]]`` of [outer, n, inner] for each ``a``; every index is in [0, n)."""
    if values.shape[0] == 1:
        return rows_at(values, index[0])
    return jnp.take_along_axis(values, index[:, :, None], axis=1, mode="promise_in_bounds")
