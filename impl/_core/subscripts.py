"""What PyTorch lets one write in brackets, read as slices and then arrays of indices."""

from __future__ import annotations

import dataclasses
import numbers
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.index_arrays import AxisIndex, FlatIndex, flat_index

_ALLOWED = "allowed are ints, slices, None, ..., bools, and arrays or lists of int32, int64 or bool"


@dataclasses.dataclass(frozen=True, eq=False)
class _Indices:
    """An array of integers; of no dimensions and traced, it may stand for an int."""

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
        shape: What the slices leave, without the dimensions of ints and with new ones.
        places: Where the arrays of indices point in that; None if there are none.
        by_arrays: Whether there are arrays of indices, as opposed to traced ints alone.
        unique: Whether no place can occur twice, whatever the values are.
    """

    slices: tuple[tuple[int, int, int], ...]
    shape: tuple[int, ...]
    places: FlatIndex | None
    by_arrays: bool
    unique: bool

    def cut(self, input: jax.Array) -> jax.Array:
        """What the slices leave of ``input``."""
        if any(
            part != (0, length, 1) for part, length in zip(self.slices, input.shape, strict=True)
        ):
            input = jax.lax.slice(input, *zip(*self.slices, strict=True))
        return input.reshape(self.shape)


def subscript(function: str, shape: tuple[int, ...], indices: Any) -> Subscript:
    """Reads what stands in brackets.

    Args:
        function: Who asks.
        shape: Shape of what is indexed.
        indices: One entry, or a tuple of them; a list is a tuple if an entry is no number.

    Raises:
        IndexError: An entry is out of range, of a wrong type, or one too many; or arrays of
            indices do not broadcast.
        TypeError: A bound of a slice is no int, or a mask is not known under ``jit``.
        ValueError: A step is below 1, or a list is ragged.
    """
    parts = list(indices) if _is_tuple(indices) else [indices]
    several = len(parts) > 1
    entries = [
        _entry(function, part, f"indices[{place}]" if several else "indices")
        for place, part in enumerate(parts)
    ]
    return _read(function, shape, entries)


def arrays_alone(
    function: str, shape: tuple[int, ...], indices: Sequence[Array | None]
) -> tuple[FlatIndex, bool]:
    """Reads one array for each leading dimension; None stands for all of one.

    Returns:
        Where they point, and whether no place can occur twice, whatever the values are.

    Raises:
        IndexError: An index is out of range, or an array is one too many or of a wrong dtype.
        RuntimeError: There is no array, or a mask has no dimensions.
        TypeError: An entry is no array, or a mask is not known under ``jit``.
    """
    entries: list[_Entry] = []
    for place, index in enumerate(indices):
        name = f"indices[{place}]"
        if index is None:
            entries.append(slice(None))
            continue
        arguments.array(function, name, index)
        if is_mask(index) and index.ndim == 0:
            raise RuntimeError(
                f"{function}(): argument '{name}' is a mask without dimensions; it needs one"
            )
        entries.append(_of_array(function, index, name, as_number=False))
    read = _read(function, shape, entries)
    if read.places is None:
        raise RuntimeError(f"{function}(): argument 'indices' must hold at least one array")
    return read.places, read.unique


def is_mask(index: Any) -> bool:
    """Whether an array of indices is a mask; uint8 is one too, as in PyTorch."""
    return isinstance(index, jax.Array | np.ndarray | np.generic) and index.dtype in (
        np.bool_,
        np.uint8,
    )


def check_mask(function: str, mask: tuple[int, ...], shape: tuple[int, ...], dim: int) -> None:
    """Refuses a mask that is not of the shape of the dimensions from ``dim``.

    Raises:
        IndexError: It is not.
    """
    if shape[dim : dim + len(mask)] != mask:
        raise IndexError(
            f"{function}(): The shape of the mask {list(mask)} does not match the shape of the "
            f"indexed array {list(shape)} from dimension {dim}"
        )


def _is_tuple(indices: Any) -> bool:
    """PyTorch's rule: a list of anything but numbers is read as a tuple."""
    if not isinstance(indices, list):
        return isinstance(indices, tuple)
    no_numbers = (list, tuple, range, slice, EllipsisType, jax.Array, np.ndarray)
    return any(entry is None or isinstance(entry, no_numbers) for entry in indices)


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
        return _of_array(function, entry, name, as_number=True)
    raise IndexError(
        f"{function}(): argument '{name}' is of type {type(entry).__name__}; {_ALLOWED}"
    )


