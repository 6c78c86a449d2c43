"""Operations on integers that XLA computes wrongly while it compiles."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from impl._portable.rule import rule


def _leading_zeros(value: jax.Array, **_: Any) -> jax.Array:
    """Counts the leading zeros of the unsigned integers with the same bits.

    XLA folds the count of a negative constant to a negative number (jax 0.10; no upstream
    issue is known).
    """
    unsigned = lax.bitcast_convert_type(value, f"uint{8 * jnp.dtype(value.dtype).itemsize}")
    return lax.convert_element_type(lax.clz(unsigned), value.dtype)


rule("clz", compute=_leading_zeros)
