"""Index expressions with PyTorch's meaning: ``input[indices]`` and ``index_put``.

An expression is read into slices, which are taken first, and arrays of indices into the result of
the slices. For an input of shape [4, 5, 6], ``input[1:3, None, [0, 2], -1]`` has

    slices      (1, 3, 1), (0, 5, 1), (5, 6, 1)
    shape       [2, 1, 5]                            the int has no dimension, the None has one
    index       [0, 2] along the last axis           the result has shape [2, 1, 2]
"""

from __future__ import annotations

import dataclasses
import numbers
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeAlias, overload

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import broadcasts_to
from impl._mode.alert import alert
from impl._mode.decide import decide
from impl.ops._indexing import AxisIndex, FlatIndex, assign, flat_index, gather
from impl.ops._indexing import accumulate as add
from impl.ops._op import op
from impl.quantized import QuantizedArray, to_be_written


@op("torch.Tensor.__getitem__")
def getitem(input: Array, indices: Any) -> jax.Array:
    """Reads ``input[indices]``, with PyTorch's meaning of the indices.

    Args:
        input: Any shape and dtype.
        indices: An int, a slice with a positive step, None, ..., a bool, an array or list of
            indices, or a tuple of these. Arrays are of int32 or int64, or are masks of bool or
            uint8 that are known when the program is traced. A 0-d array counts as an int or a
            bool. Negative indices count from the end. Under ``jit`` an index that is out of range
            reads NaN, or the fill value of ``jax.numpy.take`` for dtypes without NaN.

            As in PyTorch, a list of numbers is an array, and another list is a tuple: ``[i, j]``
            with arrays ``i`` and ``j`` means ``i, j``. None adds a dimension.

            The arrays are broadcast together. Ints remove their dimensions first. If the indexed
            dimensions are then adjacent, the dimensions of the arrays take their position;
            otherwise they come first.

    Returns:
        The elements, of the dtype of ``input``. The gradient of an element is the sum over all
        reads of it; without arrays of indices each element is read at most once.

    Raises:
        IndexError: An index is out of range or of a wrong type; there are too many indices; or the
            arrays do not broadcast.
        NotImplementedError: The indexed dimensions together have more elements than 32 bits can
            count, and x64 is off.
        TypeError: ``input`` is not an array, a bound of a slice is not an int, or a mask is not
            known under ``jit``.
        ValueError: The step of a slice is not positive, or a list is ragged.
    """
    input = arguments.array("getitem", "input", input)
    selection = _subscript("getitem", input.shape, indices)
    facts = arguments.facts(input, index_is_list=selection.has_arrays)
    pullback = decide("getitem", "backward", **facts, unique_indices=selection.unique)
    sliced = selection.sliced(input)
    if selection.index is None:
        return sliced
    out = gather(selection.index.fold(sliced), selection.index.flat, pullback=pullback)
    return out.reshape(selection.index.result_shape)


@overload
def index_put(
    input: Array,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool = ...,
    *,
    unique_indices: bool = ...,
) -> jax.Array: ...


@overload
def index_put(
    input: QuantizedArray,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool = ...,
    *,
    unique_indices: bool = ...,
) -> QuantizedArray: ...


