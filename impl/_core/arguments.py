"""Checks of arguments, with PyTorch's exception types; every message says what is allowed."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
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


def integers(function: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """``value``, an int for all of ``count`` places or a sequence of one for each.

    Raises:
        TypeError: It is neither an int nor a sequence of them.
        RuntimeError: The sequence is of another length.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        return (integer(function, name, value),) * count
    if len(value) != count:
        raise RuntimeError(
            f"{function}(): argument '{name}' must be an int or {count} of them, but got "
            f"{len(value)} elements: {list(value)}"
        )
    return tuple(integer(function, f"{name}[{i}]", one) for i, one in enumerate(value))


def sizes(
    function: str, given: Sequence[Any], by_name: Any = None, *, name: str = "size"
) -> tuple[int, ...]:
    """The sizes of a new array, given one by one, as one tuple or list, or by the argument's name.

    Raises:
        TypeError: They are given in none of these ways, or are not ints.
        RuntimeError: One is negative.
    """
    if bool(given) == (by_name is not None):
        raise TypeError(
            f"{function}() takes argument '{name}' once: as ints, or as a tuple of ints"
        )
    value = by_name if by_name is not None else given[0] if len(given) == 1 else given
    if by_name is None and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        value = given
    if not isinstance(value, tuple | list):
        raise TypeError(
            f"{function}(): argument '{name}' must be tuple of ints, not {type(value).__name__}"
        )
    out = tuple(integer(function, f"{name}[{i}]", one) for i, one in enumerate(value))
    for size in out:
        if size < 0:
            raise RuntimeError(
                f"{function}(): Trying to create an array with negative dimension {size} in "
                f"argument '{name}': {list(out)}"
            )
    return out


