"""Checks and conversions of the arguments of ops, with PyTorch's types of exceptions.

Each function takes the name of the op and of the argument for its message, which states the allowed
and the given value. Checks of values run at each eager call, and not under ``jit``::

    dimension(-1, 2, "cumsum")    # 1
    dimension(2, 2, "cumsum")     # IndexError: cumsum(): Dimension out of range (...)
    integer("topk", "k", 2.0)     # TypeError: topk(): argument 'k' must be int, not float
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import spec
from impl._core import eager, few_integers

#: The words for each value of the fact ``dtype``.
_KINDS = {
    "bool": "bools",
    "integer": "integers",
    "floating": "floats",
    "complex": "complex numbers",
}
#: The types that ops accept as an array.
Array: TypeAlias = jax.Array | npt.NDArray[Any] | np.generic


def wrong_type(function: str, name: str, taken: str, value: Any, hint: str = "") -> TypeError:
    """Returns the error for a value of another type than an argument takes."""
    kind = type(value).__name__
    return TypeError(f"{function}(): argument '{name}' must be {taken}, not {kind}{hint}")


def array(function: str, name: str, value: Any) -> jax.Array:
    """Returns ``value`` as a JAX array; it raises as ``native`` does."""
    return jnp.asarray(native(function, name, value))


def native(function: str, name: str, value: Any) -> Array:
    """Returns ``value``, an array of numbers or bools; in NumPy, in the machine's byte order."""
    if isinstance(value, jax.Array):
        return value
    if not isinstance(value, np.ndarray | np.generic):
        hint = "; wrap it in jax.numpy.asarray"
        raise wrong_type(function, name, "a jax.Array or a NumPy array", value, hint)
    if not (jnp.issubdtype(value.dtype, jnp.number) or value.dtype == np.bool_):
        raise TypeError(
            f"{function}(): argument '{name}' must be of numbers or bools, but its dtype is "
            f"{value.dtype}"
        )
    return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))


def integer(function: str, name: str, value: Any) -> int:
    """Returns ``value`` as an int; one that is traced, or is not an integer, raises a TypeError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise wrong_type(function, name, "int", value)
    return int(value)


def integers(function: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """Returns ``count`` ints: the elements of ``value``, or ``value`` itself repeated."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return (integer(function, name, value),) * count
    if len(value) != count:
        raise RuntimeError(
            f"{function}(): argument '{name}' must be an int or {count} of them, but got "
            f"{len(value)} elements: {list(value)}"
        )
    return tuple(integer(function, f"{name}[{i}]", element) for i, element in enumerate(value))


def tuple_of_ints(function: str, name: str, value: Any) -> tuple[int, ...]:
    """Returns a tuple or a list of ints as a tuple; another ``value`` raises a TypeError."""
    if not isinstance(value, tuple | list):
        raise wrong_type(function, name, "tuple of ints", value)
    return tuple(integer(function, f"{name}[{i}]", element) for i, element in enumerate(value))


def sizes(function: str, given: Sequence[Any], by_name: Any = None) -> tuple[int, ...]:
    """Returns the sizes of a new array from the three forms that PyTorch accepts.

    ``given`` has the positional arguments: the sizes, or one tuple or list of them. Other forms
    raise a TypeError, and a negative size a RuntimeError.
    """
    if bool(given) == (by_name is not None):
        raise TypeError(f"{function}() takes argument 'size' once: as ints, or as a tuple of ints")
    value = by_name if by_name is not None else given[0] if len(given) == 1 else given
    if by_name is None and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        value = given
    out = tuple_of_ints(function, "size", value)
    for size in out:
        if size < 0:
            raise RuntimeError(
                f"{function}(): Trying to create an array with negative dimension {size} in "
                f"argument 'size': {list(out)}"
            )
    return out