@op("torch.Tensor.index_put")
def index_put(
    input: Array | QuantizedArray,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool = False,
    *,
    unique_indices: bool = False,
) -> jax.Array | QuantizedArray:
    """Writes ``values`` to elements of ``input``, or adds them.

    Args:
        input: At least one dimension, any dtype; or a ``QuantizedArray``.
        indices: A tuple or list of arrays that broadcast together, one for each leading dimension
            of ``input``. None selects all of a dimension. Arrays are of int32 or int64; or they are
            masks of bool or uint8, which count as one array for each of their dimensions. Negative
            indices count from the end. Under ``jit`` an update whose index is out of range is
            dropped.
        values: Of the dtype of ``input``; broadcast to the shape of ``getitem(input, indices)``,
            where None is a full slice. For a quantized ``input`` they are float32, and are
            quantized with its scale and zero point before they are written.
        accumulate: Whether to add instead of to write. Without it, if several values are written to
            one element, one stays: the last, if the mode keeps an order. The gradient at that
            element goes to the value that stays.
        unique_indices: Promises that no element is updated twice, so that the order does not
            matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: An index is out of range; there are too many arrays; an array has a wrong dtype,
            or a mask a wrong shape; or the arrays do not broadcast.
        NotImplementedError: The indexed dimensions together have more elements than 32 bits can
            count, and x64 is off.
        RuntimeError: ``values`` are of another dtype or do not broadcast; ``indices`` holds no
            array; or ``input`` is quantized and ``accumulate`` is True.
        TypeError: A mask is not known under ``jit``. Such a mask is accepted only as the single
            array, with one value and ``accumulate=False``.
    """
    if isinstance(input, QuantizedArray):
        return _put_quantized(input, indices, values, accumulate, unique_indices)
    input = arguments.array("index_put", "input", input)
    if not isinstance(indices, tuple | list):
        raise arguments.wrong_type("index_put", "indices", "tuple of arrays", indices)
    values = arguments.array("index_put", "values", values)
    arguments.flags("index_put", accumulate=accumulate, unique_indices=unique_indices)
    arguments.same_dtype("index_put", input, values=values)
    facts = arguments.facts(input, accumulate=accumulate)
    if not accumulate and values.size == 1 and _is_one_traced_mask(indices):
        decision = decide("index_put", **facts, unique_indices=True)
        return _put_masked(alert(input, decision), indices, values)
    index, unique = _arrays_alone("index_put", input.shape, indices)
    unique = unique_indices or unique
    decision = decide("index_put", **facts, unique_indices=unique)
    _check_values(values, index.result_shape)
    write = add if accumulate else assign
    out = write(index.fold(alert(input, decision)), index.flat, index.spread(values), unique=unique)
    return index.unfold(out)


def _put_quantized(
    input: QuantizedArray,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool,
    unique_indices: bool,
) -> QuantizedArray:
    arguments.flags("index_put", accumulate=accumulate)
    if accumulate:
        raise RuntimeError(
            "index_put(): argument 'accumulate' must be False where 'input' is quantized; "
            "dequantize it, add, and quantize the sum"
        )
    written = to_be_written("index_put", values, input)
    out = index_put(input.int_repr, indices, written, unique_indices=unique_indices)
    return dataclasses.replace(input, int_repr=out)


def _is_one_traced_mask(indices: Sequence[Any]) -> bool:
    arrays = [index for index in indices if index is not None]
    return len(arrays) == 1 and _is_mask(arrays[0]) and arguments.known(arrays[0]) is None


def _put_masked(input: jax.Array, indices: Sequence[Any], value: jax.Array) -> jax.Array:
    """Writes one value to every element that a mask selects; their number need not be known."""
    dim, mask = next((axis, index) for axis, index in enumerate(indices) if index is not None)
    _check_mask("index_put", mask.shape, input.shape, dim)
    after = input.ndim - dim - mask.ndim
    _check_values(value, (*input.shape[:dim], 1, *input.shape[dim + mask.ndim :]))
    selected = mask.reshape(mask.shape + (1,) * after) != 0
    return jnp.where(selected, value.reshape(()), input)


def _check_values(values: jax.Array, shape: tuple[int, ...]) -> None:
    if not broadcasts_to(values.shape, shape):
        raise RuntimeError(
            f"index_put(): shape mismatch: values of shape {list(values.shape)} cannot be "
            f"broadcast to the indexed shape {list(shape)}"
        )


_ALLOWED = "allowed are ints, slices, None, ..., bools, and arrays or lists of int32, int64 or bool"


@dataclasses.dataclass(frozen=True, eq=False)
class _Indices:
    """An array of integers; a traced 0-d array may stand for an int (``number``)."""

    values: Array
    name: str
    number: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class _Mask:
    values: npt.NDArray[np.bool_]


_Entry: TypeAlias = EllipsisType | bool | int | slice | _Indices | _Mask | None


