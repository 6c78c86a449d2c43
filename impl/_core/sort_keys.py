"""Integers that sort as the elements of an array do."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def as_sortable(values: jax.Array) -> jax.Array:
    """Returns real numbers or bools in a dtype whose bits JAX and a GPU can take."""
    dtype = values.dtype
    if dtype == jnp.bool_:
        return values.astype(jnp.uint8)
    if jnp.issubdtype(dtype, jnp.integer):
        return _whole_bytes(values)
    # Some floats of 8 bits have no infinity, no sign, or one NaN whose bits are those of -0.
    return values.astype(jnp.float32) if np.dtype(dtype).itemsize == 1 else values


def _whole_bytes(integers: jax.Array) -> jax.Array:
    """Returns integers of at least 8 bits: JAX cannot take the bits of a narrower dtype."""
    info = jnp.iinfo(integers.dtype)
    if info.bits >= 8:
        return integers
    return integers.astype(jnp.int8 if info.min < 0 else jnp.uint8)


def sort_keys(values: jax.Array) -> jax.Array:
    """Returns unsigned integers that sort as ``values`` do.

    -0 and 0 have the same key. All NaNs have the same key, which is the greatest. A kernel may call
    this too.
    """
    values = as_sortable(values)
    if jnp.issubdtype(values.dtype, jnp.unsignedinteger):
        return values
    bits = np.dtype(values.dtype).itemsize * 8
    unsigned = np.dtype(f"uint{bits}")
    sign, ones = constant(1 << (bits - 1), unsigned), constant((1 << bits) - 1, unsigned)
    raw = jax.lax.bitcast_convert_type(values, unsigned)
    if jnp.issubdtype(values.dtype, jnp.integer):
        return raw ^ sign  # type: ignore[no-any-return]
    magnitude = raw & (sign - unsigned.type(1))
    infinity = np.array(np.inf, values.dtype).view(unsigned)[()]
    # Not jnp.where: each would be a function of its own in the program.
    ones, signs = (jnp.broadcast_to(word, raw.shape) for word in (ones, sign))
    keys = jax.lax.select(raw == magnitude, raw | signs, raw ^ ones)
    keys = jax.lax.select(magnitude == 0, signs, keys)
    return jax.lax.select(magnitude > infinity, ones, keys)


def constant(value: int, dtype: np.dtype[Any]) -> Any:
    """Returns an unsigned integer that a kernel may use.

    A kernel takes no arrays from outside, and Triton no literal of 2**63 or more.
    """
    if value < 1 << 63:
        return dtype.type(value)
    high = jnp.full((), value >> 32, dtype)
    return (high << dtype.type(32)) | dtype.type(value & 0xFFFFFFFF)
