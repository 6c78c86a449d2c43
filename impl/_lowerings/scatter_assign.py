"""Which of several writers of one place stays: every way to find out.

All take ``indices`` [outer, n, inner] and return, for each of ``size`` places, the position of a
writer along the middle axis, or -1 where there is none. Only positions move, never the updates.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from impl._core.axes import rows_at, within
from impl._core.reductions import MAX
from impl._core.shard_axes import vary_like
from impl._kernels import scatter_accumulate as kernels
from impl._kernels.triton import MAX_ELEMENTS, Launch
from impl._lowerings.scatter_accumulate import flat_offsets, scatter_by


def take(values: jax.Array, places: jax.Array) -> jax.Array:
    """Elements of [outer or 1, size, inner or 1] at [outer or 1, n, inner or 1], all in range."""
    outer = max(values.shape[0], places.shape[0])
    inner = max(values.shape[2], places.shape[2])
    if (places.shape[0], places.shape[2]) == (1, 1):
        return rows_at(jnp.asarray(values), places[0, :, 0])
    values = jnp.broadcast_to(values, (outer, values.shape[1], inner))
    places = jnp.broadcast_to(places, (outer, places.shape[1], inner))
    return jnp.take_along_axis(values, places, axis=1, mode="promise_in_bounds")


def xla_any(indices: jax.Array, *, size: int) -> jax.Array:
    """XLA's own scatter: the last one on a CPU, a race on a GPU."""
    outer, n, inner = indices.shape
    if indices.size == 0 or size == 0:
        return _nobody(indices, size)
    if outer * inner == 1:
        places = within(indices[0, :, 0], size)
        position = jnp.arange(n, dtype=jnp.int32)
        return _nobody(indices, size)[0, :, 0].at[places].set(position, mode="drop")[None, :, None]
    nobody = _nobody(indices, size)
    if nobody.size > MAX_ELEMENTS:
        a = jnp.arange(outer)[:, None, None]
        b = jnp.arange(inner)[None, None, :]
        at = nobody.at[a, within(indices, size), b]
        return at.set(_positions(indices), mode="drop")
    flat = flat_offsets(nobody, indices)
    out = nobody.reshape(-1).at[flat].set(_positions(indices).reshape(-1), mode="drop")
    return out.reshape(nobody.shape)


#: On a CPU XLA's scatter writes in source order.
cpu_last = xla_any


def xla_last(indices: jax.Array, *, size: int) -> jax.Array:
    """The greatest position, by a scatter of integers: right on any device."""
    if indices.size == 0 or size == 0:
        return _nobody(indices, size)
    return scatter_by(MAX, _nobody(indices, size), indices, _positions(indices))


def kernel_any(indices: jax.Array, *, size: int, launch: Launch) -> jax.Array:
    """Whichever store the hardware does last."""
    nobody = _nobody(indices, size)
    if indices.size == 0 or size == 0:
        return nobody
    if max(nobody.size, indices.size) > MAX_ELEMENTS:
        return xla_any(indices, size=size)
    return kernels.any_writer(indices, size, launch=launch)


def kernel_last(indices: jax.Array, *, size: int, launch: Launch) -> jax.Array:
    """The same: a greatest position does not depend on who comes first."""
    del launch
    return xla_last(indices, size=size)


def _positions(indices: jax.Array) -> jax.Array:
    position = jnp.arange(indices.shape[1], dtype=jnp.int32)[None, :, None]
    return jnp.broadcast_to(position, indices.shape)


def _nobody(indices: jax.Array, size: int) -> jax.Array:
    outer, _, inner = indices.shape
    return vary_like(jnp.full((outer, size, inner), -1, jnp.int32), indices)
