"""Subnormals and formats of floats, for the operations of this package.

A CPU counts subnormal floats as zeros and a GPU computes with them, so functions flush them to zero
where the device does not. Floats of 16 bits are computed in float32, and so rounded twice, in the
same way on every device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._portable.rule import Compute, rule


def operation(name: str, compute: Compute, **fields: Any) -> None:
    """Registers an operation that takes ``flushes``: whether to flush subnormals to zero.

    Args:
        name: The name of the primitive.
        compute: The function of arrays.
        **fields: Further attributes of its record.
    """
    rule(name, compute=compute, takes=frozenset({"flushes"}), **fields)


def of_elements(name: str, compute: Compute, **fields: Any) -> None:
    """Registers an operation that computes each element alone, in the same way for all shapes."""
    operation(name, compute, is_elementwise=True, **fields)


def working_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype in which operations on floats of a dtype are computed."""
    return np.dtype(np.float32) if jnp.finfo(dtype).bits < 32 else np.dtype(dtype)


def working(operands: Sequence[jax.Array], *, flushes: bool) -> list[jax.Array]:
    """Returns floats in the dtype in which operations on them are computed."""
    wide = [lax.convert_element_type(each, working_dtype(each.dtype)) for each in operands]
    return [flushed(each) for each in wide] if flushes else wide


def flushed(value: jax.Array) -> jax.Array:
    """Returns ``value`` with a zero of the same sign for each subnormal number."""
    return zero_where(is_below(value, float(jnp.finfo(value.dtype).tiny)), value)


def is_below(value: jax.Array, bound: float) -> jax.Array:
    """Returns whether magnitudes are below a bound."""
    return lax.lt(lax.abs(value), lax.full_like(value, bound))


def zero_where(chosen: jax.Array, value: jax.Array) -> jax.Array:
    """Returns ``value``, with a zero of the same sign where ``chosen`` is true."""
    unsigned = jnp.dtype(f"uint{8 * value.dtype.itemsize}")
    sign = lax.bitcast_convert_type(value, unsigned)
    mask = lax.full_like(sign, 1 << (8 * value.dtype.itemsize - 1))
    zero = lax.bitcast_convert_type(lax.bitwise_and(sign, mask), value.dtype)
    return lax.select(chosen, zero, value)