def _from_list(function: str, entry: Sequence[Any], name: str) -> Array:
    values = list(entry)
    try:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)):
            return jnp.asarray(values)
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{function}(): argument '{name}' is no array: {error}") from None
    return array if array.size else array.astype(np.int64)


def _of_array(function: str, index: Array, name: str, *, as_number: bool) -> _Entry:
    values = arguments.known(index)
    if is_mask(index):
        if values is None:
            raise TypeError(
                f"{function}(): argument '{name}' is a mask whose values are not known under "
                "jit, and the shape of the result depends on them; index outside of jit, use "
                "jax.numpy.where(mask, ...), or pass the positions, as jax.numpy.nonzero(mask, "
                "size=..., fill_value=mask.size) gives them"
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
    """How many dimensions an entry indexes."""
    if entry is None or isinstance(entry, bool | EllipsisType):
        return 0
    return entry.values.ndim if isinstance(entry, _Mask) else 1


def _read(function: str, shape: tuple[int, ...], entries: list[_Entry]) -> Subscript:
    taken = sum(map(_span, entries))
    if taken > len(shape):
        raise IndexError(
            f"{function}(): too many indices for an array of dimension {len(shape)} (got {taken})"
        )
    rest: list[_Entry] = [slice(None)] * (len(shape) - taken)
    # Only the first ... stands for dimensions; further ones find none left.
    spot = entries.index(...) if ... in entries else len(entries)
    cuts: list[tuple[int, int, int]] = []
    left: list[int] = []
    along: list[AxisIndex] = []
    for entry in [*entries[:spot], *rest, *entries[spot:]]:
        dim = len(cuts)
        if entry is None:
            left.append(1)
        elif isinstance(entry, bool):
            along.append(AxisIndex(len(left), np.zeros(int(entry), np.int64)))
            left.append(1)
        elif isinstance(entry, int | slice):
            cuts.append(_cut(function, entry, shape[dim], dim))
            if isinstance(entry, slice):
                left.append(len(range(*cuts[-1])))
        elif not isinstance(entry, EllipsisType):
            found = _along(function, entry, shape, dim)
            along.extend(dataclasses.replace(one, axis=len(left) + one.axis) for one in found)
            cuts.extend((0, shape[dim + one.axis], 1) for one in found)
            left.extend(shape[dim + one.axis] for one in found)
    return Subscript(
        slices=tuple(cuts),
        shape=tuple(left),
        places=flat_index(function, tuple(left), along) if along else None,
        by_arrays=any(not one.number for one in along),
        unique=all(one.number for one in entries if isinstance(one, _Indices)),
    )


def _cut(function: str, entry: int | slice, size: int, dim: int) -> tuple[int, int, int]:
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


def _along(
    function: str, entry: _Indices | _Mask, shape: tuple[int, ...], dim: int
) -> list[AxisIndex]:
    """The arrays of an entry, one for each dimension that it indexes, counted from ``dim``."""
    if isinstance(entry, _Mask):
        check_mask(function, entry.values.shape, shape, dim)
        return [AxisIndex(axis, places) for axis, places in enumerate(np.nonzero(entry.values))]
    index = entry.values
    arguments.index_range(function, index, shape[dim], dim, IndexError, wrap=True, name=entry.name)
    return [AxisIndex(0, index, entry.number)]