def flag(function: str, name: str, value: Any) -> None:
    """Refuses what is not a bool.

    Raises:
        TypeError: It is not.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{function}(): argument '{name}' must be bool, not {type(value).__name__}")


def dimension(dim: Any, ndim: int, function: str, *, numbers_have_one: bool = True) -> int:
    """``dim`` counted from the front; a 0-d array counts as having one dimension, if it may.

    Raises:
        TypeError: ``dim`` is not an int.
        IndexError: There is no such dimension.
    """
    asked = integer(function, "dim", dim)
    if ndim == 0 and not numbers_have_one:
        raise IndexError(f"{function}(): Dimension specified as {asked} but input has none")
    ndim = max(ndim, 1)
    if not -ndim <= asked < ndim:
        raise IndexError(
            f"{function}(): Dimension out of range (expected to be in range of "
            f"[{-ndim}, {ndim - 1}], but got {asked})"
        )
    return asked % ndim


def index_array(function: str, index: Any, name: str = "index") -> jax.Array:
    """``index`` as a JAX array of int32 or int64.

    Raises:
        TypeError: It is not an array.
        RuntimeError: It is of another dtype.
    """
    array(function, name, index)
    if np.dtype(index.dtype) not in (np.int32, np.int64):
        raise RuntimeError(
            f"{function}(): Expected dtype int32/int64 for {name} but got: {index.dtype}"
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
    function: str,
    index: Any,
    size: int,
    dim: int | None,
    error: type[Exception] = RuntimeError,
    *,
    wrap: bool = False,
    name: str = "index",
    of: str = "",
) -> None:
    """Refuses an index outside ``[0, size)`` where its values are known.

    Under ``jit`` they are not, and such an index is dropped, or reads the fill value.

    Args:
        function: Who asks.
        index: The indices.
        size: How many elements they count.
        dim: The dimension that they count along, or None for all elements of ``input``.
        error: The exception that PyTorch has here.
        wrap: Whether negative indices count from the end: allowed is then ``[-size, size)``.
        name: What to call ``index``.
        of: What it counts, as the message is to say it, in place of ``dim`` and ``size``.

    Raises:
        RuntimeError: An index is out of range (or the ``error`` that PyTorch has here).
    """
    values = known(index)
    if values is None:
        return
    low = -size if wrap else 0
    if values.size == 0 or (values.min() >= low and values.max() < size):
        return
    position = tuple(int(i) for i in np.argwhere((values < low) | (values >= size))[0])
    allowed = f"allowed are {low} to {size - 1}" if size else "none is allowed"
    at = f"an input of {size} elements" if dim is None else f"dimension {dim} with size {size}"
    raise error(
        f"{function}(): index {values[position]} is out of bounds for {of or at}, at position "
        f"{list(position)} of argument '{name}'; {allowed}"
    )


def known(value: Any) -> npt.NDArray[Any] | None:
    """The values of an array, or None where this process does not know them (under ``jit``)."""
    if isinstance(value, jax.core.Tracer) or not getattr(value, "is_fully_addressable", True):
        return None
    return np.asarray(value)


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


def choice(
    function: str,
    name: str,
    value: Any,
    allowed: Sequence[str],
    error: type[Exception] = RuntimeError,
) -> None:
    """Refuses a string that is not one of those ``allowed``.

    Raises:
        TypeError: It is no string.
        RuntimeError: It is another one (or the ``error`` that PyTorch has here).
    """
    if not isinstance(value, str):
        raise TypeError(f"{function}(): argument '{name}' must be str, not {type(value).__name__}")
    if value not in allowed:
        raise error(
            f"{function}(): argument '{name}' must be one of {', '.join(map(repr, allowed))}, but "
            f"got {value!r}"
        )


def number_as(function: str, name: str, value: Any, dtype: jax.typing.DTypeLike) -> jax.Array:
    """``value``, a number or a 0-d array, as a 0-d array of ``dtype``.

    As in PyTorch, a fraction is cut off where ``dtype`` is of integers, and a negative integer
    wraps around where it is unsigned.

    Raises:
        TypeError: ``value`` is neither.
        RuntimeError: ``dtype`` cannot hold it.
    """
    number(function, name, value)
    if isinstance(value, numbers.Number):
        held, got = _held(value, dtype), repr(value)
    else:
        complex_to_real = jnp.iscomplexobj(value) and dtype_kind(dtype) in ("floating", "integer")
        held, got = None if complex_to_real else value, f"an array of {value.dtype}"
    if held is None:
        raise RuntimeError(
            f"{function}(): argument '{name}' cannot be converted to {np.dtype(dtype)} without "
            f"overflow, got {got}; pass a number that the dtype of 'input' can hold"
        )
    return jnp.asarray(held).astype(dtype)


def _held(value: Any, dtype: jax.typing.DTypeLike) -> npt.NDArray[Any] | None:
    """A number, as an array of ``dtype``; None if that cannot hold it."""
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


def source_slices(function: str, input: jax.Array, dim: int, count: int, source: jax.Array) -> None:
    """Refuses a source that is not ``count`` slices of ``input`` along ``dim``, of its dtype.

    Raises:
        RuntimeError: It is not.
    """
    if input.dtype != source.dtype:
        raise RuntimeError(
            f"{function}(): input ({input.dtype}) and source ({source.dtype}) must have the same "
            "dtype; convert one of them"
        )
    rest = [list(a.shape[:dim] + a.shape[dim + 1 :]) for a in (input, source)]
    if input.ndim != source.ndim or rest[0] != rest[1]:
        raise RuntimeError(
            f"{function}(): source shape must match input shape, excluding the specified dimension "
            f"{dim}. Got input.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )
    length = source.shape[dim] if source.ndim else 1
    if length != count:
        raise RuntimeError(
            f"{function}(): Number of indices ({count}) should be equal to source.shape[dim]: "
            f"({length}), for dim: {dim}"
        )


def same_dtype(function: str, input: jax.Array, **others: jax.Array) -> None:
    """Refuses arrays of another dtype than ``input``.

    Raises:
        RuntimeError: There is one.
    """
    for name, other in others.items():
        if input.dtype != other.dtype:
            raise RuntimeError(
                f"{function}(): input ({input.dtype}) and {name} ({other.dtype}) must have the "
                "same dtype; convert one of them"
            )


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
