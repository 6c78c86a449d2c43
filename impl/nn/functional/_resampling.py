"""Indices and weights of interpolation along one dimension, as PyTorch computes them.

NumPy computes them before the program runs, so they are the same on every device. The precision is
PyTorch's for the dtype: in another precision, some coordinates would round to another
element.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from impl.nn.functional._windows import WindowTable

_Floats: TypeAlias = npt.NDArray[Any]
_Ints: TypeAlias = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Axis:
    """One dimension of a resampling.

    A coordinate is a position in the input, measured in elements.

    Attributes:
        inputs: The length of the input.
        outputs: The length of the result.
        factor: The caller's ratio of ``outputs`` to ``inputs``; None for the ratio of the lengths.
        aligned: Whether the first, and the last, elements of input and result coincide.
        precision: float32 or float64.
    """

    inputs: int
    outputs: int
    factor: float | None
    aligned: bool
    precision: type[np.float32 | np.float64]

    @property
    def scale(self) -> Any:
        """The distance between the coordinates of two neighbours in the result."""
        real = self.precision
        if self.aligned:
            return real(self.inputs - 1) / real(self.outputs - 1) if self.outputs > 1 else real(0)
        if self.factor is None:
            return real(self.inputs) / real(self.outputs)
        return real(1 / self.factor)

    @property
    def _same_size(self) -> bool:
        return self.inputs == self.outputs

    @property
    def _positions(self) -> _Floats:
        """The positions of the elements in the result."""
        return np.arange(self.outputs).astype(self.precision)

    def coordinates(self) -> _Floats:
        """Returns the coordinate of each element of the result; it may be outside the input."""
        if self.aligned:
            return np.asarray(self._positions * self.scale)
        # PyTorch's compilers fuse the product and the subtraction, so both are rounded once. In
        # float64 the product of two float32 is exact.
        wide = (self._positions + self.precision(0.5)).astype(np.float64) * np.float64(self.scale)
        return (wide - 0.5).astype(self.precision)

    def nearest(self, *, exact: bool) -> WindowTable:
        """Reads the element below each coordinate, or with ``exact`` the element around it."""
        if exact:
            coordinate = np.maximum(self.coordinates(), self.precision(0)) + self.precision(0.5)
        else:
            coordinate = self._positions * (self.precision(1) if self._same_size else self.scale)
        below = np.floor(coordinate.astype(np.float32)).astype(np.int64)
        return WindowTable.of(self.inputs, np.minimum(below, self.inputs - 1)[:, None])

    def linear(self) -> WindowTable:
        """Weighs the two neighbours of each coordinate linearly."""
        if self._same_size:
            return self._unchanged()
        first, fraction = self._floor(np.maximum(self.coordinates(), self.precision(0)))
        index = first[:, None] + np.arange(2)
        return self._merged(index, np.stack([1 - fraction, fraction], 1))

    def cubic(self) -> WindowTable:
        """Weighs the four neighbours of each coordinate by cubic convolution."""
        first, fraction = self._floor(self.coordinates())
        index = first[:, None] + np.arange(-1, 3)
        distance = np.stack([fraction + 1, fraction, 1 - fraction, (1 - fraction) + 1], 1)
        return self._merged(index, _convolution(distance, -0.75))

    def antialiased(self, *, cubic: bool) -> WindowTable:
        """Weighs as ``linear`` or ``cubic`` do, with a kernel widened by the reduction in size."""
        if self._same_size:
            return self._unchanged()
        real, scale = self.precision, self.scale
        widened = np.maximum(scale, real(1))
        reach = real(2 if cubic else 1) * widened
        center = scale * (self._positions + real(0.5))
        start = np.maximum((center - reach + real(0.5)).astype(np.int64), 0)
        stop = np.minimum((center + reach + real(0.5)).astype(np.int64), self.inputs)
        most = 2 * int(np.ceil(reach)) + 1
        index = start[:, None] + np.arange(most)
        distance = index.astype(real) - center[:, None] + real(0.5)
        distance = np.abs(distance * (real(1) / widened))
        weight = _convolution(distance, -0.5) if cubic else np.maximum(1 - distance, real(0))
        weight = np.where(index < stop[:, None], weight, real(0))
        total = _left_to_right(weight)[:, None]
        weight = np.divide(weight, total, out=weight, where=total != 0)
        return self._merged(index, weight)

    def _unchanged(self) -> WindowTable:
        return WindowTable.of(self.inputs, np.arange(self.inputs)[:, None])

    def _floor(self, coordinate: _Floats) -> tuple[_Ints, _Floats]:
        """Splits coordinates into the index of the element below, and the fraction beyond it."""
        first = np.minimum(np.floor(coordinate).astype(np.int64), self.inputs - 1)
        fraction = np.clip(coordinate - first.astype(self.precision), 0, 1)
        return first, fraction.astype(self.precision)

    def _merged(self, index: _Ints, weight: _Floats) -> WindowTable:
        """Returns a table of ascending indices and their weights.

        An index outside the input becomes the index of the nearest element. Equal indices of a
        window become one, whose weight is their sum. An index of weight 0 is left out.
        """
        index, weight = np.clip(index, 0, self.inputs - 1), weight.copy()
        for column in range(1, index.shape[1]):
            same = index[:, column] == index[:, column - 1]
            weight[:, column] += np.where(same, weight[:, column - 1], self.precision(0))
            weight[same, column - 1] = 0
        index = np.where(weight == 0, -1, index)
        unweighted = bool((weight[index >= 0] == 1).all())
        return WindowTable.of(self.inputs, index, None if unweighted else weight)


def _convolution(distance: _Floats, a: float) -> _Floats:
    """Returns the weight of an element in cubic convolution, by its distance of 0 or more."""
    real = distance.dtype.type
    near = ((real(a + 2) * distance - real(a + 3)) * distance) * distance + 1
    far = ((real(a) * distance - real(5 * a)) * distance + real(8 * a)) * distance - real(4 * a)
    return np.asarray(np.where(distance <= 1, near, np.where(distance < 2, far, real(0))))


def _left_to_right(values: _Floats) -> _Floats:
    """Returns the sum of each row from left to right. NumPy does not promise this order."""
    total = np.zeros_like(values[:, 0])
    for column in values.T:
        total = total + column
    return total
