"""A scatter that adds in the spec's order ``nearest``, in any form of ``lax.scatter_add``.

A result is the exact sum of a destination's terms, rounded once. XLA scatters parts of all terms,
in any order, by atomics, and over devices; float64 adds the parts without error
(``nearest.exact_sum``)::

    updates               3, 0.25, 1, -2**-80       to destinations 0, 0, 1, 1
    multiples of 2**-45   3, 0.25, 1, 0             sums 3.25, 1
    multiples of 2**-93   0, 0, 0, -2**-80          sums 0, -2**-80
    results               3.25, 1

The scatter has two forms: the form of the caller, which XLA may partition, and which sums over the
axes of a mesh; and rows on one GPU. The last axes that each window covers whole form a row, and the
other axes have one coordinate for each update. A row of the operand then has one number, and no
array is transposed. For an operand of shape [5, 4, 8] and windows of shape [1, 1, 8], a row has 8
elements, and the update at (i, j) goes to row 4 * i + j. The number 20 stands for an update that is
dropped.

A GPU applies updates of one address one after another, so a scatter into few destinations, or with
a hot one, takes many times longer than one into many. The remedy is known from histograms as
replication or privatization (Gomez-Luna et al., "An optimized approach to histogram computation on
GPU", Machine Vision and Applications 24, 2013, 899-908): a destination that gets many updates has
replicas, which consecutive updates take turns to use, and which are combined afterwards. The
replicas of a destination are neighbours in memory, so that the updates of a warp share their
transactions. With few destinations, all have replicas. For 2 destinations, 4 replicas of each and
the keys ``1 0 1 1 0 1``, update ``i`` goes to row ``4 * key + i % 4``:

    rows         4 1 6 7 0 5
    row          0 1 2 3 | 4 5 6 7       combined afterwards: rows 0 to 3, and rows 4 to 7

With many destinations, a sample of the keys finds the hot ones (the heavy hitters), and a small
direct-mapped hash table, which stays in the cache, assigns replicas to them. Its hash is Knuth's
multiplicative one (The Art of Computer Programming, volume 3, section 6.4). Two hot destinations
with one hash share no replicas: the greater has them. The sample affects the time, never the
result.

No kernel is needed: XLA's scatter of integers and of float64 is one relaxed reduction for each
update, and computes the row of an update where it uses it. A kernel that compares the keys of a
tile with one another would do hundreds of comparisons for each update and move the sums of tiles
through memory, and each of Pallas' atomics would wait at a fence.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode, ScatterDimensionNumbers

from impl._core.devices import Devices
from impl._core.numerics import fence
from impl._core.shard_axes import aligned
from impl._exact.nearest.exact_sum import Addition
from impl._native import scatters as native
from impl._native.scope import or_native

#: Where the scatter runs: on devices that XLA may partition it for, on one device, or on one CPU.
Target = Literal["anywhere", "device", "cpu"]


@or_native(native.scatter_add)
def scatter_add(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    mode: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    subtract: bool = False,
    target: Target = "anywhere",
    axis_names: Sequence[Any] = (),
) -> jax.Array:
    """Returns the operand with updates added to it, as ``lax.scatter_add`` does.

    Args:
        operand: float16, bfloat16, float32 or float64, any shape.
        indices: Integers, as ``lax.scatter_add`` takes them.
        updates: The dtype of ``operand``.
        dimension_numbers: As ``lax.scatter_add`` takes them.
        mode: As ``lax.scatter_add`` takes it.
        indices_are_sorted: Whether they are; nothing checks it.
        unique_indices: Whether no two updates have one destination; nothing checks it.
        subtract: Whether the updates are subtracted.
        target: Where the scatter runs. Each value gives the same bits. XLA may partition a scatter
            for ``"anywhere"`` alone.
        axis_names: The mesh axes of a ``shard_map`` to sum over: operands and updates of all
            devices are added in one sum.

    ``lax.scatter_add`` has the parameters up to ``unique_indices`` too. The other parameters choose
    the algorithm.

    Returns:
        Shape and dtype of ``operand``.
    """
    if operand.size == 0:
        return operand
    operand, indices, updates = aligned(operand, indices, updates)
    updates = lax.neg(updates) if subtract else updates
    if target == "device" and not axis_names:
        keys = keys_of(operand, indices, updates, dimension_numbers, mode)
        if keys is not None:
            return added(operand, keys, updates, unique=unique_indices)
    devices = Devices(tuple(axis_names))

    def add(operand: jax.Array, updates: jax.Array) -> jax.Array:
        total = lax.scatter_add(
            operand,
            indices,
            updates,
            dimension_numbers,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
        )
        return devices.sum(total)

    batch = dimension_numbers.scatter_indices_batching_dims
    sizes = [size for axis, size in enumerate(indices.shape[:-1]) if axis not in batch]
    # Each window writes an element at most once.
    count = (1 if unique_indices else math.prod(sizes)) + 1
    how = Addition(add, count * devices.number, devices)
    return how.rounded(operand.dtype, operand, updates)


#: Larger arrays may need row numbers of 64 bits.
_MOST = 2**31 - 2**18


def added(
    operand: jax.Array, keys: jax.Array, updates: jax.Array, *, unique: bool = False
) -> jax.Array:
    """Returns an operand with rows added to it, in the spec's order ``nearest``.

    Args:
        operand: float16, bfloat16, float32 or float64.
        keys: As ``keys_of`` returns them.
        updates: Rows of floats.
        unique: Whether no two updates have one destination.
    """
    n = keys.size
    width = updates.size // n
    shape = () if width == 1 else (width,)
    rows, updates = (each.reshape(-1, *shape) for each in (operand, updates))
    replicas = Replicas.of(keys, rows.shape[0], width=width, unique=unique)
    how = Addition(replicas.add, 2 if unique else n + 1)
    return how.rounded(operand.dtype, rows, updates).reshape(operand.shape)


def keys_of(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    numbers: ScatterDimensionNumbers,
    mode: Any,
) -> jax.Array | None:
    """Returns, for each row of updates, the number of the operand's row that it is added to.

    Args:
        operand: The array that is added to.
        indices: As ``lax.scatter_add`` takes them.
        updates: The windows.
        numbers: The dimension numbers.
        mode: The treatment of windows that are out of bounds.

    Returns:
        int32, shape [n]. An update that is dropped has the number of rows of the operand. None if
        the arrays are too large, or if there are no updates.
    """
    if max(operand.size, updates.size) > _MOST or updates.size == 0:
        return None
    indexed = list(numbers.scatter_dims_to_operand_dims)
    batch = list(numbers.operand_batching_dims)
    hidden = {*numbers.inserted_window_dims, *batch}
    windowed = [axis for axis in range(operand.ndim) if axis not in hidden]
    window = dict(zip(windowed, numbers.update_window_dims, strict=True))
    row_rank = _row_rank(operand, updates, indexed, window)
    outer = updates.shape[: updates.ndim - row_rank]
    index_axes = [axis for axis in range(updates.ndim) if axis not in numbers.update_window_dims]
    rows, inside = lax.full(outer, 0, np.int32), lax.full(outer, True)
    for axis, length in enumerate(operand.shape[: operand.ndim - row_rank]):
        coordinate = lax.full(outer, 0, np.int32)
        if axis in indexed:
            start = indices[..., indexed.index(axis)]
            last = length - (updates.shape[window[axis]] if axis in window else 1)
            if GatherScatterMode.from_any(mode) == GatherScatterMode.CLIP:
                start = start.clip(0, last)
            is_inside = (start >= 0) & (start <= last)
            inside = lax.bitwise_and(inside, lax.broadcast_in_dim(is_inside, outer, index_axes))
            coordinate = lax.broadcast_in_dim(start.astype(np.int32), outer, index_axes)
        if axis in batch:
            batch_axis = numbers.scatter_indices_batching_dims[batch.index(axis)]
            coordinate = lax.broadcasted_iota(np.int32, outer, index_axes[batch_axis])
        if axis in window:
            offset = lax.broadcasted_iota(np.int32, outer, window[axis])
            coordinate = lax.add(coordinate, offset)
        rows = lax.add(lax.mul(rows, lax.full_like(rows, length)), coordinate)
    size = math.prod(operand.shape[: operand.ndim - row_rank])
    return lax.select(inside, rows, lax.full_like(rows, size)).reshape(-1)


def _row_rank(
    operand: jax.Array, updates: jax.Array, indexed: Sequence[int], window: dict[int, int]
) -> int:
    """Returns how many axes, from the last on, each window covers whole."""
    count = 0
    while count < operand.ndim:
        axis, update_axis = operand.ndim - 1 - count, updates.ndim - 1 - count
        is_whole = window.get(axis) == update_axis and axis not in indexed
        if not is_whole or operand.shape[axis] != updates.shape[update_axis]:
            break
        count += 1
    return count


#: The least number of updates for which replicas are worth their launches.
_FEW = 1 << 14
#: The greatest number of elements of all replicas, and the least number of updates for each row of
#: them, since every row is filled and read once.
_ELEMENTS, _SHARE = 1 << 17, 8
#: The least replicas that each destination has, if all have some.
_LEAST = 32
#: The number of entries of the table of hot destinations.
_SLOTS = 512
#: The number of keys in a sample, and how many equal keys in the sample make a destination hot.
_SAMPLE, _OFTEN = 1024, 4
#: 2**32 divided by the golden ratio, by which a product spreads neighbouring keys.
_SPREAD = 0x9E3779B9


@dataclasses.dataclass(frozen=True)
class Replicas:
    """The rows that updates of destinations go to.

    Attributes:
        size: The number of destinations.
        rows: The row of each update, int32, shape [n]; beyond the last row for an update that is
            dropped.
        copies: The number of replicas of each destination that has replicas; 1 without replicas.
        hot: The destination that each slot of the hash table has replicas of, int32; -1 for an
            empty slot. None if all destinations have replicas, or no destination has.
    """

    size: int
    rows: jax.Array
    copies: int = 1
    hot: jax.Array | None = None

    @staticmethod
    def of(keys: jax.Array, size: int, *, width: int = 1, unique: bool = False) -> Replicas:
        """Returns the rows of updates.

        Args:
            keys: The destination of each update, int32, shape [n]; ``size`` for one to be dropped.
            size: The number of destinations.
            width: The elements of a destination. A wide hot destination has many addresses.
            unique: Whether no two updates have one destination.
        """
        n = keys.shape[0]
        if unique or n < _FEW:
            return Replicas(size, keys)
        rows = min(_ELEMENTS // width, n // _SHARE)
        if rows // size >= _LEAST:
            copies = _power_of_two(rows // size)
            return Replicas(size, _in_turn(keys, copies), copies)
        copies = _power_of_two(rows // _SLOTS)
        beyond = size + _SLOTS * copies
        if copies < 2 or beyond > np.iinfo(np.int32).max:
            return Replicas(size, keys)
        hot = _hot(keys, size)
        slot = _slot(keys)
        is_kept = lax.lt(keys, lax.full_like(keys, size))
        is_hot = lax.bitwise_and(is_kept, lax.eq(_at(hot, slot), keys))
        others = lax.select(is_kept, keys, lax.full_like(keys, beyond))
        replica = lax.add(_in_turn(slot, copies), lax.full_like(slot, size))
        return Replicas(size, lax.select(is_hot, replica, others), copies, hot)

    def add(self, initial: jax.Array, updates: jax.Array) -> jax.Array:
        """Returns the initial values with updates added to them.

        Args:
            initial: Shape [size, ...].
            updates: Shape [n, ...], of one of the dtypes that XLA's atomics take. No order of the
                additions may change the result.

        Returns:
            The shape of ``initial``.
        """
        if self.copies == 1:
            return fence(_scatter(initial, self.rows, updates))
        if self.hot is None:
            return self._of_all(initial, updates)
        width = initial.shape[1:]
        spare = _zeros((_SLOTS * self.copies, *width), initial)
        sums = _scatter(lax.concatenate(aligned(initial, spare), 0), self.rows, updates)
        # Without the fence, XLA would move the computation that reads the sums into the operand of
        # a scatter.
        sums = fence(sums)
        folded = lax.reduce_sum(sums[self.size :].reshape(_SLOTS, self.copies, *width), (1,))
        # A gather adds the sum of its replicas to each hot destination.
        key = lax.iota(np.int32, self.size)
        slot = _slot(key)
        is_hot = lax.eq(_at(self.hot, slot), key)
        shape = initial.shape
        part = lax.select(
            lax.broadcast_in_dim(is_hot, shape, (0,)),
            _at(folded, slot),
            _zeros(shape, initial),
        )
        return lax.add(sums[: self.size], part)

    def _of_all(self, initial: jax.Array, updates: jax.Array) -> jax.Array:
        width = initial.shape[1:]
        sums = _zeros((self.size * self.copies, *width), initial)
        sums = _scatter(sums, self.rows, updates)
        folded = lax.reduce_sum(sums.reshape(self.size, self.copies, *width), (1,))
        return lax.add(initial, folded)


def _power_of_two(limit: int) -> int:
    """Returns the greatest power of two up to a limit; 0 for 0."""
    return 1 << (limit.bit_length() - 1) if limit else 0


def _in_turn(groups: jax.Array, copies: int) -> jax.Array:
    """Returns the row of each update, if consecutive updates of a group take turns."""
    turn = lax.iota(np.int32, groups.shape[0])
    turn = lax.bitwise_and(turn, lax.full_like(turn, copies - 1))
    return lax.add(lax.mul(groups, lax.full_like(groups, copies)), turn)


def _hot(keys: jax.Array, size: int) -> jax.Array:
    """Returns the hot destination of each slot, and -1 for an empty slot.

    If several hot destinations have one slot, the greatest gets the replicas.
    """
    n = keys.shape[0]
    # A stratified sample: one key of each part, at an irregular position, since keys may be
    # periodic.
    starts = np.linspace(0, n, _SAMPLE, endpoint=False, dtype=np.int64)
    positions = starts + np.random.default_rng(0).integers(0, max(1, n // _SAMPLE), _SAMPLE)
    sample = _at(keys, lax.full_like(keys, 0, shape=(_SAMPLE,)) + positions.astype(np.int32))
    sample = lax.sort(sample)
    # In the sorted sample, a key that occurs k times equals the entry k - 1 further on.
    later = lax.pad(sample[_OFTEN - 1 :], np.int32(size), [(0, _OFTEN - 1, 0)])
    is_hot = lax.bitwise_and(lax.eq(sample, later), lax.lt(sample, lax.full_like(sample, size)))
    hot = lax.select(is_hot, sample, lax.full_like(sample, -1))
    shape = (_SLOTS, _SAMPLE)
    hot, slots = (lax.broadcast_in_dim(each, shape, (1,)) for each in (hot, _slot(sample)))
    is_own = lax.eq(slots, lax.broadcasted_iota(np.int32, shape, 0))
    return lax.reduce_max(lax.select(is_own, hot, lax.full_like(hot, -1)), (1,))


def _slot(keys: jax.Array) -> jax.Array:
    """Returns the slot of the hash table that each destination has: its hash."""
    word = lax.convert_element_type(keys, np.uint32)
    spread = lax.mul(word, lax.full_like(word, _SPREAD))
    shift = 33 - _SLOTS.bit_length()
    return lax.convert_element_type(
        lax.shift_right_logical(spread, lax.full_like(spread, shift)), np.int32
    )


def _at(values: jax.Array, positions: jax.Array) -> jax.Array:
    """Returns the rows of an array at positions within its bounds."""
    result: jax.Array = values.at[positions].get(mode="promise_in_bounds")
    return result


def _zeros(shape: tuple[int, ...], like: jax.Array) -> jax.Array:
    return lax.full_like(like, 0, shape=shape)


def _scatter(operand: jax.Array, rows: jax.Array, updates: jax.Array) -> jax.Array:
    """Adds rows by a scatter of XLA, since the equations of rules are lowered natively."""
    numbers = ScatterDimensionNumbers(tuple(range(1, operand.ndim)), (0,), (0,))
    return lax.scatter_add(operand, lax.expand_dims(rows, (1,)), updates, numbers, mode="drop")
