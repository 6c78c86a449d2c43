"""Integers that sort as the elements of an array do."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.lax_functions import filled


def as_sortable(values: jax.Array) -> jax.Array:
    """Returns real numbers or bools in a dtype whose bits JAX and a GPU can take."""
    dtype = values.dtype
    if dtype == jnp.bool_:
        return values.astype(jnp.uint8)
    if jnp.issubdtype(dtype, jnp.integer):
        return _whole_bytes(values)
    # Some floats of 8 bits have no infinity, no sign, or one NaN with the bit pattern of -0.
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
    raw = jax.lax.bitcast_convert_type(values, unsigned)

    def words(value: int) -> jax.Array:
        word = constant(value, unsigned)
        return filled(raw, word) if value < 1 << 63 else jnp.broadcast_to(word, raw.shape)

    # Each operation is of ``lax``: one of ``jax.numpy``, or an operator, is a trace of its own.
    signs = words(1 << (bits - 1))
    if jnp.issubdtype(values.dtype, jnp.integer):
        return jax.lax.bitwise_xor(raw, signs)
    ones, infinity = words((1 << bits) - 1), np.array(np.inf, values.dtype).view(unsigned)[()]
    magnitude = jax.lax.bitwise_and(raw, unsigned.type((1 << (bits - 1)) - 1))
    positive, negative = jax.lax.bitwise_or(raw, signs), jax.lax.bitwise_xor(raw, ones)
    keys = jax.lax.select(jax.lax.eq(raw, magnitude), positive, negative)
    keys = jax.lax.select(jax.lax.eq(magnitude, unsigned.type(0)), signs, keys)
    return jax.lax.select(jax.lax.gt(magnitude, infinity), ones, keys)


def constant(value: int, dtype: np.dtype[Any]) -> Any:
    """Returns an unsigned integer that a kernel may use.

    A kernel takes no arrays from outside, and Triton no literal of 2**63 or more.
    """
    if value < 1 << 63:
        return dtype.type(value)
    high = jnp.full((), value >> 32, dtype)
    return (high << dtype.type(32)) | dtype.type(value & 0xFFFFFFFF)