@dataclasses.dataclass(frozen=True, eq=False)
class Subscript:
    """An index expression for an array of known shape: first slices, then arrays of indices.

    Attributes:
        slices: Start, end and step for each dimension.
        shape: Shape of the result of the slices: without dimensions of ints, with one for each
            None.
        index: Arrays of indices into the result of the slices; None if there are none.
        has_arrays: Whether there are arrays of indices that do not stand for an int.
        unique: Whether no element can be indexed twice, for any values of the indices.
    """

    slices: tuple[tuple[int, int, int], ...]
    shape: tuple[int, ...]
    index: FlatIndex | None
    has_arrays: bool
    unique: bool

    def sliced(self, input: jax.Array) -> jax.Array:
        """Returns the result of the slices, of shape ``shape``."""
        if any(
            part != (0, length, 1) for part, length in zip(self.slices, input.shape, strict=True)
        ):
            input = jax.lax.slice(input, *zip(*self.slices, strict=True))
        return input.reshape(self.shape)


def _subscript(function: str, shape: tuple[int, ...], indices: Any) -> Subscript:
    """Reads an index expression: one entry, or a tuple of entries.

    A list counts as a tuple if one of its elements is not a number.
    """
    parts = list(indices) if _is_tuple(indices) else [indices]
    several = len(parts) > 1
    entries = [
        _entry(function, part, f"indices[{position}]" if several else "indices")
        for position, part in enumerate(parts)
    ]
    return _read(function, shape, entries)


def _arrays_alone(
    function: str, shape: tuple[int, ...], indices: Sequence[Array | None]
) -> tuple[FlatIndex, bool]:
    """Reads one array for each leading dimension; None stands for all of a dimension.

    The result is the index, and whether no element can be indexed twice, for any values.
    """
    entries: list[_Entry] = []
    for position, given in enumerate(indices):
        name = f"indices[{position}]"
        if given is None:
            entries.append(slice(None))
            continue
        index = arguments.native(function, name, given)
        if _is_mask(index) and index.ndim == 0:
            raise RuntimeError(
                f"{function}(): argument '{name}' is a mask without dimensions; it needs one"
            )
        entries.append(_of_array(function, index, name, as_number=False))
    expression = _read(function, shape, entries)
    if expression.index is None:
        raise RuntimeError(f"{function}(): argument 'indices' must hold at least one array")
    return expression.index, expression.unique


def _is_mask(index: Any) -> bool:
    """Returns whether an array of indices is a mask: of bool, or, as in PyTorch, of uint8."""
    return isinstance(index, jax.Array | np.ndarray | np.generic) and index.dtype in (
        np.bool_,
        np.uint8,
    )


def _check_mask(function: str, mask: tuple[int, ...], shape: tuple[int, ...], dim: int) -> None:
    """Raises if a mask does not have the shape of the dimensions of an array from ``dim`` on."""
    if shape[dim : dim + len(mask)] != mask:
        raise IndexError(
            f"{function}(): The shape of the mask {list(mask)} does not match the shape of the "
            f"indexed array {list(shape)} from dimension {dim}"
        )


def _is_tuple(indices: Any) -> bool:
    """Returns whether PyTorch reads it as a tuple: a list with anything but numbers is one too."""
    if not isinstance(indices, list):
        return isinstance(indices, tuple)
    not_numbers = (list, tuple, range, slice, EllipsisType, jax.Array, np.ndarray)
    return any(entry is None or isinstance(entry, not_numbers) for entry in indices)


def _entry(function: str, entry: Any, name: str) -> _Entry:
    if entry is None or isinstance(entry, EllipsisType | slice | bool):
        return entry
    if isinstance(entry, np.bool_):
        return bool(entry)
    if isinstance(entry, numbers.Integral):
        return int(entry)
    if isinstance(entry, list | tuple | range):
        entry = _from_list(function, entry, name)
    if isinstance(entry, jax.Array | np.ndarray | np.generic):
        native = arguments.native(function, name, entry)
        return _of_array(function, native, name, as_number=True)
    raise IndexError(
        f"{function}(): argument '{name}' is of type {type(entry).__name__}; {_ALLOWED}"
    )


def _from_list(function: str, entry: Sequence[Any], name: str) -> Array:
    values = list(entry)
    try:
        if any(arguments.known(leaf) is None for leaf in jax.tree.leaves(values)):
            return jnp.asarray(values)
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{function}(): argument '{name}' is not an array: {error}") from None
    return array if array.size else array.astype(np.int64)


