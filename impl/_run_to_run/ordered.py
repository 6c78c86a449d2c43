"""JAX's scatters in an order that the source fixes, each written as a scatter of rows.

Sums and products sort their contributions by destination, and combine each destination's from left
to right: by a kernel (``impl._kernels.scatters``), or in rounds where JAX has no kernels, and
under ``portable``. Of several writes to one element the last one stays: the positions of the writes
are scattered, as integers, by their maximum. For ``x.at[jnp.array([2, 0, 2])].add(u)``::

    destinations, sorted     0 2 2
    rows of u                1 0 2         a stable sort, so that rows ascend for each destination
    results                  x[0] + u[1], x[1], (x[2] + u[0]) + u[2]

``lax.scatter`` writes windows of any number of dimensions, whose starts are vectors of indices. A
``FlatScatter`` is of rows: of [n, width] into [size, width]. The axes of a batch, and the axes that
an index starts a window in, become one axis of rows, by the row-major formula ``row = i * stride_i
+ j * stride_j``. A window that is longer than 1 along such an axis becomes several rows, one for
each offset. The other axes become the width of a row. For ``x.at[i, j].add(u)`` with x of [4, 5,
6], i and j of [9] and u of [9, 6]::

    operand   [20, 6]   indexed axes 4 * 5, and 6 numbers in each row
    keys      [9]       5 * i + j; 20, one beyond the last row, where (i, j) is out of bounds
    updates   [9, 6]

``FlatScatter.restore`` brings the result of [20, 6] back to [4, 5, 6].
"""

from __future__ import annotations

import dataclasses
import functools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode, ScatterDimensionNumbers

from impl import _kernels
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, isolate
from impl._core.shard_axes import vary_like
from impl._exact.sums.pool_choices import UNROLLED, Padding, Pool, chosen_taps, summed
from impl._jax import Primitive
from impl._jax.shardings import Names
from impl._kernels.launch import ADD, MUL, Launch, Reduction, scheduled
from impl._mode.emulation import Seed

#: The number of bits of the widest integer that holds a key together with its position.
_WORD = 32


def compute(
    primitive: Primitive,
    *operands: jax.Array,
    launch: Launch | None,
    by_atomics: bool = False,
    **params: Any,
) -> jax.Array:
    """Computes what an equation of JAX does, in an order that the device does not choose.

    Args:
        primitive: One of ``impl._core.ordered_primitives.PRIMITIVES``.
        *operands: The operands of the equation.
        launch: How kernels run; None for no kernels.
        by_atomics: Whether the device chooses an order after all, for the mode off.
        **params: The parameters of the equation.
    """
    if primitive is lax.select_and_scatter_add_p:
        return select_and_scatter_add(*operands, **params)
    operand, indices, updates = operands
    numbers, mode = params["dimension_numbers"], params["mode"]
    if jnp.issubdtype(operand.dtype, jax.dtypes.extended):
        return _scatter_of_keys(primitive, *operands, launch=launch, **params)
    flat = flatten(operand, indices, updates, dimension_numbers=numbers, mode=mode)
    if flat.operand.size == 0 or flat.updates.size == 0:
        return operand
    if primitive is lax.scatter_p:
        return flat.restore(_last_written(flat))
    reduction = MUL if primitive is lax.scatter_mul_p else ADD
    if primitive is lax.scatter_sub_p:
        flat = dataclasses.replace(flat, updates=-flat.updates)
    if by_atomics and launch is not None:
        rows = flat.operand, flat.keys, flat.updates
        return flat.restore(_kernels.scatters.combine(*rows, reduction=reduction, launch=launch))
    return flat.restore(_combined(flat, reduction, launch))


