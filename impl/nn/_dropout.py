"""Dropout: the checks of its arguments, and the draw of the dropped elements."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.lax_functions import where


def share_of(function: str, name: str, value: Any) -> float:
    """Returns the share of elements to drop; one that is not in [0, 1] raises a RuntimeError."""
    share = arguments.real(function, name, value)
    if not 0 <= share <= 1:
        raise RuntimeError(
            f"{function}(): dropout probability has to be between 0 and 1, but got {value}"
        )
    return share


def check_key(function: str, name: str, key: Any) -> None:
    """Raises a TypeError if a value is neither a typed JAX key nor an array of uint32."""
    dtype = getattr(key, "dtype", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not typed and dtype != np.uint32:
        taken = "a JAX key, such as jax.random.key(0)"
        raise arguments.wrong_type(function, name, taken, key)


def dropped(x: jax.Array, key: jax.Array, share: float) -> jax.Array:
    """Replaces a share of the elements by 0, and scales the rest so that the mean stays."""
    stays = jax.random.bernoulli(key, 1 - share, x.shape)
    scale = 1 / (1 - share) if share < 1 else 0
    return where(stays, x * jnp.asarray(scale, x.dtype), 0)
