"""Sums of any float in the spec's order ``nearest``: chooses the arithmetic by the dtypes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from impl._exact import arithmetic
from impl._exact.nearest import long_sums, sums


def rounded_sums(terms: jax.Array, dtype: jax.typing.DTypeLike, how: sums.Sums) -> jax.Array:
    """Returns sums rounded once. A sum of zero is +0; a subnormal float32 or float64 counts as 0.

    Args:
        terms: float16, bfloat16, float32 or float64.
        dtype: The dtype of the result, one of them.
        how: How the terms are added.
    """
    is_long = terms.dtype == np.float64
    if not is_long and jnp.dtype(dtype) != np.float64:
        return sums.rounded_sums(terms, dtype, how)
    return long_sums.rounded_sums(terms if is_long else arithmetic.widen(terms), dtype, how)
