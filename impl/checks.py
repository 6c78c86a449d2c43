"""Checks of arguments, with PyTorch's exception types; every message says what is allowed."""

from __future__ import annotations

import numbers
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import spec

#: What ops take for an array.
Array: TypeAlias = jax.Array | npt.NDArray[Any] | np.generic


def array(function: str, name: str, value: Any) -> jax.Array:
    """``value`` as a JAX array.

    Raises:
        TypeError: It is neither a JAX nor a NumPy array.
    """
    if not isinstance(value, jax.Array | np.ndarray | np.generic):
        raise TypeError(
            f"{function}(): argument '{name}' must be a jax.Array or a NumPy array, not "
            f"{type(value).__name__}; wrap it in jax.numpy.asarray"
        )
    return jnp.asarray(value)


def integer(function: str, name: str, value: Any) -> int:
    """``value`` as an int.

    Raises:
        TypeError: It is not an integer, or is only known when a program runs.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{function}(): argument '{name}' must be int, not {type(value).__name__}")
    return int(value)


def flag(function: str, name: str, value: Any) -> None:
    """Refuses what is not a bool.

    Raises:
        TypeError: It is not.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{function}(): argument '{name}' must be bool, not {type(value).__name__}")


def dimension(dim: Any, ndim: int, function: str) -> int:
    """``dim`` counted from the front; a 0-d array counts as having one dimension.

    Raises:
        TypeError: ``dim`` is not an int.
        IndexError: There is no such dimension.
    """
    asked = integer(function, "dim", dim)
    ndim = max(ndim, 1)
    if not -ndim <= asked < ndim:
        raise IndexError(
            f"{function}(): Dimension out of range (expected to be in range of "
            f"[{-ndim}, {ndim - 1}], but got {asked})"
        )
    return asked % ndim


def index_array(function: str, index: Any) -> jax.Array:
    """``index`` as a JAX array of int32 or int64.

    Raises:
        TypeError: It is not an array.
        RuntimeError: It is of another dtype.
    """
    array(function, "index", index)
    if np.dtype(index.dtype) not in (np.int32, np.int64):
        raise RuntimeError(
            f"{function}(): Expected dtype int32/int64 for index but got: {index.dtype}"
        )
    return jnp.asarray(index)


def index_vector(function: str, index: Any) -> jax.Array:
    """``index`` as a JAX array of int32 or int64 with one dimension; a number has one element.

    Raises:
        TypeError: It is not an array.
        RuntimeError: It is of another dtype.
        IndexError: It has more dimensions.
    """
    vector = index_array(function, index)
    if vector.ndim > 1:
        raise IndexError(
            f"{function}(): Index is supposed to be a vector, but got dim: {vector.ndim} with "
            f"shape {list(vector.shape)}"
        )
    return vector.reshape(-1)


def index_range(
    function: str, index: Any, size: int, dim: int, error: type[Exception] = RuntimeError
) -> None:
    """Refuses an index outside ``[0, size)`` where its values are known.

    Under ``jit`` they are not, and such an index is dropped, or reads the fill value.

    Raises:
        RuntimeError: An index is out of range (or the ``error`` that PyTorch has here).
    """
    if isinstance(index, jax.core.Tracer) or not getattr(index, "is_fully_addressable", True):
        return
    known = np.asarray(index)
    if known.size == 0 or (known.min() >= 0 and known.max() < size):
        return
    position = tuple(int(i) for i in np.argwhere((known < 0) | (known >= size))[0])
    allowed = f"allowed are 0 to {size - 1}" if size else "none is allowed"
    raise error(
        f"{function}(): index {known[position]} is out of bounds for dimension {dim} with size "
        f"{size}, at position {list(position)} of argument 'index'; {allowed}"
    )


def number(function: str, name: str, value: Any) -> Any:
    """``value``, a number or a 0-d array.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(value, numbers.Number) or (hasattr(value, "dtype") and np.ndim(value) == 0):
        return value
    raise TypeError(f"{function}(): argument '{name}' must be Number, not {type(value).__name__}")


def is_one(value: Any) -> bool:
    """Whether a number is known to be 1; one that is traced is not known."""
    return isinstance(value, int | float | complex) and value == 1


def dtype_kind(dtype: jax.typing.DTypeLike) -> str:
    """The value of the fact ``dtype``."""
    if jnp.issubdtype(dtype, jnp.bool_):
        return "bool"
    if jnp.issubdtype(dtype, jnp.integer):
        return "integer"
    return "complex" if jnp.issubdtype(dtype, jnp.complexfloating) else "floating"


def facts(input: jax.Array, **others: spec.FactValue) -> dict[str, spec.FactValue]:
    """The facts that every op states of its input, and ``others``."""
    return {"dtype": dtype_kind(input.dtype), "input_ndim": input.ndim, **others}


def same_ndim(function: str, index: jax.Array, **others: jax.Array) -> None:
    """Refuses an index of another number of dimensions than ``others``.

    Raises:
        RuntimeError: The numbers differ.
    """
    for name, other in others.items():
        if max(index.ndim, 1) != max(other.ndim, 1):
            raise RuntimeError(
                f"{function}(): argument 'index' must have as many dimensions as '{name}', but "
                f"got shapes {list(index.shape)} and {list(other.shape)}"
            )


def no_larger(
    function: str,
    index: jax.Array,
    dim: int,
    other: jax.Array,
    *,
    but_along_dim: bool,
    name: str = "input",
) -> None:
    """Refuses an index that is larger than ``other`` in some dimension.

    Raises:
        RuntimeError: It is.
    """
    for axis, (own, limit) in enumerate(zip(index.shape, other.shape, strict=False)):
        if own > limit and not (but_along_dim and axis == dim):
            apart = f" apart from dimension {dim}" if but_along_dim else ""
            raise RuntimeError(
                f"{function}(): expected index {list(index.shape)} to be no larger than {name} "
                f"{list(other.shape)}{apart}, but dimension {axis} is"
            )