def _of_array(function: str, index: Array, name: str, *, as_number: bool) -> _Entry:
    values = arguments.if_known(index)
    if _is_mask(index):
        if values is None:
            raise TypeError(
                f"{function}(): argument '{name}' is a mask whose values are not known under jit, "
                "or where other processes have a part of it, and the shape of the result depends "
                "on them; index outside of jit, use jax.numpy.where(mask, ...), or pass the "
                "positions, as jax.numpy.nonzero(mask, size=..., fill_value=mask.size) gives them"
            )
        return _Mask(values != 0) if values.ndim else bool(values)
    if as_number and index.ndim == 0 and jnp.issubdtype(index.dtype, jnp.integer):
        if values is not None:
            return int(values)
        if jnp.issubdtype(index.dtype, jnp.signedinteger):
            return _Indices(index, name, number=True)
    if np.dtype(index.dtype) not in (np.int32, np.int64):
        raise IndexError(f"{function}(): argument '{name}' is of {index.dtype}; {_ALLOWED}")
    return _Indices(index, name)


def _span(entry: _Entry) -> int:
    """Returns the number of dimensions that an entry indexes."""
    if entry is None or isinstance(entry, bool | EllipsisType):
        return 0
    return entry.values.ndim if isinstance(entry, _Mask) else 1


def _read(function: str, shape: tuple[int, ...], entries: list[_Entry]) -> Subscript:
    indexed = sum(map(_span, entries))
    if indexed > len(shape):
        raise IndexError(
            f"{function}(): too many indices for an array of dimension {len(shape)} (got {indexed})"
        )
    whole: list[_Entry] = [slice(None)] * (len(shape) - indexed)
    # The first ... stands for all dimensions that no entry indexes; a further ... for none.
    ellipsis = entries.index(...) if ... in entries else len(entries)
    slices: list[tuple[int, int, int]] = []
    sliced_shape: list[int] = []
    indices: list[AxisIndex] = []
    for entry in [*entries[:ellipsis], *whole, *entries[ellipsis:]]:
        dim = len(slices)
        if entry is None:
            sliced_shape.append(1)
        elif isinstance(entry, bool):
            indices.append(AxisIndex(len(sliced_shape), np.zeros(int(entry), np.int64)))
            sliced_shape.append(1)
        elif isinstance(entry, int | slice):
            slices.append(_slice(function, entry, shape[dim], dim))
            if isinstance(entry, slice):
                sliced_shape.append(len(range(*slices[-1])))
        elif not isinstance(entry, EllipsisType):
            arrays = _axis_indices(function, entry, shape, dim)
            first = len(sliced_shape)
            indices.extend(dataclasses.replace(a, axis=first + a.axis) for a in arrays)
            slices.extend((0, shape[dim + a.axis], 1) for a in arrays)
            sliced_shape.extend(shape[dim + a.axis] for a in arrays)
    return Subscript(
        slices=tuple(slices),
        shape=tuple(sliced_shape),
        index=flat_index(function, tuple(sliced_shape), indices) if indices else None,
        has_arrays=any(not index.number for index in indices),
        unique=all(entry.number for entry in entries if isinstance(entry, _Indices)),
    )


def _slice(function: str, entry: int | slice, size: int, dim: int) -> tuple[int, int, int]:
    if isinstance(entry, int):
        position = np.asarray(entry)
        arguments.index_range(function, position, size, dim, IndexError, wrap=True, name="indices")
        start = entry % size
        return start, start + 1, 1
    try:
        step = 1 if entry.step is None else operator.index(entry.step)
        start, end, _ = slice(entry.start, entry.stop).indices(size)
    except TypeError:
        raise TypeError(
            f"{function}(): argument 'indices' has the slice {entry}; its parts must be ints that "
            "are known, or None"
        ) from None
    if step < 1:
        raise ValueError(
            f"{function}(): argument 'indices' has a slice of step {step}; it must be greater "
            "than zero"
        )
    return start, max(start, end), step


def _axis_indices(
    function: str, entry: _Indices | _Mask, shape: tuple[int, ...], dim: int
) -> list[AxisIndex]:
    """Returns the arrays of an entry, one for each axis that it indexes, counted from ``dim``."""
    if isinstance(entry, _Mask):
        _check_mask(function, entry.values.shape, shape, dim)
        return [AxisIndex(axis, index) for axis, index in enumerate(np.nonzero(entry.values))]
    index = entry.values
    arguments.index_range(function, index, shape[dim], dim, IndexError, wrap=True, name=entry.name)
    return [AxisIndex(0, index, entry.number)]
