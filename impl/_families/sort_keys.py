"""Unsigned integers that sort as the elements of an array do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from impl._core import float_order


def sort_keys(values: jax.Array) -> jax.Array:
    """Returns the keys of ``float_order.sort_keys`` as unsigned integers in the same order."""
    keys = float_order.sort_keys(values)
    if jnp.issubdtype(keys.dtype, jnp.unsignedinteger):
        return keys
    least = lax.full_like(keys, jnp.iinfo(keys.dtype).min)
    unsigned = jnp.dtype(f"uint{8 * keys.dtype.itemsize}")
    return lax.bitcast_convert_type(lax.bitwise_xor(keys, least), unsigned)
