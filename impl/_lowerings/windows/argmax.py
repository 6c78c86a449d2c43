"""The position of the maximum of each window along one axis.

The first of equal elements is taken, and a NaN is greater than any number. XLA's own ``reduce`` of
maxima promises neither on a CPU, so each algorithm here compares and selects:

============================================  =======================
Windows                                       Algorithm
============================================  =======================
few, long, of neighbours, on a CPU            ``argmax_cpu``: each window is a slice
at most ``UNROLLED`` taps                     ``_fold_argmax``: a fold over the taps
longer; all taps together fit in memory       ``_argmax_at_once``
longer; evenly spaced taps                    ``_argmax_by_doubling``
longer; any other taps                        ``_fold_argmax``, in a loop
============================================  =======================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from impl._core.axes import elements_at, rows_at
from impl._core.lax_functions import where
from impl._core.numerics import fence, lowest
from impl._core.shard_axes import vary_like
from impl._families.sort_keys import sort_keys
from impl._families.window_table import WindowTable
from impl._lowerings.windows.sums import UNROLLED, Column, at_least_0, fold_taps

#: The greatest number of elements that are in memory at once, as a multiple of the number of
#: inputs.
_AT_ONCE = 4
#: The greatest number of windows that a CPU reads one by one, which makes the program longer, and
#: the least number of taps with which this is faster.
_FEW_WINDOWS, _LONG_WINDOW = 16, 8


def argmax(values: jax.Array, table: WindowTable) -> jax.Array:
    """Returns the position of the maximum of each window along the middle axis.

    Of several equal elements it is the lowest position. A window without taps has -1.
    """
    many = table.shape[1] > UNROLLED
    if many and math.prod(table.shape) <= _AT_ONCE * table.inputs:
        return _argmax_at_once(values, table)
    if many and (step := table.step):
        return _argmax_by_doubling(values, table, step)

    def read(column: Column) -> tuple[jax.Array, Column]:
        value = rows_at(values, at_least_0(column))
        return value, column[None, :, None]

    return _fold_argmax(read, table.index.T)


def argmax_cpu(values: jax.Array, table: WindowTable) -> jax.Array:
    """Computes ``argmax``; reads each of a few windows of neighbours as a whole."""
    index, counts = table.index, table.counts
    if not reads_whole(table) or values.size == 0:
        return argmax(values, table)

    def first_greatest(start: int, length: int) -> jax.Array:
        # XLA for a CPU computes maxima of integers side by side, and may lose a NaN of floats
        # (https://github.com/openxla/xla/issues/21461).
        keys = sort_keys(lax.slice_in_dim(values, start, start + length, axis=1))
        position = start + lax.broadcasted_iota(jnp.int32, keys.shape, 1)
        equal = keys == keys.max(axis=1, keepdims=True)
        return where(equal, position, table.inputs).min(axis=1, keepdims=True)

    windows = zip(index[:, 0].tolist(), counts.tolist(), strict=True)
    return fence(jnp.concatenate([first_greatest(*window) for window in windows], axis=1))


def reads_whole(table: WindowTable) -> bool:
    """Returns whether a CPU reads each of a few long windows of neighbours as a whole."""
    few = table.outputs <= _FEW_WINDOWS and table.shape[1] >= _LONG_WINDOW
    return few and table.step == 1 and bool(table.counts.all())


def argmax_from(values: jax.Array, start: jax.Array, length: int) -> jax.Array:
    """Returns the same for windows of one length that begin at ``start``, [outer, outputs]."""

    def read(step: Column) -> tuple[jax.Array, Column]:
        position = (start + step[None])[:, :, None]
        value = elements_at(values, position)
        return value, position

    return _fold_argmax(read, np.arange(length, dtype=np.int32)[:, None])


def _fold_argmax(
    read: Callable[[Column], tuple[jax.Array, Column]], columns: npt.NDArray[np.int32]
) -> jax.Array:
    """Returns the position of the maximum of the elements that ``read`` returns for each column.

    ``read`` returns values and their positions, which are -1 for elements to leave out.
    """

    def step(best: Any, column: Column, _: None) -> Any:
        value, position = read(column)
        return _greater(best, (value, position), position >= 0)

    value, position = read(columns[0])
    first = value, vary_like(jnp.broadcast_to(position, value.shape), value)
    # Without the fence XLA goes through the windows again for each operation that reads the result.
    chosen: jax.Array = fence(fold_taps(step, first, columns, None)[1])
    return chosen


def _greater(before: Any, after: Any, valid: jax.typing.ArrayLike = True) -> Any:
    """Selects the greater of two values, and its position; the first if they are equal.

    Where ``valid`` is False it selects the first.
    """
    old, new = before[0], after[0]
    is_first_nan = lax.bitwise_and(lax.ne(new, new), lax.eq(old, old))
    greater = lax.bitwise_or(lax.gt(new, old), is_first_nan)
    if isinstance(valid, jax.Array) or not np.all(valid):
        greater &= valid
    return tuple(where(greater, b, a) for a, b in zip(before, after, strict=True))


def _argmax_at_once(values: jax.Array, table: WindowTable) -> jax.Array:
    """Computes ``argmax`` with all taps of all windows in memory."""
    index = table.index
    if table.positions == np.arange(table.inputs, dtype=np.int32).tobytes():
        taps = values.reshape(values.shape[0], *table.shape, values.shape[2])
    else:
        taps = rows_at(values, np.maximum(index, 0))
    # NaNs are compared apart, since XLA may lose a NaN in a maximum on a CPU
    # (https://github.com/openxla/xla/issues/21461).
    inside, nan = (index >= 0)[None, :, :, None], jnp.isnan(taps)
    number = where(inside & ~nan, taps, lowest(values.dtype))
    maximum = number.max(axis=2, keepdims=True)
    equal = where((inside & nan).any(axis=2, keepdims=True), nan, number == maximum)
    position = where(inside & equal, index[None, :, :, None], table.inputs).min(axis=2)
    return fence(where(position < table.inputs, position, -1))


def _argmax_by_doubling(values: jax.Array, table: WindowTable, step: int) -> jax.Array:
    """Computes ``argmax`` of windows of evenly spaced taps.

    This is the sparse table of range-maximum queries (Bender and Farach-Colton, "The LCA problem
    revisited", 2000): the maximum of a window is the maximum of two windows whose length is a power
    of two, and which may overlap.
    """
    counts = table.counts
    positions = jnp.arange(table.inputs, dtype=jnp.int32)[None, :, None]
    # For each position the maximum of the ``length`` taps that begin there. Near the end of the
    # axis, where there are fewer taps, it is not used.
    best: Any = values, vary_like(jnp.broadcast_to(positions, values.shape), values)
    shape = (values.shape[0], table.outputs, values.shape[2])
    out = vary_like(jnp.full(shape, -1, jnp.int32), values)
    length = 1
    while True:
        ends = (length <= counts) & (counts < 2 * length)
        if ends.any():
            starts = np.where(ends, table.index[:, 0], 0)
            lasts = np.where(ends, starts + (counts - length) * step, 0)
            halves = [tuple(rows_at(part, at) for part in best) for at in (starts, lasts)]
            out = where(ends[None, :, None], _greater(halves[0], halves[1])[1], out)
        if counts.max() < 2 * length:
            return fence(out)
        distance = length * step
        shift = ((0, 0, 0), (-distance, distance, 0), (0, 0, 0))
        later = tuple(lax.pad(part, jnp.zeros((), part.dtype), shift) for part in best)
        best = fence(_greater(best, later))
        length *= 2