def flags(function: str, **values: Any) -> None:
    """Raises a TypeError if one of the values, given by name, is not a bool."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise wrong_type(function, name, "bool", value)


def dimension(dim: Any, ndim: int, function: str, *, numbers_have_one: bool = True) -> int:
    """Returns ``dim``, which may be negative, counted from the front.

    Another type raises a TypeError, and a dimension that the array lacks an IndexError.
    ``numbers_have_one`` is whether a 0-d array counts as having one dimension.
    """
    axis = integer(function, "dim", dim)
    if ndim == 0 and not numbers_have_one:
        raise IndexError(f"{function}(): Dimension specified as {axis} but input has none")
    ndim = max(ndim, 1)
    if not -ndim <= axis < ndim:
        raise IndexError(
            f"{function}(): Dimension out of range (expected to be in range of "
            f"[{-ndim}, {ndim - 1}], but got {axis})"
        )
    return axis % ndim


def index_array(function: str, index: Any, name: str = "index") -> jax.Array:
    """Returns ``index`` as a JAX array of int32 or int64; another dtype raises a RuntimeError."""
    index = native(function, name, index)
    if np.dtype(index.dtype) not in (np.int32, np.int64):
        raise RuntimeError(
            f"{function}(): Expected dtype int32/int64 for {name} but got: {index.dtype}"
        )
    return jnp.asarray(index)


def index_vector(function: str, index: Any) -> jax.Array:
    """Returns ``index`` as a JAX array of int32 or int64, shape [n]; a 0-d array becomes [1]."""
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
    """Raises if an index is outside ``[0, size)``, where its values are known.

    Under ``jit`` they are unknown: an update with such an index is dropped, and a read gives the
    fill value.

    Args:
        function: Name of the op.
        index: The indices, of any shape.
        size: Number of elements that they count.
        dim: The dimension that they count along, or None for all elements of ``input``.
        error: The exception that PyTorch raises.
        wrap: Whether negative indices count from the end: ``[-size, size)`` is then allowed.
        name: Name of the argument.
        of: The elements that it counts, for the message, instead of ``dim`` and ``size``.

    Raises:
        RuntimeError: An index is out of range (or ``error``).
    """
    low = -size if wrap else 0

    def check(values: npt.NDArray[Any]) -> None:
        if within(values, low, size):
            return
        position = tuple(int(i) for i in np.argwhere((values < low) | (values >= size))[0])
        allowed = f"allowed are {low} to {size - 1}" if size else "none is allowed"
        at = f"an input of {size} elements" if dim is None else f"dimension {dim} with size {size}"
        raise error(
            f"{function}(): index {values[position]} is out of bounds for {of or at}, at position "
            f"{list(position)} of argument '{name}'; {allowed}"
        )

    test = functools.partial(few_integers.range_test, low, size)
    eager.when_known(check, index, faster=test)


def within(values: npt.NDArray[Any], low: int, end: int) -> bool:
    """Returns whether all values are from ``low`` to below ``end``."""
    if not values.size:
        return True
    dtype = values.dtype
    if dtype.kind == "i" and dtype.isnative and -low < 1 << (8 * dtype.itemsize - 1):
        # Unsigned, a number below ``low`` becomes a large one, so that one reduction does the work
        # of two.
        above = np.subtract(values, low) if low else values
        unsigned = above.view(f"u{dtype.itemsize}")
        return bool(np.maximum.reduce(unsigned, axis=None) < end - low)
    least, most = np.minimum.reduce(values, axis=None), np.maximum.reduce(values, axis=None)
    return bool(least >= low and most < end)


def known(value: Any) -> npt.NDArray[Any] | None:
    """Returns the values of an array, or None if this process does not know them yet.

    They are unknown under ``jit``, and for an array whose shards are in several processes. An op
    that calls this function is not compiled where it is called outside of ``jit``, so checks call
    ``eager.when_known`` instead.
    """
    if isinstance(value, jax.core.Tracer):
        eager.refuse()
    return if_known(value)


def if_known(value: Any) -> npt.NDArray[Any] | None:
    """Returns what ``known`` does, for an op whose result does not depend on whether it is None."""
    return np.asarray(value) if eager.is_known(value) else None


def dtype_kind(dtype: jax.typing.DTypeLike) -> str:
    """Returns the value of the fact ``dtype``."""
    if jnp.issubdtype(dtype, jnp.bool_):
        return "bool"
    if jnp.issubdtype(dtype, jnp.integer):
        return "integer"
    return "complex" if jnp.issubdtype(dtype, jnp.complexfloating) else "floating"


def check_kind(
    function: str,
    dtype: jax.typing.DTypeLike,
    *kinds: str,
    name: str | None = None,
    error: type[Exception] = NotImplementedError,
) -> None:
    """Raises a NotImplementedError (or ``error``) if a dtype is of another kind than an op takes.

    ``kinds`` are values of the fact ``dtype``, and ``name`` is the argument, for the message.
    """
    if dtype_kind(dtype) not in kinds:
        *others, last = (_KINDS[kind] for kind in kinds)
        taken = f"{', '.join(others)} and {last}" if others else last
        place = f" in argument '{name}'" if name else ""
        raise error(f"{function}(): not implemented for {dtype}{place}; it takes {taken}")


def facts(input: jax.Array, **others: spec.FactValue) -> dict[str, spec.FactValue]:
    """Returns the facts that every op states of its input, and ``others``."""
    return {"dtype": dtype_kind(input.dtype), "input_ndim": input.ndim, **others}


def choice(
    function: str,
    name: str,
    value: Any,
    allowed: Sequence[str],
    error: type[Exception] = RuntimeError,
) -> None:
    """Raises if ``value`` is not one of the strings ``allowed``."""
    if not isinstance(value, str):
        raise wrong_type(function, name, "str", value)
    if value not in allowed:
        raise error(
            f"{function}(): argument '{name}' must be one of {', '.join(map(repr, allowed))}, but "
            f"got {value!r}"
        )


def source_slices(function: str, input: jax.Array, dim: int, count: int, source: jax.Array) -> None:
    """Raises a RuntimeError if ``source`` is not ``count`` slices of ``input`` along ``dim``."""
    same_dtype(function, input, source=source)
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
    """Raises a RuntimeError if one of ``others`` has another dtype than ``input``."""
    for name, other in others.items():
        if input.dtype != other.dtype:
            raise RuntimeError(
                f"{function}(): input ({input.dtype}) and {name} ({other.dtype}) must have the "
                "same dtype; convert one of them"
            )


def same_ndim(function: str, index: jax.Array, **others: jax.Array) -> None:
    """Raises a RuntimeError if one of ``others`` has another number of dimensions."""
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
    """Raises a RuntimeError if ``index`` is larger than ``other`` in some dimension.

    With ``but_along_dim`` it may be larger along ``dim``, which it counts along. A comparison that
    needs a symbolic size (jax.export) raises a NotImplementedError.
    """
    try:
        for axis, (length, limit) in enumerate(zip(index.shape, other.shape, strict=False)):
            if not (but_along_dim and axis == dim) and length > limit:
                apart = f" apart from dimension {dim}" if but_along_dim else ""
                raise RuntimeError(
                    f"{function}(): expected index {list(index.shape)} to be no larger than {name} "
                    f"{list(other.shape)}{apart}, but dimension {axis} is"
                )
    except jax.errors.InconclusiveDimensionOperation as error:
        raise NotImplementedError(
            f"{function}(): needs the sizes of its arguments, but got 'index' of shape "
            f"{list(index.shape)}, '{name}' of shape {list(other.shape)}, with a symbolic size; "
            "export the program with known sizes, or add constraints to jax.export.symbolic_shape"
        ) from error


def number(function: str, name: str, value: Any) -> Any:
    """Returns ``value``; it raises a TypeError if that is neither a number nor a 0-d array."""
    if isinstance(value, numbers.Number) or (hasattr(value, "dtype") and np.ndim(value) == 0):
        return value
    raise wrong_type(function, name, "Number", value)


def real(function: str, name: str, value: Any) -> float:
    """Returns a real number as a float; a bool, or another ``value``, raises a TypeError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise wrong_type(function, name, "float", value)
    return float(value)


def is_one(value: Any) -> bool:
    """Returns whether a number is known to be 1; the value of a traced number is unknown."""
    return isinstance(value, int | float | complex) and value == 1


def number_as(function: str, name: str, value: Any, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Returns ``value``, a number or a 0-d array, as a 0-d array of ``dtype``.

    As in PyTorch, an integer dtype cuts off the fraction, and an unsigned one wraps a negative
    integer around. Another type raises a TypeError, and a number that does not fit a RuntimeError.
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


def check_callable(function: str, name: str, value: object) -> None:
    """Raises a TypeError that names a function and its argument, unless the value is callable."""
    if not callable(value):
        raise wrong_type(function, name, "callable", value)


def check_choice(function: str, name: str, value: object, allowed: Iterable[object]) -> None:
    """Raises a ValueError that names a function and its argument, unless the value is allowed."""
    choices = tuple(allowed)
    if value not in choices:
        raise ValueError(
            f"{function}(): argument {name!r} got {value!r}; allowed: "
            f"{', '.join(map(repr, choices))}"
        )
