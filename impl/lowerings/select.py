"""Position of the k-th smallest along the middle axis of [outer, n, inner], on both paths.

The k-th value is found by integers alone, one bit at a time, so it is the same on every device;
the paths differ in which of several equal elements they point at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from impl.kernels import select as kernels
from impl.kernels.launch import Launch
from impl.manual_axes import vary_like

#: From keys [rows, n] and a wanted key for each row to a position in each row.
Pick = Callable[[jax.Array, jax.Array], jax.Array]


def xla_first(values: jax.Array, *, k: int) -> jax.Array:
    """The lowest position of the k-th smallest."""
    return _kth(values, k, _argmax)


def kernel_first(values: jax.Array, *, k: int, launch: Launch) -> jax.Array:
    """The lowest position of the k-th smallest."""
    return _kth(values, k, functools.partial(kernels.first_position, launch=launch))


def kernel_any(values: jax.Array, *, k: int, launch: Launch) -> jax.Array:
    """Any position of the k-th smallest."""
    return _kth(values, k, functools.partial(kernels.any_position, launch=launch))


def sort_keys(values: jax.Array) -> jax.Array:
    """Unsigned integers that sort as ``values`` do: -0 equals 0, all NaNs are equal and last."""
    bits = np.dtype(values.dtype).itemsize * 8
    unsigned = jnp.dtype(f"uint{bits}")
    sign = jnp.array(1 << (bits - 1), unsigned)
    if values.dtype == jnp.bool_ or jnp.issubdtype(values.dtype, jnp.unsignedinteger):
        return values.astype(unsigned)
    raw = jax.lax.bitcast_convert_type(values, unsigned)
    if jnp.issubdtype(values.dtype, jnp.integer):
        return raw ^ sign
    magnitude = raw & ~sign
    infinity = jax.lax.bitcast_convert_type(jnp.array(jnp.inf, values.dtype), unsigned)
    keys = jnp.where(raw == magnitude, raw | sign, ~raw)
    keys = jnp.where(magnitude == 0, sign, keys)
    return jnp.where(magnitude > infinity, ~unsigned.type(0), keys)


def _kth(values: jax.Array, k: int, pick: Pick) -> jax.Array:
    outer, n, inner = values.shape
    if values.size == 0:
        return jnp.zeros((outer, 1, inner), jnp.int32)
    keys = sort_keys(jnp.moveaxis(values, 1, 2).reshape(outer * inner, n))
    position = pick(keys, _kth_key(keys, k))
    return position.astype(jnp.int32).reshape(outer, 1, inner)


def _kth_key(keys: jax.Array, k: int) -> jax.Array:
    """The k-th smallest key of each row: the bits of the answer are settled from the highest."""
    bits = keys.dtype.itemsize * 8
    one = keys.dtype.type(1)

    def settle(step: jax.Array, known: jax.Array) -> jax.Array:
        bit = one << (bits - 1 - step).astype(keys.dtype)
        below = jnp.sum(keys <= (known | (bit - one))[:, None], axis=1, dtype=jnp.int32)
        return jnp.where(below < k, known | bit, known)

    none = vary_like(jnp.zeros((keys.shape[0],), keys.dtype), keys)
    return jax.lax.fori_loop(0, bits, settle, none)  # type: ignore[no-any-return]


def _argmax(keys: jax.Array, wanted: jax.Array) -> jax.Array:
    return jnp.argmax(keys == wanted[:, None], axis=1)