def has_atomics(primitive: Primitive, dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether the kernel of atomics takes a scatter that XLA compiles to a loop."""
    return primitive is lax.scatter_mul_p and dtype in (jnp.float32, jnp.float64)


def free_axes(primitive: Primitive, operands: Any, params: Any) -> list[Names] | None:
    """Returns names of the axes along which devices may share an equation, as ``lower`` takes them.

    The primitive is one of ``impl._core.ordered_primitives.PRIMITIVES``.
    """
    if primitive is lax.select_and_scatter_add_p:
        return None  # XLA partitions additions of shifted arrays, which keep their order.
    return _free_axes(*operands, numbers=params["dimension_numbers"])


def _combined(flat: FlatScatter, reduction: Reduction, launch: Launch | None) -> jax.Array:
    """Combines rows with the contributions to each; complex numbers by their parts."""
    if jnp.issubdtype(flat.operand.dtype, jnp.complexfloating):
        parts = dataclasses.replace(
            flat, operand=_parts(flat.operand), updates=_parts(flat.updates)
        )
        return lax.complex(*jnp.split(_combined(parts, reduction, launch), 2, axis=1))
    keys, rows = sorted_keys(flat.keys, flat.operand.shape[0])
    if launch is None:
        return _in_rounds(flat.operand, keys, flat.updates[rows], reduction)
    return _kernels.scatters.fold(
        flat.operand, keys, rows, flat.updates, reduction=reduction, launch=launch
    )


def _parts(values: jax.Array) -> jax.Array:
    return jnp.concatenate([values.real, values.imag], axis=1)


def sorted_keys(destination: jax.Array, destinations: int) -> tuple[jax.Array, jax.Array]:
    """Sorts contributions by destination, then by position.

    If a key and its position fit into one integer, these integers are sorted. Otherwise pairs of
    key and position are sorted, which XLA on a GPU also does by radix.

    Args:
        destination: The destination of each contribution, int32, shape [n].
        destinations: The number of destinations. An invalid destination is sorted as this number.

    Returns:
        The destinations and the positions, int32.
    """
    n = destination.shape[0]
    position = jnp.arange(n, dtype=jnp.int32)
    valid = where(destination < destinations, destination, destinations)
    bits = max(n - 1, 1).bit_length()
    if destinations.bit_length() + bits <= _WORD:
        word = jnp.uint16 if destinations.bit_length() + bits <= _WORD // 2 else jnp.uint32
        words = jax.lax.sort((valid.astype(word) << bits) | position.astype(word))
        positions = (words & word((1 << bits) - 1)).astype(jnp.int32)
        return (words >> bits).astype(jnp.int32), positions
    dtype = jnp.uint16 if destinations < 1 << (_WORD // 2) else jnp.uint32
    keys, positions = jax.lax.sort((valid.astype(dtype), position), num_keys=1, is_stable=True)
    return keys.astype(jnp.int32), positions


def _in_rounds(
    operand: jax.Array, keys: jax.Array, terms: jax.Array, reduction: Reduction
) -> jax.Array:
    """Combines sorted contributions in the rounds of the spec's order ``source``.

    It takes no kernel. Neither padding nor other destinations change the order of a destination.
    """
    n, size = keys.shape[0], operand.shape[0]
    position = vary_like(jnp.arange(n, dtype=jnp.int32), keys)
    starts = jnp.concatenate([vary_like(jnp.ones(1, bool), keys), keys[1:] != keys[:-1]])
    number = position - lax.cummax(where(starts, position, 0))
    longest = jnp.max(number) + 1
    wide = accumulator(operand.dtype)

    def later(values: jax.Array, distance: jax.Array) -> jax.Array:
        twice = jnp.concatenate([values, values])
        return lax.dynamic_slice_in_dim(twice, distance, n)

    def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        distance, totals = state
        takes = (number % (2 * distance) == 0) & (position + distance < n)
        takes &= later(keys, distance) == keys
        both = reduction.combine(totals, later(totals, distance))
        return 2 * distance, where(takes[:, None], both, totals)

    state = vary_like(jnp.int32(1), keys), vary_like(convert(terms, wide), keys)
    _, totals = lax.while_loop(lambda state: state[0] < longest, step, state)
    initial = convert(operand[jnp.minimum(keys, size - 1)], wide)
    totals = convert(reduction.combine(initial, totals), operand.dtype)
    # The rows beyond the last one are distinct too, as ``unique_indices`` promises.
    is_written = starts & (keys < size)
    rows = where(is_written, keys.astype(jnp.uint32), size + position.astype(jnp.uint32))
    numbers = ScatterDimensionNumbers((1,), (0,), (0,))
    return lax.scatter(operand, rows[:, None], totals, numbers, unique_indices=True, mode="drop")


def _last_written(flat: FlatScatter) -> jax.Array:
    """Writes rows; of several writes to one row, the one at the highest position stays."""
    # The maximum of integers is the same in every order.
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    none = vary_like(jnp.full(flat.operand.shape[0], -1, jnp.int32), flat.keys)
    positions = vary_like(jnp.arange(flat.keys.shape[0], dtype=jnp.int32), flat.keys)
    writers = lax.scatter_max(none, flat.keys[:, None], positions, numbers, mode="drop")
    taken = flat.updates[jnp.maximum(writers, 0)]
    return where((writers >= 0)[:, None], taken, flat.operand)


def _scatter_of_keys(
    primitive: Primitive,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    launch: Launch | None,
    dimension_numbers: ScatterDimensionNumbers,
    **params: Any,
) -> jax.Array:
    """Scatters the words of random keys, which are one more dimension of the windows."""
    words, of_updates = jax.random.key_data(operand), jax.random.key_data(updates)
    added = tuple(range(updates.ndim, of_updates.ndim))
    numbers = dimension_numbers._replace(
        update_window_dims=(*dimension_numbers.update_window_dims, *added)
    )
    params = {**params, "dimension_numbers": numbers}
    out = compute(primitive, words, indices, of_updates, launch=launch, **params)
    keys: jax.Array = jax.random.wrap_key_data(out, impl=jax.random.key_impl(operand))
    return keys


def select_and_scatter_add(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    order: jax.Array | None = None,
) -> jax.Array:
    """Computes ``lax.select_and_scatter_add``, the gradient of a max pool, in the order of windows.

    Each window sends its cotangent to the element that it chose, and XLA adds the cotangents of one
    element in any order. Instead, each element first adds the cotangent of the window that has it
    as the last element, then of the window that has it as the last but one, and so on. The order of
    the sum is then the order of the windows, and no scatter is needed. A *tap* is one element of a
    window. ``order`` is the order of the taps, for a test.
    """
    pool = Pool.of(source, operand, window_dimensions, window_strides, padding)
    unrolled = order is None and len(pool.taps) <= UNROLLED
    values = isolate(convert(source, accumulator(source.dtype)))
    chosen = chosen_taps(pool, operand, select_prim, unrolled=unrolled)
    total = summed(pool, values, chosen, unrolled=unrolled, order=order)
    return convert(total, source.dtype)


@dataclasses.dataclass(frozen=True)
class FlatScatter:
    """A scatter of rows, and the way back to the operand's own shape.

    Attributes:
        operand: Shape [size, width].
        keys: The row of each update, int32, shape [n]; ``size`` for one that is dropped.
        updates: Shape [n, width].
        restore: Takes the result, of shape [size, width], and returns it with the shape of the
            operand of the scatter.
    """

    operand: jax.Array
    keys: jax.Array
    updates: jax.Array
    restore: Callable[[jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class _Axes:
    """The axes of a scatter by their use.

    Attributes:
        batch: Axes of the operand that the indices share.
        indexed: Axes of the operand that an index starts a window in, ascending.
        others: The other axes of the operand, where every window starts at 0.
        index_batch: The axes of the indices for ``batch``.
        index_rest: The other axes of the indices, without the last, which the vectors lie along.
        of_index: The axis of the updates for each axis of the indices.
        of_window: The axis of the updates for each axis of the operand that windows extend along.
        extents: The length of a window along each axis of the operand.
    """

    batch: tuple[int, ...]
    indexed: tuple[int, ...]
    others: tuple[int, ...]
    index_batch: tuple[int, ...]
    index_rest: tuple[int, ...]
    of_index: tuple[int, ...]
    of_window: dict[int, int]
    extents: tuple[int, ...]

    def windows(self, axes: Sequence[int]) -> list[int]:
        """Returns the axes of the updates for axes of the operand, if the updates have them."""
        return [self.of_window[axis] for axis in axes if axis in self.of_window]


def flatten(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    mode: GatherScatterMode,
) -> FlatScatter:
    """Returns the scatter of rows that does the same as ``lax.scatter`` with these arguments.

    Windows that are out of bounds are dropped under ``PROMISE_IN_BOUNDS`` too.
    """
    axes = _axes(operand, indices, updates, dimension_numbers)
    # Outside of this part no window writes.
    part = tuple(
        slice(0, axes.extents[axis] if axis in axes.others else size)
        for axis, size in enumerate(operand.shape)
    )
    written = operand[part] if _is_smaller(part, operand) else operand
    order = (*axes.batch, *axes.indexed, *axes.others)
    clips = GatherScatterMode.from_any(mode) == GatherScatterMode.CLIP
    rows = _rows(operand, indices, dimension_numbers, axes, clip=clips)
    rest = [axes.of_index[axis] for axis in (*axes.index_batch, *axes.index_rest)]
    update_order = (*rest, *axes.windows(axes.indexed), *axes.windows(axes.others))
    transposed = [written.shape[axis] for axis in order]
    width = _product(written.shape, axes.others)

    def restore(result: jax.Array) -> jax.Array:
        whole = jnp.transpose(result.reshape(transposed), np.argsort(order).tolist())
        if not _is_smaller(part, operand):
            return whole
        return lax.dynamic_update_slice(operand, whole, [0] * operand.ndim)

    size = _product(written.shape, (*axes.batch, *axes.indexed))
    return FlatScatter(
        operand=jnp.transpose(written, order).reshape(size, width),
        keys=rows,
        updates=jnp.transpose(updates, update_order).reshape(rows.shape[0], width),
        restore=restore,
    )


def _free_axes(
    operand: Any, indices: Any, updates: Any, *, numbers: ScatterDimensionNumbers
) -> list[Names]:
    """Returns names of the axes along which devices may share a scatter: batches, whole windows."""
    axes = _axes(operand, indices, updates, numbers)
    names: list[list[str | None]] = [[None] * each.ndim for each in (operand, indices, updates)]
    letters = iter(string.ascii_lowercase)
    for axis, of_indices in zip(axes.batch, axes.index_batch, strict=True):
        letter = next(letters)
        names[0][axis] = names[1][of_indices] = names[2][axes.of_index[of_indices]] = letter
    for axis in axes.others:
        if axis in axes.of_window and axes.extents[axis] == operand.shape[axis]:
            names[0][axis] = names[2][axes.of_window[axis]] = next(letters)
    return [*map(tuple, names), tuple(names[0])]


def _axes(operand: Any, indices: Any, updates: Any, numbers: ScatterDimensionNumbers) -> _Axes:
    batch = tuple(numbers.operand_batching_dims)
    index_batch = tuple(numbers.scatter_indices_batching_dims)
    indexed = tuple(sorted(numbers.scatter_dims_to_operand_dims))
    hidden = {*numbers.inserted_window_dims, *batch}
    windowed = [axis for axis in range(operand.ndim) if axis not in hidden]
    of_window = dict(zip(windowed, numbers.update_window_dims, strict=True))
    return _Axes(
        batch=batch,
        indexed=indexed,
        others=tuple(a for a in range(operand.ndim) if a not in batch and a not in indexed),
        index_batch=index_batch,
        index_rest=tuple(a for a in range(indices.ndim - 1) if a not in index_batch),
        of_index=tuple(a for a in range(updates.ndim) if a not in numbers.update_window_dims),
        of_window=of_window,
        extents=tuple(
            updates.shape[of_window[axis]] if axis in of_window else 1
            for axis in range(operand.ndim)
        ),
    )


def _rows(
    operand: jax.Array,
    indices: jax.Array,
    numbers: ScatterDimensionNumbers,
    axes: _Axes,
    *,
    clip: bool,
) -> jax.Array:
    """Returns the row of each element of each window; int32, one axis."""
    starts = lax.transpose(indices, (*axes.index_batch, *axes.index_rest, indices.ndim - 1))
    batch = _product(indices.shape, axes.index_batch)
    starts = starts.reshape(batch, _product(indices.shape, axes.index_rest), -1)
    sizes = {axis: operand.shape[axis] for axis in axes.indexed}
    strides = {
        axis: math.prod(sizes[later] for later in axes.indexed if later > axis)
        for axis in axes.indexed
    }
    row = jnp.zeros(starts.shape[:2], jnp.int32)
    inside = jnp.ones(starts.shape[:2], bool)
    for column, axis in enumerate(numbers.scatter_dims_to_operand_dims):
        start = starts[:, :, column]
        # Where the last start does not fit into a narrow dtype of indices, no index can exceed it.
        last = min(sizes[axis] - axes.extents[axis], int(jnp.iinfo(start.dtype).max))
        within = (start >= 0) & (start <= last)
        if clip:
            start = lax.clamp(start.dtype.type(0), start, start.dtype.type(max(last, 0)))
        else:
            inside &= within
            start = lax.select(within, start, lax.full_like(start, 0))
        row += start.astype(jnp.int32) * strides[axis]
    offsets = np.zeros((1,) * len(axes.indexed), np.int32)
    for position, axis in enumerate(axes.indexed):
        shape = [-1 if other == position else 1 for other in range(len(axes.indexed))]
        offsets = offsets + np.arange(axes.extents[axis], dtype=np.int32).reshape(shape) * np.int32(
            strides[axis]
        )
    size = math.prod(sizes.values())
    first = size * lax.broadcasted_iota(jnp.int32, row.shape, 0)
    rows = (row + first)[:, :, None] + offsets.reshape(1, 1, -1)
    inside = lax.broadcast_in_dim(inside, rows.shape, (0, 1))
    return lax.select(inside, rows, lax.full_like(rows, batch * size)).reshape(-1)


def _is_smaller(part: tuple[slice, ...], operand: jax.Array) -> bool:
    return any(each.stop != size for each, size in zip(part, operand.shape, strict=True))


def _product(shape: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod(shape[axis] for axis in axes)


def permuted(
    primitive: Primitive, seed: int | Seed, *operands: jax.Array, **params: Any
) -> jax.Array:
    """Computes an equation with its updates in the order that a seed picks; see ``under``.

    The primitive is one of ``impl._core.ordered_primitives.PRIMITIVES``.
    """
    if "dimension_numbers" not in params:
        taps = int(np.prod(params["window_dimensions"]))
        order = scheduled(seed, taps, salt=0)
        return select_and_scatter_add(*operands, **params, order=order)
    # The order of sorted indices is no longer known.
    bind = functools.partial(primitive.bind, **{**params, "indices_are_sorted": False})
    return under(seed, bind, params["dimension_numbers"], *operands)


def under(
    seed: int | Seed, function: Callable[..., jax.Array], numbers: Any, *operands: jax.Array
) -> jax.Array:
    """Computes a function of a scatter's operands with the updates in the order of a seed.

    The seed is an int, or a ``Seed``, which is read when the program runs. ``numbers`` are the
    dimension numbers of the scatter.
    """
    operand, indices, updates = operands
    of_index = [a for a in range(updates.ndim) if a not in numbers.update_window_dims]
    for axis in range(indices.ndim - 1):
        if axis in numbers.scatter_indices_batching_dims:
            continue
        order = scheduled(seed, indices.shape[axis], salt=axis)
        indices = jnp.take(indices, order, axis=axis, mode="clip")
        updates = jnp.take(updates, order, axis=of_index[axis], mode="clip")
    return function(operand, indices, updates)
