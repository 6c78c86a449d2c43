"""Tables of the positions that windows read along one dimension.

Pooling, padding and interpolation compute a sum or a maximum over each window. They depend on
shapes and options only, so a table is known when a program is traced. The inverse table lists, for
each position, the windows that read it: the contributions to its gradient. For windows of 3
positions, 2 apart, over 5 inputs with a padding of 1 (-1 stands for no tap):

    WindowTable.of(5, [[-1, 0, 1], [1, 2, 3], [3, 4, 5]])

    index           [[0, 1, -1], [1, 2, 3], [3, 4, -1]]
    inverse.index   [[0, -1], [0, 1], [1, -1], [1, 2], [2, -1]]
    even            EvenWindows(start=-1, step=2, spacing=1, taps=3)
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class EvenWindows:
    """Evenly spaced windows of equal length; those at the ends may reach beyond the inputs.

    Attributes:
        start: The position of the first tap of the first window; negative if it is not an input.
        step: The distance between two windows.
        spacing: The distance between two taps.
        taps: The number of taps of a window.
    """

    start: int
    step: int
    spacing: int
    taps: int


@dataclasses.dataclass(frozen=True)
class WindowTable:
    """A table of windows; hashable, so that it can be a static parameter of a primitive.

    ``WindowTable.of`` and ``WindowTable.intervals`` make one.

    Attributes:
        inputs: Length of the dimension that is read.
        shape: Number of windows, and number of taps of the largest window.
        positions: The bytes of an int32 array of that shape: the position that each tap reads, in
            the order of taps, then -1 for each tap that a window lacks.
        factors: The bytes of a float64 array of that shape: the factor of each tap; None if every
            factor is 1.
    """

    inputs: int
    shape: tuple[int, int]
    positions: bytes
    factors: bytes | None = None

    @classmethod
    def of(
        cls,
        inputs: int,
        index: npt.ArrayLike,
        weight: npt.ArrayLike | None = None,
    ) -> WindowTable:
        """Makes a table from the positions that taps read.

        Args:
            inputs: Length of the dimension that is read.
            index: Integers, shape [windows, taps]; one outside [0, inputs) is not a tap.
            weight: Factors, floats of the shape of ``index``; None for 1.
        """
        index = np.asarray(index, np.int64)
        outside = (index < 0) | (index >= inputs)
        order = np.argsort(outside, axis=1, kind="stable")
        most = max(1, int((~outside).sum(axis=1).max(initial=0)))
        index = np.take_along_axis(np.where(outside, -1, index), order, 1)[:, :most]
        if index.shape[1] < most:
            index = np.full((index.shape[0], most), -1)
        factors = None
        if weight is not None:
            weight = np.take_along_axis(np.asarray(weight, np.float64), order, 1)[:, :most]
            factors = np.ascontiguousarray(weight).tobytes()
        positions = np.ascontiguousarray(index, np.int32).tobytes()
        return cls(inputs, (index.shape[0], most), positions, factors)

    @classmethod
    def intervals(
        cls, inputs: int, start: npt.ArrayLike, stop: npt.ArrayLike, step: int = 1
    ) -> WindowTable:
        """Makes a table of windows ``range(start, stop, step)``, cut off at the array's ends."""
        start, stop = np.asarray(start, np.int64), np.asarray(stop, np.int64)
        most = max(1, int((-(-(stop - start) // step)).max(initial=1)))
        index = start[:, None] + step * np.arange(most)
        return cls.of(inputs, np.where(index < stop[:, None], index, -1))

    @property
    def outputs(self) -> int:
        """Number of windows."""
        return self.shape[0]

    @property
    def index(self) -> npt.NDArray[np.int32]:
        """The position that each tap reads, or -1; shape [windows, taps]."""
        return np.frombuffer(self.positions, np.int32).reshape(self.shape)

    @property
    def weight(self) -> npt.NDArray[np.float64] | None:
        """The factor of each tap, shape [windows, taps]; None if every factor is 1."""
        if self.factors is None:
            return None
        return np.frombuffer(self.factors, np.float64).reshape(self.shape)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of taps of each window, shape [windows]."""
        return np.asarray((self.index >= 0).sum(axis=1))

    @property
    def only_reads(self) -> bool:
        """True if each window copies one element, or has no tap."""
        return self.shape[1] == 1 and self.factors is None

    @property
    def identity(self) -> bool:
        """True if the windows copy all elements in their order."""
        every = np.arange(self.inputs, dtype=np.int32)
        return self.only_reads and self.positions == every.tobytes()

    @functools.cached_property
    def step(self) -> int:
        """Distance between neighbouring taps; 0 if it differs, is negative, or there is none."""
        gaps = np.diff(self.index, axis=1)[self.index[:, 1:] >= 0]
        return int(gaps[0]) if gaps.size and gaps[0] > 0 and (gaps == gaps[0]).all() else 0

    @functools.cached_property
    def even(self) -> EvenWindows | None:
        """The windows, if they are evenly spaced, each has a tap and none has factors."""
        index, counts = self.index, self.counts
        spacing = self.step or 1
        if self.factors is not None or not counts.all() or not self.outputs:
            return None
        first, last = index[:, 0], index[np.arange(self.outputs), counts - 1]
        # A window at the beginning may lack its first taps, and one at the end its last.
        steps = {1} if self.outputs == 1 else {int(first[-1] - first[-2]), int(last[1] - last[0])}
        whole = int(counts.argmax())
        for step in (step for step in steps if step > 0):
            start = int(first[whole]) - whole * step
            windows = start + step * np.arange(self.outputs)
            taps = spacing * np.arange(self.shape[1])
            if WindowTable.of(self.inputs, windows[:, None] + taps) == self:
                return EvenWindows(start, step, spacing, self.shape[1])
        return None

    @functools.cached_property
    def period(self) -> tuple[int, int, int]:
        """How far windows are from the inputs they read: a step, the least and greatest distance.

        A window that reads the input ``p`` has a number from ``p // step`` plus the least distance
        to ``p // step`` plus the greatest. The step divides the number of inputs, and is the
        greatest step with the fewest distances. For no taps, the result is 1, 0 and -1.
        """
        window, tap = np.nonzero(self.index >= 0)
        position = self.index[window, tap]
        period = (1, 0, -1)
        most = 2 * -(-self.inputs // max(self.outputs, 1))
        for step in range(1, min(most, self.inputs) + 1 if position.size else 1):
            if self.inputs % step:
                continue
            distance = window - position // step
            least, greatest = int(distance.min()), int(distance.max())
            if step == 1 or greatest - least <= period[2] - period[1]:
                period = step, least, greatest
        return period

    @functools.cached_property
    def distinct(self) -> tuple[WindowTable, WindowTable]:
        """A table that has each of the windows once, and one of the window that each equals."""
        columns = self.index if self.weight is None else np.hstack([self.index, self.weight])
        _, first, which = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        weight = None if self.weight is None else self.weight[first]
        distinct = WindowTable.of(self.inputs, self.index[first], weight)
        return distinct, WindowTable.of(first.size, which.reshape(-1, 1))

    @property
    def overlapping(self) -> bool:
        """True if two taps read one position."""
        read = self.index[self.index >= 0]
        return bool(np.bincount(read).max(initial=0) > 1)

    @functools.cached_property
    def inverse(self) -> WindowTable:
        """The table that lists, for each position, the windows that read it, in ascending order."""
        flat = self.index.reshape(-1)
        taps = np.flatnonzero(flat >= 0)
        taps = taps[np.argsort(flat[taps], kind="stable")]
        count = np.bincount(flat[taps], minlength=self.inputs)
        column = np.arange(taps.size) - np.repeat(np.cumsum(count) - count, count)
        index = np.full((self.inputs, max(1, int(count.max(initial=0)))), -1)
        index[flat[taps], column] = taps // self.shape[1]
        weight = None
        if self.weight is not None:
            weight = np.zeros(index.shape)
            weight[flat[taps], column] = self.weight.reshape(-1)[taps]
        return WindowTable.of(self.outputs, index, weight)
