"""Which positions a window reads along one dimension, known before anything runs.

Pooling, padding and interpolation are sums, or maxima, over windows; along each dimension a table
says where they lie. What the inverse table says, each element's gradient adds up.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class WindowTable:
    """A table of windows; hashable, so that it can be a static parameter of a primitive.

    Make one by ``WindowTable.of``.

    Attributes:
        inputs: Length of the dimension that is read.
        shape: Number of windows, and of taps of the largest.
        positions: int32 of that shape: where each tap reads, in ascending order of taps, and then
            -1 for those that a window lacks; as bytes.
        factors: float64 of that shape: what each tap is multiplied by; None for 1.
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
        """A table from positions, of which those outside [0, inputs) are no taps.

        Args:
            inputs: Length of the dimension that is read.
            index: Integers, shape [windows, taps].
            weight: Floats of that shape, or None.
        """
        index = np.asarray(index, np.int64)
        lacks = (index < 0) | (index >= inputs)
        order = np.argsort(lacks, axis=1, kind="stable")
        most = max(1, int((~lacks).sum(axis=1).max(initial=0)))
        index = np.take_along_axis(np.where(lacks, -1, index), order, 1)[:, :most]
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
        """Windows from ``start`` to before ``stop``; positions outside are no taps."""
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
        """Where each tap reads, or -1."""
        return np.frombuffer(self.positions, np.int32).reshape(self.shape)

    @property
    def weight(self) -> npt.NDArray[np.float64] | None:
        """What each tap is multiplied by."""
        if self.factors is None:
            return None
        return np.frombuffer(self.factors, np.float64).reshape(self.shape)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of taps of each window."""
        return np.asarray((self.index >= 0).sum(axis=1))

    @property
    def only_reads(self) -> bool:
        """Whether each window is one element or none, as it is."""
        return self.shape[1] == 1 and self.factors is None

    @property
    def identity(self) -> bool:
        """Whether each window is the element at its own position, and none is left over."""
        own = np.arange(self.inputs, dtype=np.int32)
        return self.only_reads and self.positions == own.tobytes()

    @functools.cached_property
    def step(self) -> int:
        """How far apart the taps of every window are, in ascending order; 0 if that differs."""
        gaps = np.diff(self.index, axis=1)[self.index[:, 1:] >= 0]
        return int(gaps[0]) if gaps.size and gaps[0] > 0 and (gaps == gaps[0]).all() else 0

    @property
    def overlapping(self) -> bool:
        """Whether two taps read one position."""
        return self.inverse.shape[1] > 1

    @functools.cached_property
    def inverse(self) -> WindowTable:
        """For each position, the windows that read it, in ascending order."""
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
