"""Products of matrices with the precision that this package promises."""

from __future__ import annotations

import jax

from impl._core import jax_internals


def precision() -> str:
    """Returns the precision of products: the one that the user configured, else the highest."""
    return jax_internals.default_matmul_precision() or "highest"


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiplies [..., m, k] by [..., k, n], of equal batch dimensions and dtypes.

    XLA adds float16 and bfloat16 in float32, and rounds once.
    """
    batch = tuple(range(a.ndim - 2))
    numbers = (((a.ndim - 1,), (a.ndim - 2,)), (batch, batch))
    return jax.lax.dot_general(a, b, numbers, precision=precision())
