"""Scatters that add, as calls of the engine ``native``.

The C++ takes any form of ``lax.scatter_add`` as windows of runs. The elements of a run are
neighbours in the updates and in the operand. For an operand [5, 6, 3] and updates [10, 2, 3], of
which each of 10 indices (i, j) is the corner of a window [1, 2, 3]::

    run            6                   the elements of a run: the axes 2 and 3 of a window
    windows        none                size, strides of operand and updates, of its other axes
    batches        10, 0, 6            the same of the axes of the indices
    coordinates    18, 4; 3, 4         stride in the operand and greatest value of i and of j
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.lax import GatherScatterMode, ScatterDimensionNumbers

from impl._jax.shardings import Names
from impl._native.call import Found, computes
from impl._native.operation import Call, Summing, longs, strides, takes

#: The dtypes of indices that the calls take.
_INTEGERS = frozenset(np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8))


@dataclasses.dataclass(frozen=True)
class Scatter(Summing):
    """A scatter that adds updates to an operand, or subtracts them.

    The operands are the array that is added to, the indices and the updates.

    Attributes:
        numbers: The dimension numbers.
        whole: The axes of the array that each window covers whole.
        rank: The number of axes of the updates.
        dtype: The dtype of the array, and of the result.
        clip: Whether indices out of bounds are moved into them; else their windows are dropped.
        subtract: Whether the updates are subtracted.
        unique: Whether no two updates have one destination.
    """

    numbers: ScatterDimensionNumbers
    whole: tuple[bool, ...]
    rank: int
    dtype: np.dtype[Any]
    clip: bool
    subtract: bool
    unique: bool
    once = (0,)

    @property
    def result(self) -> Names:  # type: ignore[override]
        names: list[str | None] = [
            f"axis{axis}" if is_whole else None for axis, is_whole in enumerate(self.whole)
        ]
        for axis in self.numbers.operand_batching_dims:
            names[axis] = f"axis{axis}"
        return tuple(names)

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        result, numbers = self.result, self.numbers
        scattered = [axis for axis in range(self.rank) if axis not in numbers.update_window_dims]
        of_indices: list[str | None] = [f"index{axis}" for axis in range(len(scattered))]
        batching = zip(
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
        )
        for axis, of_index in batching:
            of_indices[of_index] = result[axis]
        of_updates: list[str | None] = [None] * self.rank
        for axis, name in zip(scattered, of_indices, strict=True):
            of_updates[axis] = name
        for axis, of_update in _windows(numbers, len(self.whole)):
            of_updates[of_update] = result[axis]
        return result, (*of_indices, None), tuple(of_updates)

    _name = "samebits_scatter"

    def call(self, *operands: Any) -> Call:
        call = super().call(*operands)
        attributes = {**call.attributes, "unique": self.unique}
        return call._replace(attributes=attributes, aliases={0: 0})

    def layout(self, *operands: Sequence[int]) -> tuple[tuple[int, ...], dict[str, Any]]:
        """Returns the shape and the attributes, as the top of this file describes them."""
        array, _, updates = operands
        numbers = self.numbers
        of_array, of_updates = strides(array), strides(updates)
        windows = dict(_windows(numbers, len(array)))
        run, is_open = 1, True
        outer: list[list[int]] = []
        for axis in reversed(range(len(array))):
            if axis not in windows:
                is_open = is_open and array[axis] == 1
                continue
            size, step = updates[windows[axis]], of_updates[windows[axis]]
            if is_open and (size == 1 or (of_array[axis] == run and step == run)):
                run *= size
                is_open = size == array[axis]
            else:
                is_open = False
                outer.append([size, of_array[axis], step])
        scattered = [axis for axis in range(len(updates)) if axis not in windows.values()]
        batches = [[updates[axis], 0, of_updates[axis]] for axis in scattered]
        for axis, of_index in zip(
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
        ):
            batches[of_index][1] = of_array[axis]
        coordinates = []
        for axis in numbers.scatter_dims_to_operand_dims:
            size = updates[windows[axis]] if axis in windows else 1
            coordinates += [of_array[axis], array[axis] - size]
        return tuple(array), {
            "windows": longs(_merged(outer[::-1])),
            "batches": longs(_merged(batches)),
            "coordinates": longs(coordinates),
            "run": np.int64(run),
            "clip": self.clip,
            "subtract": self.subtract,
        }


def scatter(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    mode: Any = None,
    unique_indices: bool = False,
    subtract: bool = False,
    **_: Any,
) -> Found | None:
    """Returns the operation of ``lax.scatter_add``; None if the engine has no call for it."""
    has_sizes = all(isinstance(size, int) for size in indices.shape)
    if not takes([operand, updates], operand.dtype) or not has_sizes:
        return None
    if indices.dtype not in _INTEGERS:
        return None
    windows = dict(_windows(dimension_numbers, operand.ndim))
    indexed = dimension_numbers.scatter_dims_to_operand_dims
    whole = tuple(
        axis in windows
        and axis not in indexed
        and updates.shape[windows[axis]] == operand.shape[axis]
        for axis in range(operand.ndim)
    )
    # Windows at different indices share no destination if they have one element along each axis.
    are_points = all(axis not in windows or updates.shape[windows[axis]] == 1 for axis in indexed)
    operation = Scatter(
        dimension_numbers,
        whole,
        updates.ndim,
        operand.dtype,
        GatherScatterMode.from_any(mode) == GatherScatterMode.CLIP,
        subtract,
        unique_indices and are_points,
    )
    return operation, (operand, indices, updates)


#: Returns what ``impl._exact.sums.reduction.scatter_add`` does; None without a call.
scatter_add = computes(scatter)


def _windows(numbers: ScatterDimensionNumbers, rank: int) -> list[tuple[int, int]]:
    """Returns the axes of an array that windows have, each with its axis of the updates."""
    hidden = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    windowed = [axis for axis in range(rank) if axis not in hidden]
    return list(zip(windowed, numbers.update_window_dims, strict=True))


def _merged(axes: Sequence[Sequence[int]]) -> list[list[int]]:
    """Returns the numbers of axes, of which neighbours that are one axis are merged."""
    merged: list[list[int]] = []
    for size, *steps in axes:
        if size == 1:
            continue
        if merged and merged[-1][1:] == [size * step for step in steps]:
            merged[-1] = [merged[-1][0] * size, *steps]
        else:
            merged.append([size, *steps])
    return merged
