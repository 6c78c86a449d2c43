"""Integers in the order of floats.

The integer of a float whose sign bit is 0 is its bit pattern. The integer of a negative float is
its bit pattern with all other bits flipped (M. Herf, "Radix Tricks", 2001). For float32::

    -inf  ->  0x807fffff     -0.0  ->  0xffffffff     0.0  ->  0x00000000     inf  ->  0x7f800000
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax


def in_order(bits: jax.Array) -> jax.Array:
    """Maps the bits of floats to integers in the order of the floats; it is its own inverse."""
    last = 8 * bits.dtype.itemsize - 1
    negative = lax.shift_right_arithmetic(bits, lax.full_like(bits, last))
    return lax.bitwise_xor(
        bits, lax.bitwise_and(negative, lax.full_like(bits, jnp.iinfo(bits.dtype).max))
    )


def ordered_bits(sign: int, value: jax.Array) -> jax.Array:
    """Returns integers in the order of floats; a NaN is the greatest, or the lowest.

    Args:
        sign: 1 if a NaN is the greatest, -1 if it is the lowest.
        value: Floats.
    """
    word = jnp.dtype(f"int{8 * value.dtype.itemsize}")
    limits = jnp.iinfo(word)
    bits = in_order(lax.bitcast_convert_type(value, word))
    of_nan = lax.full_like(bits, limits.max if sign > 0 else limits.min)
    return lax.select(lax.ne(value, value), of_nan, bits)


def sort_keys(values: jax.Array) -> jax.Array:
    """Returns integers that sort as real numbers or bools do: -0 is 0, and NaNs are the greatest.

    Equal elements have equal keys, also if they are NaNs.
    """
    dtype = values.dtype
    if jnp.issubdtype(dtype, jnp.floating):
        # Some floats of 8 bits have no infinity, no sign, or one NaN with the bit pattern of -0.
        keys = ordered_bits(1, values.astype(jnp.float32) if dtype.itemsize == 1 else values)
        return lax.select(lax.eq(keys, lax.full_like(keys, -1)), lax.full_like(keys, 0), keys)
    if dtype == jnp.bool_:
        return values.astype(jnp.uint8)
    # XLA does not sort integers of 2 or 4 bits on every device.
    info = jnp.iinfo(dtype)
    return values if info.bits >= 8 else values.astype(jnp.int8 if info.min < 0 else jnp.uint8)
