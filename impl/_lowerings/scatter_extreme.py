"""Scatter-minimum and -maximum: exact, and the same in every order.

Floats are mapped onto integers that sort as they do, so that signs of zeros and NaNs too are the
same in every order and on every device: -0 comes before 0, and a NaN goes before every number,
whichever extreme is asked for. The map is one to one: a place without updates keeps its bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.reductions import Reduction
from impl._kernels.triton import Launch
from impl._lowerings.scatter_accumulate import scatter_by


def to_keys(values: jax.Array, reduction: Reduction) -> jax.Array:
    """Signed integers of at least 32 bits that compare as ``values`` do, NaNs before numbers."""
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return _signed(values)
    word, sign, turn = _words(values.dtype, reduction)
    raw = jax.lax.bitcast_convert_type(values, word)
    rising = jnp.where(raw >= sign, ~raw, raw | sign)
    return _signed(rising + turn)


def from_keys(keys: jax.Array, dtype: jax.typing.DTypeLike, reduction: Reduction) -> jax.Array:
    """What ``to_keys`` made the keys of."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return _unsigned(keys, dtype)
    word, sign, turn = _words(dtype, reduction)
    rising = _unsigned(keys, word) - turn
    raw = jnp.where(rising >= sign, rising ^ sign, ~rising)
    return jax.lax.bitcast_convert_type(raw, jnp.dtype(dtype))


def _words(
    dtype: jax.typing.DTypeLike, reduction: Reduction
) -> tuple[np.dtype[Any], jax.Array, jax.Array]:
    """The type that holds a float's bits, its sign bit, and a turn of the ring of keys.

    The turn brings the NaNs of both signs to the side that wins.
    """
    info = jnp.finfo(dtype)
    word = np.dtype(f"uint{info.bits}")
    nans_of_one_sign = (1 << info.nmant) - 1
    turn = nans_of_one_sign if reduction.name == "min" else (1 << info.bits) - nans_of_one_sign
    return word, jnp.array(1 << (info.bits - 1), word), jnp.array(turn, word)


def _signed(values: jax.Array) -> jax.Array:
    """Integers of 32 or 64 bits that compare as ``values``, of any integer type, do."""
    if values.dtype == jnp.bool_ or values.dtype.itemsize < 4:
        return values.astype(jnp.int32)
    if jnp.issubdtype(values.dtype, jnp.signedinteger):
        return values
    bits = values.dtype.itemsize * 8
    flipped = values ^ jnp.array(1 << (bits - 1), values.dtype)
    return jax.lax.bitcast_convert_type(flipped, jnp.dtype(f"int{bits}"))


def _unsigned(keys: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """The inverse of ``_signed``."""
    dtype = jnp.dtype(dtype)
    if not jnp.issubdtype(dtype, jnp.unsignedinteger) or dtype.itemsize < 4:
        return keys.astype(dtype)
    raw = jax.lax.bitcast_convert_type(keys, dtype)
    return raw ^ jnp.array(1 << (dtype.itemsize * 8 - 1), dtype)


def by_keys(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Gives ``function`` keys for operand and updates."""

    @functools.wraps(function)
    def run(
        operand: jax.Array,
        indices: jax.Array,
        updates: jax.Array,
        *,
        reduction: Reduction,
        **rest: Any,
    ) -> jax.Array:
        if updates.size == 0 or operand.size == 0:
            return operand
        keys = (to_keys(operand, reduction), indices, to_keys(updates, reduction))
        return from_keys(function(*keys, reduction=reduction, **rest), operand.dtype, reduction)

    return run


@by_keys
def xla(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, reduction: Reduction
) -> jax.Array:
    """XLA's own scatter, of integers."""
    return scatter_by(reduction, operand, indices, updates)


def kernel(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    reduction: Reduction,
    launch: Launch,
) -> jax.Array:
    """The same: there is no order for a kernel to leave open or to keep."""
    del launch
    return xla(operand, indices, updates, reduction=reduction)
