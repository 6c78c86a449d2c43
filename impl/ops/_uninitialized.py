"""What the ops that make arrays share."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from impl._mode import modes
from impl._mode.decide import decide
from impl._primitives.uninitialized import uninitialized

#: Keywords of PyTorch's that say where and how a tensor lies, and what to write in their place.
_ELSEWHERE = {
    "device": "place the array with jax.device_put, or under jax.default_device",
    "layout": "arrays are strided; sparse ones are those of jax.experimental.sparse",
    "memory_format": "XLA chooses how an array lies in memory",
    "out": "arrays of JAX are not written to; use what is returned",
    "pin_memory": "use a sharding with the memory kind 'pinned_host'",
    "requires_grad": "what to differentiate by is an argument of jax.grad",
}


def make(function: str, shape: tuple[int, ...], dtype: Any, keywords: dict[str, Any]) -> jax.Array:
    """An array of fresh memory, for the op ``function``."""
    unused(function, keywords)
    dtype = element_type(function, dtype)
    decision = decide(function, fill_uninitialized_memory=modes.fill_uninitialized_memory())
    return uninitialized(shape, dtype, decision=decision)


def unused(function: str, keywords: dict[str, Any]) -> None:
    """Takes PyTorch's keywords that have no meaning in JAX, where they ask for nothing.

    Raises:
        TypeError: One asks for something, or is none of PyTorch's.
    """
    for name, value in keywords.items():
        if name not in _ELSEWHERE:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        if value is not None and value is not False:
            raise TypeError(
                f"{function}(): argument '{name}' must be None or False, got {value!r}: "
                f"{_ELSEWHERE[name]}"
            )


def element_type(function: str, dtype: Any) -> Any:
    """``dtype`` as a dtype that JAX has at present; None is its default for floats.

    Raises:
        TypeError: It is none of numbers or bool.
    """
    try:
        wanted = jax.dtypes.canonicalize_dtype(jnp.float_ if dtype is None else dtype)
        known = jnp.issubdtype(wanted, jnp.number) or wanted == jnp.bool_
    except TypeError:
        known = False
    if not known:
        raise TypeError(
            f"{function}(): argument 'dtype' must be a dtype of numbers or bool, not {dtype!r}"
        )
    return wanted
