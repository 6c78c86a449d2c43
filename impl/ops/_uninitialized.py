"""Arguments and memory of the ops that make arrays: ``empty`` and its relatives, and ``resize``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from impl._mode import modes
from impl._mode.decide import decide
from impl._primitives.uninitialized import uninitialized

#: Keywords of PyTorch that have no meaning in JAX, with the alternative in JAX.
_ALTERNATIVES = {
    "device": "place the array with jax.device_put, or under jax.default_device",
    "layout": "arrays are strided; jax.experimental.sparse has sparse ones",
    "memory_format": "XLA chooses how an array lies in memory",
    "out": "arrays of JAX are not written to; use the returned array",
    "pin_memory": "use a sharding with the memory kind 'pinned_host'",
    "requires_grad": "what to differentiate by is an argument of jax.grad",
}


def make(function: str, shape: tuple[int, ...], dtype: Any, keywords: dict[str, Any]) -> jax.Array:
    """Makes an array of uninitialised memory for the op ``function``."""
    unused(function, keywords)
    dtype = element_type(function, dtype)
    decision = decide(function, fill_uninitialized_memory=modes.fill_uninitialized_memory())
    return uninitialized(shape, dtype, decision=decision)


def unused(function: str, keywords: dict[str, Any]) -> None:
    """Accepts PyTorch's keywords that have no meaning in JAX, if they are None or False.

    Raises:
        TypeError: A keyword has another value, or is not one of PyTorch's.
    """
    for name, value in keywords.items():
        if name not in _ALTERNATIVES:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        if value is not None and value is not False:
            raise TypeError(
                f"{function}(): argument '{name}' must be None or False, got {value!r}: "
                f"{_ALTERNATIVES[name]}"
            )


def element_type(function: str, dtype: Any) -> Any:
    """Returns ``dtype`` as JAX represents it, without x64 in 32 bits; None is the default float.

    Raises:
        TypeError: ``dtype`` is not a dtype of numbers or bool.
    """
    try:
        canonical = jax.dtypes.canonicalize_dtype(jnp.float_ if dtype is None else dtype)
        supported = jnp.issubdtype(canonical, jnp.number) or canonical == jnp.bool_
    except TypeError:
        supported = False
    if not supported:
        raise TypeError(
            f"{function}(): argument 'dtype' must be a dtype of numbers or bool, not {dtype!r}"
        )
    return canonical
