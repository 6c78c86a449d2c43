"""Where interpolation reads along one dimension and what it weighs that by, as in PyTorch.

All of it is known before anything runs and computed here, by NumPy: so it is the same on every
device. The precision is the one that PyTorch has for a dtype; in another one, some places would be
rounded to another element.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from impl._core.window_table import WindowTable

_Floats: TypeAlias = npt.NDArray[Any]
_Ints: TypeAlias = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Axis:
    """One dimension of a resampling.

    Attributes:
        inputs: Its length.
        outputs: The length of the result.
        factor: ``outputs`` over ``inputs`` as the caller gave it, or None for that of the lengths.
        aligned: Whether the first and the last elements of both lie on each other.
        precision: float32 or float64.
    """

    inputs: int
    outputs: int
    factor: float | None
    aligned: bool
    precision: type[np.float32 | np.float64]

    @property
    def scale(self) -> Any:
        """How far apart in the input two neighbours in the result are."""
        of = self.precision
        if self.aligned:
            return of(self.inputs - 1) / of(self.outputs - 1) if self.outputs > 1 else of(0)
        return of(self.inputs) / of(self.outputs) if self.factor is None else of(1 / self.factor)

    @property
    def _same_size(self) -> bool:
        return self.inputs == self.outputs

    @property
    def _places(self) -> _Floats:
        return np.arange(self.outputs).astype(self.precision)

    def sources(self) -> _Floats:
        """Where in the input each element of the result lies; before 0 and beyond the end too."""
        if self.aligned:
            return np.asarray(self._places * self.scale)
        # PyTorch's compilers fuse these two: rounded once, by way of float64, where that is wider.
        wide = (self._places + self.precision(0.5)).astype(np.float64) * np.float64(self.scale)
        return (wide - 0.5).astype(self.precision)

    def nearest(self, *, exact: bool) -> WindowTable:
        """Reads the element at, or with ``exact`` around, each place."""
        if exact:
            at = np.maximum(self.sources(), self.precision(0)) + self.precision(0.5)
        else:
            at = self._places * (self.precision(1) if self._same_size else self.scale)
        index = np.minimum(np.floor(at.astype(np.float32)).astype(np.int64), self.inputs - 1)
        return WindowTable.of(self.inputs, index[:, None])

    def linear(self) -> WindowTable:
        """Weighs the two neighbours of each place by how near they are."""
        if self._same_size:
            return self._unchanged()
        first, beyond = self._floor(np.maximum(self.sources(), self.precision(0)))
        index = first[:, None] + np.arange(2)
        return self._merged(index, np.stack([1 - beyond, beyond], 1))

    def cubic(self) -> WindowTable:
        """Weighs the four neighbours of each place by cubic convolution."""
        first, beyond = self._floor(self.sources())
        index = first[:, None] + np.arange(-1, 3)
        distance = np.stack([beyond + 1, beyond, 1 - beyond, (1 - beyond) + 1], 1)
        return self._merged(index, _convolution(distance, -0.75))

    def antialiased(self, *, cubic: bool) -> WindowTable:
        """As ``linear`` or ``cubic``, over as many neighbours as the result has fewer elements."""
        if self._same_size:
            return self._unchanged()
        of, scale = self.precision, self.scale
        widened = np.maximum(scale, of(1))
        reach = of(2 if cubic else 1) * widened
        center = scale * (self._places + of(0.5))
        start = np.maximum((center - reach + of(0.5)).astype(np.int64), 0)
        stop = np.minimum((center + reach + of(0.5)).astype(np.int64), self.inputs)
        most = 2 * int(np.ceil(reach)) + 1
        index = start[:, None] + np.arange(most)
        away = index.astype(of) - center[:, None] + of(0.5)
        away = np.abs(away * (of(1) / widened))
        weight = _convolution(away, -0.5) if cubic else np.maximum(1 - away, of(0))
        weight = np.where(index < stop[:, None], weight, of(0))
        total = _left_to_right(weight)[:, None]
        weight = np.divide(weight, total, out=weight, where=total != 0)
        return self._merged(index, weight)

    def _unchanged(self) -> WindowTable:
        return WindowTable.of(self.inputs, np.arange(self.inputs)[:, None])

    def _floor(self, at: _Floats) -> tuple[_Ints, _Floats]:
        """The last element before each place, and how far beyond it the place is."""
        first = np.minimum(np.floor(at).astype(np.int64), self.inputs - 1)
        return first, np.clip(at - first.astype(self.precision), 0, 1).astype(self.precision)

    def _merged(self, index: _Ints, weight: _Floats) -> WindowTable:
        """A table of ascending positions; what is outside reads the element at that end.

        WindowTable of one window that read one element are one tap, and what weighs 0 is none.
        """
        index, weight = np.clip(index, 0, self.inputs - 1), weight.copy()
        for tap in range(1, index.shape[1]):
            same = index[:, tap] == index[:, tap - 1]
            weight[:, tap] += np.where(same, weight[:, tap - 1], self.precision(0))
            weight[same, tap - 1] = 0
        index = np.where(weight == 0, -1, index)
        plain = bool((weight[index >= 0] == 1).all())
        return WindowTable.of(self.inputs, index, None if plain else weight)


def _convolution(distance: _Floats, a: float) -> _Floats:
    """The weight of an element by its distance, between 0 and 2, in cubic convolution."""
    of = distance.dtype.type
    near = ((of(a + 2) * distance - of(a + 3)) * distance) * distance + 1
    far = ((of(a) * distance - of(5 * a)) * distance + of(8 * a)) * distance - of(4 * a)
    return np.asarray(np.where(distance <= 1, near, np.where(distance < 2, far, of(0))))


def _left_to_right(values: _Floats) -> _Floats:
    """The sum of each row; NumPy's own adds up in an order that it may change."""
    total = np.zeros_like(values[:, 0])
    for column in values.T:
        total = total + column
    return total
