"""Lowerings of running minima and maxima, which are the same in every order."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl import _kernels
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert
from impl._families.reductions import ReductionName
from impl._families.scan_combines import Parts, later_extreme
from impl._core.float_order import sort_keys
from impl._kernels.launch import Launch
from impl._lowerings import scan_blocks
from impl._lowerings.scan import block_length
from impl._lowerings.scan_positions import last_marked

#: The number of members of a block on a CPU. Each element combines all of its block, so a short one
#: is fast.
_BLOCK = 8


def extreme_keys(by: ReductionName, values: jax.Array) -> jax.Array:
    """Returns unsigned integers whose maximum is the extreme; the key of a NaN is the greatest."""
    keys = sort_keys(values)
    if by == "max":
        return keys
    # Complementing keys reverses their order. The key of NaN stays the greatest.
    keys = ~keys
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return keys
    return where(jnp.isnan(values), ~jnp.zeros_like(keys), keys)


def extreme_cpu(values: jax.Array, *, by: ReductionName) -> tuple[jax.Array, jax.Array]:
    """Returns running extremes by a blocked scan, and the last position of each.

    It is the position of the last element so far that equals the running extreme at its own index.
    """
    if values.size == 0:
        return values, jnp.zeros(values.shape, jnp.int32)
    wide = _wide(values)
    (extremes,) = scan_blocks.scan((wide,), functools.partial(later_extreme, by=by), _BLOCK)
    return convert(extremes, values.dtype), last_marked(_reached, (wide, extremes))


def _reached(parts: Parts) -> jax.Array:
    """Returns whether each element equals the running extreme at its index."""
    values, extremes = parts
    reached = jax.lax.eq(values, extremes)
    if jnp.issubdtype(values.dtype, jnp.floating):
        reached = jax.lax.bitwise_or(reached, jax.lax.ne(values, values))
    return reached


def extreme_xla(values: jax.Array, *, by: ReductionName) -> tuple[jax.Array, jax.Array]:
    """Computes ``extreme_cpu`` by cumulative maxima of integers."""
    shape = values.shape
    positions = jnp.broadcast_to(jnp.arange(shape[1], dtype=jnp.int32)[:, None], shape)
    if values.size == 0:
        return values, positions
    keys = extreme_keys(by, values)
    equals_extreme = keys == jax.lax.cummax(keys, axis=1)
    last = jax.lax.cummax(where(equals_extreme, positions, 0), axis=1)
    return jnp.take_along_axis(values, last, axis=1, mode="clip"), last


def extreme_kernel(
    values: jax.Array, *, by: ReductionName, launch: Launch
) -> tuple[jax.Array, jax.Array]:
    """Computes ``extreme_cpu`` by kernels, a tile of the array in each kernel instance."""
    # The backend loads no bools. The kernels widen other dtypes.
    parts = (values.astype(jnp.int8) if values.dtype == jnp.bool_ else values,)
    if values.size == 0 or not (launch.has_kernels and _kernels.scan_tiles.takes(parts)):
        return extreme_xla(values, by=by)
    extremes, positions = _kernels.scan_tiles.scan(
        parts,
        functools.partial(later_extreme, by=by),
        block=block_length(),
        results=(0, 1),
        positions=True,
        widened=_comparable,
        launch=launch,
    )
    return extremes.astype(values.dtype), positions


def _wide(values: jax.Array) -> jax.Array:
    """Returns values in a dtype of at least 32 bits, with the same order."""
    return convert(values, _comparable(values.dtype))


def _comparable(dtype: jax.typing.DTypeLike) -> np.dtype[Any]:
    """Returns a dtype of at least 32 bits that has all values of ``dtype``."""
    dtype = np.dtype(dtype)
    is_wide = jnp.issubdtype(dtype, jnp.unsignedinteger) and dtype.itemsize >= 4
    return dtype if is_wide else accumulator(dtype)
