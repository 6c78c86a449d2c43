"""Integers by which floats have one minimum and one maximum, in every order.

Floats are mapped to integers that sort alike, so that zeros of both signs and NaNs too give the
same result in every order and on every device: -0 is below 0, and a NaN is the minimum as well as
the maximum. The map is one to one, so an element without contributions keeps its bits. This is the
usual map of radix sorts: the bits of a negative number are inverted, the sign bit of others is set.
Keys are then rotated, so that NaNs of both signs lie at one end.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.lax_functions import where
from impl._kernels.reductions import ReductionName


def to_keys(values: jax.Array, by: ReductionName) -> jax.Array:
    """Returns signed integers of 32 or 64 bits that compare as ``values`` do.

    The key of a NaN is beyond the keys of all numbers: below for a minimum, above for a maximum.
    """
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return _signed(values)
    if values.dtype.itemsize == 1:
        # Some floats of 8 bits have no sign bit, or have NaNs between the numbers.
        return to_keys(values.astype(jnp.float32), by)
    word, sign, rotation = _words(values.dtype, by)
    raw = jax.lax.bitcast_convert_type(values, word)
    rising = where(raw >= sign, ~raw, raw | sign)
    return _signed(rising + rotation)


def from_keys(keys: jax.Array, dtype: jax.typing.DTypeLike, by: ReductionName) -> jax.Array:
    """Returns the values whose keys ``to_keys`` returned."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return _unsigned(keys, dtype)
    if jnp.dtype(dtype).itemsize == 1:
        return from_keys(keys, jnp.float32, by).astype(dtype)
    word, sign, rotation = _words(dtype, by)
    rising = _unsigned(keys, word) - rotation
    raw = where(rising >= sign, rising ^ sign, ~rising)
    return jax.lax.bitcast_convert_type(raw, jnp.dtype(dtype))


def _words(
    dtype: jax.typing.DTypeLike, by: ReductionName
) -> tuple[np.dtype[Any], jax.Array, jax.Array]:
    """Returns the integer type that holds a float's bits, its sign bit, and a rotation of keys.

    Without the rotation NaNs of one sign have the least keys and NaNs of the other sign the
    greatest. The rotation is added modulo the word, and brings both to one end.
    """
    info = jnp.finfo(dtype)
    word = np.dtype(f"uint{info.bits}")
    nans_of_one_sign = (1 << info.nmant) - 1
    rotation = nans_of_one_sign if by == "min" else (1 << info.bits) - nans_of_one_sign
    return word, jnp.array(1 << (info.bits - 1), word), jnp.array(rotation, word)


def _signed(values: jax.Array) -> jax.Array:
    """Returns integers of 32 or 64 bits that compare as ``values``, of any integer type, do."""
    if values.dtype == jnp.bool_ or values.dtype.itemsize < 4:
        return values.astype(jnp.int32)
    if jnp.issubdtype(values.dtype, jnp.signedinteger):
        return values
    bits = values.dtype.itemsize * 8
    flipped = values ^ jnp.array(1 << (bits - 1), values.dtype)
    return jax.lax.bitcast_convert_type(flipped, jnp.dtype(f"int{bits}"))


def _unsigned(keys: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns the integers of ``dtype`` whose keys ``_signed`` returned."""
    dtype = jnp.dtype(dtype)
    if not jnp.issubdtype(dtype, jnp.unsignedinteger) or dtype.itemsize < 4:
        return keys.astype(dtype)
    raw = jax.lax.bitcast_convert_type(keys, dtype)
    return raw ^ jnp.array(1 << (dtype.itemsize * 8 - 1), dtype)
