"""Checks and conversions of arguments that are one number; ``arguments`` has all other checks."""

from __future__ import annotations

import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from impl._core.arguments import dtype_kind


def number(function: str, name: str, value: Any) -> Any:
    """Returns ``value``, which must be a number or a 0-d array.

    Raises:
        TypeError: ``value`` is neither.
    """
    if isinstance(value, numbers.Number) or (hasattr(value, "dtype") and np.ndim(value) == 0):
        return value
    raise TypeError(f"{function}(): argument '{name}' must be Number, not {type(value).__name__}")


def real(function: str, name: str, value: Any) -> float:
    """Returns ``value``, a real number, as a float.

    Raises:
        TypeError: ``value`` is a bool, or not a real number.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"{function}(): argument '{name}' must be float, not {type(value).__name__}"
        )
    return float(value)


def is_one(value: Any) -> bool:
    """Returns whether a number is known to be 1; the value of a traced number is unknown."""
    return isinstance(value, int | float | complex) and value == 1


def number_as(function: str, name: str, value: Any, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns ``value``, a number or a 0-d array, as a 0-d array of ``dtype``.

    As in PyTorch, an integer dtype cuts off the fraction, and an unsigned one wraps a negative
    integer around.

    Raises:
        TypeError: ``value`` is neither a number nor a 0-d array.
        RuntimeError: ``dtype`` cannot hold the number.
    """
    number(function, name, value)
    if isinstance(value, numbers.Number):
        converted, got = _converted(value, dtype), repr(value)
    else:
        complex_to_real = jnp.iscomplexobj(value) and dtype_kind(dtype) in ("floating", "integer")
        converted, got = None if complex_to_real else value, f"an array of {value.dtype}"
    if converted is None:
        raise RuntimeError(
            f"{function}(): argument '{name}' cannot be converted to {np.dtype(dtype)} without "
            f"overflow, got {got}; pass a number that the dtype of 'input' can hold"
        )
    return jnp.asarray(converted).astype(dtype)


def _converted(value: Any, dtype: jax.typing.DTypeLike) -> npt.NDArray[Any] | None:
    """Returns a number as a 0-d array of ``dtype``; None if that dtype cannot hold it."""
    kind = dtype_kind(dtype)
    if kind == "bool":
        return np.asarray(bool(value))
    parts = (complex(value).real, complex(value).imag)
    if kind != "complex" and parts[1]:
        return None
    if kind == "integer":
        limits, whole = jnp.iinfo(dtype), value.real
        wraps = limits.min == 0 and isinstance(whole, numbers.Integral)
        if not (-limits.max if wraps else limits.min) <= whole <= limits.max:
            return None
        return np.asarray(int(whole) % (limits.max + 1) if wraps else int(whole), dtype)
    largest = float(jnp.finfo(dtype).max)
    fits = all(abs(part) <= largest or not np.isfinite(part) for part in parts)
    return np.asarray(value, dtype) if fits else None
