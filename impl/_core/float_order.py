"""Integers in the order of floats.

The integer of a float whose sign bit is 0 is its bit pattern. The integer of a negative float is
its bit pattern with all other bits flipped (M. Herf, "Radix Tricks", 2001). For float32::

    -inf  ->  0x807fffff     -0.0  ->  0xffffffff     0.0  ->  0x00000000     inf  ->  0x7f800000

A minimum or maximum of these integers is the same in every order and on every device, also where
zeros have both signs, or a NaN occurs.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.lax_functions import filled, number


def in_order(bits: jax.Array) -> jax.Array:
    """Maps the bits of floats to integers in the order of the floats; it is its own inverse."""
    last = 8 * bits.dtype.itemsize - 1
    negative = lax.shift_right_arithmetic(bits, number(bits, last))
    magnitude = number(bits, int(jnp.iinfo(bits.dtype).max))
    return lax.bitwise_xor(bits, lax.bitwise_and(negative, magnitude))


def ordered_bits(sign: int, value: jax.Array) -> jax.Array:
    """Returns integers in the order of floats; a NaN is the greatest, or the lowest for sign -1."""
    word = jnp.dtype(f"int{8 * value.dtype.itemsize}")
    limits = jnp.iinfo(word)
    bits = in_order(lax.bitcast_convert_type(value, word))
    of_nan = filled(bits, int(limits.max if sign > 0 else limits.min))
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


def extreme_keys(sign: int, values: jax.Array) -> jax.Array:
    """Returns signed integers of 32 or 64 bits that compare as numbers of any real dtype do.

    The key of a NaN is beyond the keys of all numbers, and -0 is below 0. The map is one to one, so
    that ``from_extreme_keys`` returns the bits of each value.

    Args:
        sign: 1 if a NaN is the greatest, -1 if it is the lowest.
        values: Real numbers or bools.
    """
    dtype = values.dtype
    if jnp.issubdtype(dtype, jnp.floating):
        if dtype.itemsize == 1:
            # Some floats of 8 bits have no sign bit, or have NaNs between the numbers.
            return extreme_keys(sign, values.astype(jnp.float32))
        keys = in_order(lax.bitcast_convert_type(values, _word(dtype)))
        values = keys + _nans_of_one_sign(sign, dtype)
    if values.dtype == jnp.bool_ or values.dtype.itemsize < 4:
        return values.astype(jnp.int32)
    if jnp.issubdtype(values.dtype, jnp.signedinteger):
        return values
    word = _word(dtype)
    return lax.bitcast_convert_type(values, word) ^ jnp.array(jnp.iinfo(word).min, word)


def from_extreme_keys(sign: int, keys: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the values of ``dtype`` whose keys ``extreme_keys`` returned."""
    dtype = jnp.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.floating):
        if dtype.itemsize == 1:
            return from_extreme_keys(sign, keys, jnp.float32).astype(dtype)
        bits = in_order(keys.astype(_word(dtype)) - _nans_of_one_sign(sign, dtype))
        return lax.bitcast_convert_type(bits, dtype)
    if not jnp.issubdtype(dtype, jnp.unsignedinteger) or dtype.itemsize < 4:
        return keys.astype(dtype)
    return lax.bitcast_convert_type(keys ^ jnp.array(jnp.iinfo(keys.dtype).min, keys.dtype), dtype)


def _word(dtype: np.dtype) -> np.dtype:
    """Returns the signed integers of as many bits."""
    return np.dtype(f"int{8 * dtype.itemsize}")


def _nans_of_one_sign(sign: int, dtype: np.dtype) -> jax.Array:
    """Returns the distance by which integers in the order of floats are rotated.

    ``in_order`` maps negative NaNs to the least integers, and positive ones to the greatest. The
    sum with the distance wraps around, which brings all to one end.
    """
    return jnp.array(-sign * ((1 << jnp.finfo(dtype).nmant) - 1), _word(dtype))
