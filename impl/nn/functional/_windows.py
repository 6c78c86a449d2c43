"""Tables of the elements that windows read along one dimension, and weighted sums by them.

Adaptive pools and interpolation add elements of windows that shapes and options decide, so a table
is known when a program is traced. The inverse table lists, for each element, the windows that read
it: the contributions to its gradient. For windows of 3 elements, 2 apart, over 5 inputs with a
padding of 1 (-1 stands for no tap)::

    WindowTable.of(5, [[-1, 0, 1], [1, 2, 3], [3, 4, 5]])

    index           [[0, 1, -1], [1, 2, 3], [3, 4, -1]]
    inverse.index   [[0, -1], [0, 1], [1, -1], [1, 2], [2, -1]]
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from impl._core.axes import rows_at, three_axes
from impl._core.jax_internals.linear import with_transpose
from impl._core.numerics import accumulator, convert, fence

#: The greatest number of taps that are read by an operation each. For a CPU, XLA reads faster by
#: these than by one for all taps.
_UNROLLED = 32
#: The greatest number of neighbours whose sum is slower on a CPU than a sum of such reads.
_FEW = 4


@dataclasses.dataclass(frozen=True, eq=False)
class WindowTable:
    """A table of windows.

    ``WindowTable.of`` and ``WindowTable.intervals`` make one.

    Attributes:
        inputs: Length of the dimension that is read.
        index: The position that each tap reads, in the order of taps, then -1 for each tap that a
            window lacks: int32, shape [windows, taps].
        weight: The factor of each tap, float64, of the same shape; None if every factor is 1.
    """

    inputs: int
    index: npt.NDArray[np.int32]
    weight: npt.NDArray[np.float64] | None = None

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
        if weight is not None:
            weight = np.take_along_axis(np.asarray(weight, np.float64), order, 1)[:, :most]
        return cls(inputs, index.astype(np.int32), weight)

    @classmethod
    def intervals(cls, inputs: int, start: npt.ArrayLike, stop: npt.ArrayLike) -> WindowTable:
        """Makes a table of windows ``range(start, stop)``, cut off at the array's ends."""
        start, stop = np.asarray(start, np.int64), np.asarray(stop, np.int64)
        index = start[:, None] + np.arange(max(1, int((stop - start).max(initial=1))))
        return cls.of(inputs, np.where(index < stop[:, None], index, -1))

    @property
    def outputs(self) -> int:
        """Number of windows."""
        return len(self.index)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of taps of each window, shape [windows]."""
        return np.asarray((self.index >= 0).sum(axis=1))

    @property
    def only_reads(self) -> bool:
        """True if each window copies one element, or has no tap."""
        return self.index.shape[1] == 1 and self.weight is None

    @property
    def divided(self) -> int:
        """The length that the windows divide into equal parts, of factor 1; -1 if they do not."""
        flat = self.index.reshape(-1)
        even = self.weight is None and np.array_equal(flat, np.arange(flat.size))
        return int(flat.size) if even else -1

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
        index[flat[taps], column] = taps // self.index.shape[1]
        weight = None
        if self.weight is not None:
            weight = np.zeros(index.shape)
            weight[flat[taps], column] = self.weight.reshape(-1)[taps]
        return WindowTable.of(self.outputs, index, weight)


def sums(values: jax.Array, tables: Sequence[WindowTable]) -> jax.Array:
    """Returns the weighted sum of each window, of the dtype of ``values``.

    Dimensions are added one after another, from the last to the first, and in a gradient from the
    first to the last. float16 and bfloat16 are added in float32, and rounded after all dimensions.
    A sum reads the elements of its window alone: matrices of weights would multiply all others by
    0, and an infinity of those would give NaN.

    Args:
        values: Shape [..., *inputs].
        tables: The table of windows of each of the last dimensions.
    """
    axes = [*enumerate(tables, values.ndim - len(tables))]
    inverses = [(axis, table.inverse) for axis, table in axes]
    return with_transpose(
        lambda x: _sums_along(x, reversed(axes)), lambda ct: _sums_along(ct, inverses), values
    )


def _sums_along(values: jax.Array, axes: Iterable[tuple[int, WindowTable]]) -> jax.Array:
    """Returns sums along each of some axes, one after another."""
    axes, dtype = list(axes), values.dtype
    if not all(table.only_reads for _, table in axes):
        values = convert(values, accumulator(dtype))
    for number, (axis, table) in enumerate(axes):
        # Otherwise XLA computes the sums along an axis again for each tap of the next one.
        values = _sums_along_axis(fence(values) if number else values, axis, table)
    return convert(values, dtype)


def _sums_along_axis(values: jax.Array, axis: int, table: WindowTable) -> jax.Array:
    shape = (*values.shape[:axis], table.outputs, *values.shape[axis + 1 :])
    if 0 in values.shape:
        return jnp.zeros(shape, values.dtype)
    if table.divided == table.inputs == table.outputs:
        return values
    rows, taps = three_axes(values, axis), table.index.shape[1]
    outer, _, inner = rows.shape
    if table.divided == table.inputs and taps > _FEW:
        total = rows.reshape(outer, table.outputs, -1, inner).sum(2)
    elif table.only_reads and table.inverse.divided == table.outputs:
        total = jnp.repeat(rows, table.outputs // table.inputs, axis=1)
    elif taps == 1:
        total = _terms(rows, table, 0)
    elif taps <= _UNROLLED:
        total = jnp.stack([_terms(rows, table, tap) for tap in range(taps)]).sum(0)
    else:
        total = _terms(rows, table, slice(None)).sum(2)
    return total.reshape(shape)


def _terms(rows: jax.Array, table: WindowTable, taps: int | slice) -> jax.Array:
    """Returns the terms of one tap, or the terms of all taps along an axis after the windows."""
    index = table.index[:, taps]
    terms = rows_at(rows, np.maximum(index, 0))
    if table.weight is not None:
        terms = terms * table.weight[:, taps].astype(terms.dtype)[None, ..., None]
    if (index < 0).any():
        terms = jnp.where((index >= 0)[None, ..., None], terms, jnp.zeros((), terms.dtype))
    return terms
