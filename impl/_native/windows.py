"""Sums and extremes of windows, and the gradient of a max pool, as calls of the engine ``native``.

The C++ takes seven numbers for each axis. An axis is *free* if each window is one element along it,
and each element a window. Free neighbours are merged::

    shape (8, 28, 28, 4, 16), windows of (1, 2, 2, 1, 1)     axes of 8, 28, 28 and 64
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax import lax

from impl._jax.shardings import Names
from impl._native.call import computed
from impl._native.operation import Call, Operation, longs, takes

#: The most axes that the C++ takes: ``Windows::kMost`` of ``src/windows.h``.
_MOST_AXES = 16


class _Axis(NamedTuple):
    """One axis of an array and of its windows, as ``WindowAxis`` of ``src/windows.h`` has it.

    Attributes:
        size: The length of the array.
        outputs: The number of windows.
        window: The length of a window.
        stride: The distance between windows.
        low: The padding before the array; negative if it is cropped.
        dilation: The distance of the elements of the array.
        apart: The distance of the elements of a window.
    """

    size: int
    outputs: int
    window: int
    stride: int
    low: int
    dilation: int = 1
    apart: int = 1

    @property
    def is_free(self) -> bool:
        """Whether each window is one element, and each element a window."""
        return self.size == self.outputs and self[2:6] == (1, 1, 0, 1)


@dataclasses.dataclass(frozen=True)
class _Windowed(Operation):
    """An operation of windows.

    Attributes:
        dims: The shape of a window.
        strides: The distance between windows.
        padding: Elements before and after each axis.
        dilation: The distance of the elements of the array.
        apart: The distance of the elements of a window.
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    apart: tuple[int, ...]

    #: Whether an axis of windows of stride 1 is merged with a free one after it.
    merges_windows: ClassVar[bool] = False

    @property
    def result(self) -> Names:  # type: ignore[override]
        columns = zip(self.dims, self.strides, self.padding, self.dilation, strict=True)
        return tuple(
            f"axis{axis}" if column == (1, 1, (0, 0), 1) else None
            for axis, column in enumerate(columns)
        )

    def outputs(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the number of windows along each axis of an array."""
        windows = self.dims, self.strides, self.padding, self.dilation, self.apart
        return tuple(lax.reduce_window_shape_tuple(shape, *windows))

    def axes(self, shape: Sequence[int], outputs: Sequence[int]) -> list[_Axis]:
        """Returns the axes of an array and of its windows, merged where they are free."""
        merged: list[_Axis] = []
        lows = [low for low, _ in self.padding]
        numbers = (shape, outputs, self.dims, self.strides, lows, self.dilation, self.apart)
        for axis in map(_Axis._make, zip(*numbers, strict=True)):
            before = merged[-1] if merged else None
            # Windows of stride 1 move by as many elements as the free axis after them has.
            if (
                axis.is_free
                and before is not None
                and (before.is_free or self.merges_windows)
                and before.stride == before.dilation == 1
            ):
                merged[-1] = _Axis(
                    before.size * axis.size,
                    before.outputs * axis.size,
                    before.window,
                    1,
                    before.low * axis.size,
                    1,
                    before.apart * axis.size,
                )
            elif axis.is_free:
                merged.append(_Axis(axis.size, axis.size, 1, 1, 0))
            else:
                merged.append(axis)
        return [axis for axis in merged if not axis.is_free or axis.size > 1]


@dataclasses.dataclass(frozen=True)
class Window(_Windowed):
    """The sums of windows, or their extremes.

    Attributes:
        greatest: Whether to take the greatest elements, or the lowest ones; None for sums.
    """

    greatest: bool | None

    merges_windows = True

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        return (self.result,)

    def call(self, *operands: Any) -> Call:
        (x,) = operands
        shape = self.outputs(x.shape)
        axes = self.axes(x.shape, shape) or [_Axis(1, 1, 1, 1, 0)]
        result = jax.ShapeDtypeStruct(shape, x.dtype)
        attributes: dict[str, Any] = {"axes": longs(axes)}
        if self.greatest is None:
            return Call("samebits_window", result, attributes)
        return Call("samebits_pool", result, {**attributes, "greatest": self.greatest})


@dataclasses.dataclass(frozen=True)
class PoolGradient(_Windowed):
    """The gradient of a max pool or of a min pool.

    Attributes:
        greatest: Whether windows choose their greatest elements, or the least ones.
    """

    greatest: bool

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        return (self.result, self.result)

    def call(self, *operands: Any) -> Call:
        source, operand = operands
        axes = self.axes(operand.shape, source.shape)
        # The C++ cuts the first axis, and has rows along the last one.
        axes = [*[_Axis(1, 1, 1, 1, 0)] * (2 - len(axes)), *axes]
        result = jax.ShapeDtypeStruct(operand.shape, source.dtype)
        attributes = {"axes": longs(axes), "greatest": self.greatest}
        return Call("samebits_pool_gradient", result, attributes)


def reduce_window(
    x: jax.Array,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
    greatest: bool | None = None,
    **_: Any,
) -> jax.Array | None:
    """Returns sums of windows, or extremes; None if there is no call.

    ``impl._exact.sums.windows.reduce_window_sum`` has the parameters, but for ``greatest``: whether
    to take the greatest elements, or the lowest ones, or None for sums.
    """
    # Extremes of float64 have no call.
    if not takes([x], x.dtype) or (greatest is not None and x.dtype == np.float64):
        return None
    edges = tuple((low, high) for low, high in padding)
    sizes, strides = tuple(window_dimensions), tuple(window_strides)
    dilations = tuple(base_dilation), tuple(window_dilation)
    operation = Window(sizes, strides, edges, *dilations, greatest)
    outputs = operation.outputs(x.shape)
    if 0 in (*outputs, *x.shape):
        of_nothing = {None: 0, True: -np.inf, False: np.inf}
        return lax.full(outputs, of_nothing[greatest], x.dtype)
    if len(operation.axes(x.shape, outputs)) > _MOST_AXES:
        return None
    return computed(operation, [x])


def select_and_scatter_add(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> jax.Array | None:
    """Returns what the function of ``impl._exact.sums.windows`` does; None if there is no call.

    There are calls for ``lax.ge_p`` and ``lax.le_p``.
    """
    if select_prim not in (lax.ge_p, lax.le_p) or not takes([source, operand], source.dtype):
        return None
    if 0 in (*operand.shape, *source.shape):
        return lax.full(operand.shape, 0, source.dtype)
    edges, ones = tuple((low, high) for low, high in padding), (1,) * operand.ndim
    sizes, strides = tuple(window_dimensions), tuple(window_strides)
    operation = PoolGradient(sizes, strides, edges, ones, ones, select_prim is lax.ge_p)
    if len(operation.axes(operand.shape, source.shape)) > _MOST_AXES:
        return None
    if math.prod(window_dimensions) > np.iinfo(np.int32).max:
        return None
    return computed(operation, [source, operand])
