"""Reads and writes at indices along one axis, which ops with indices are made of.

All take an operand of [outer, size, inner], indices of [outer or 1, n, inner or 1], which count
along the middle axis, and updates of [outer, n, inner] and of the operand's dtype. Reads of indices
outside of [0, size) give NaN, or the value of ``jax.numpy``'s fill mode for other dtypes; writes
there are dropped::

    operand [10, 20, 30]         gather(..., [2, 0, 3])                       [30, 10, nan]
    updates [1, 2, 3] to them    accumulate(..., [2, 0, 3], updates)          [12, 20, 31]

Each is one of JAX's own primitives, so the mode orders the sums, also the sums of derivatives. The
gradient of a read is a sum at the same indices. Arrays of indices for several dimensions are
combined to one flat index.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import index_dtype, three_axes, within, wrapped
from impl._core.float_order import extreme_keys, from_extreme_keys
from impl._core.lax_functions import where
from impl._core.numerics import convert
from impl._core.shard_axes import vary_like
from impl._kernels.launch import ReductionName
from impl._mode.alert import alert_pullback
from impl._mode.decide import Decision
from impl._mode.modes import current, sum_dtype


def index_of_slices(
    function: str,
    input: jax.Array,
    dim: int,
    index: Array,
    error: type[Exception] = IndexError,
    *,
    wrap: bool = False,
) -> tuple[int, jax.Array]:
    """Returns ``dim`` counted from the front, and an index of slices along it, as a vector.

    Both are checked; ``error`` is the exception for an index that is out of range.
    """
    dim = arguments.dimension(dim, input.ndim, function)
    vector = arguments.index_vector(function, index)
    size = input.shape[dim] if input.ndim else 1
    arguments.index_range(function, index, size, dim, error, wrap=wrap)
    return dim, vector


def into_slices(
    write: Callable[..., jax.Array],
    input: jax.Array,
    dim: int,
    index: jax.Array,
    source: jax.Array,
    **options: Any,
) -> jax.Array:
    """Writes the slices of ``source`` along ``dim`` by a function such as ``accumulate``."""
    operands = three_axes(input, dim), index[None, :, None], three_axes(source, dim)
    return write(*operands, **options).reshape(input.shape)


def gather(operand: jax.Array, indices: jax.Array, *, pullback: Decision) -> jax.Array:
    """Reads elements of the operand; ``pullback`` is the decision of the gradient."""
    shape = operand.shape[0], indices.shape[1], operand.shape[2]
    if 0 in shape:
        return vary_like(jnp.zeros(shape, operand.dtype), operand, indices)
    if jnp.issubdtype(operand.dtype, jnp.inexact):
        out = _differentiable(operand, indices, sum_dtype(operand.dtype))
        return alert_pullback(out, pullback)
    return _gathered(operand, indices)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _differentiable(operand: jax.Array, indices: jax.Array, dtype: np.dtype) -> jax.Array:
    """Reads floats; the gradient is added in another dtype, and rounded once."""
    del dtype
    return _gathered(operand, indices)


@_differentiable.defjvp
def _jvp_of_read(dtype: np.dtype, primals: Any, tangents: Any) -> Any:
    tangent, indices = convert(tangents[0], dtype), primals[1]
    return _differentiable(*primals, dtype), convert(_gathered(tangent, indices), tangents[0].dtype)


def _gathered(operand: jax.Array, indices: jax.Array) -> jax.Array:
    shape = operand.shape[0], indices.shape[1], operand.shape[2]
    if operand.shape[1] == 0:
        # No index is valid, and a gather needs an element to read.
        operand = jnp.zeros((operand.shape[0], 1, operand.shape[2]), operand.dtype)
        indices = jnp.ones_like(indices)
    axes = _Axes(operand, indices)
    numbers = GatherDimensionNumbers(
        offset_dims=axes.windows,
        collapsed_slice_dims=axes.middle,
        start_index_map=axes.middle,
        operand_batching_dims=axes.batch,
        start_indices_batching_dims=axes.of_indices,
    )
    sizes = [size if axis in axes.windows else 1 for axis, size in enumerate(axes.shape)]
    mode = GatherScatterMode.FILL_OR_DROP
    values = operand.reshape(axes.shape)
    out: jax.Array = lax.gather(values, axes.indices, numbers, slice_sizes=sizes, mode=mode)
    return out.reshape(shape)


def accumulate(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    by: ReductionName = "add",
    unique: bool = False,
) -> jax.Array:
    """Combines the operand with updates. float16 and bfloat16 are combined in float32.

    Minima and maxima are the same in every order; a NaN is below and above every number, and -0 is
    below 0. Elements that are equal to an extreme share its gradient. A product may have zeros
    among its factors, in derivatives too. ``unique`` is whether no element has two updates; nothing
    checks it.
    """
    if updates.size == 0 or operand.size == 0:
        return operand
    if by in ("min", "max"):
        return extreme(by, operand, jnp.ones(operand.shape, bool), indices, updates)
    dtype = sum_dtype(operand.dtype)
    wide, terms = convert(operand, dtype), convert(updates, dtype)
    if by == "mul" and not unique and jnp.issubdtype(dtype, jnp.inexact):
        return convert(_product(wide, indices, terms), operand.dtype)
    return convert(_scatter(f"scatter_{by}", wide, indices, terms, unique=unique), operand.dtype)


def assign(
    operand: jax.Array, indices: jax.Array, updates: jax.Array, *, unique: bool = False
) -> jax.Array:
    """Writes updates. Of several updates of one element one stays: the last, if the mode orders it.

    An element has the gradient of the update that stays; any other update has the gradient 0.
    ``unique`` is whether no element has two updates; nothing checks it.
    """
    if updates.size == 0 or operand.size == 0:
        return operand
    return _scatter("scatter", operand, indices, updates, unique=unique)


def counts(size: int, indices: jax.Array) -> jax.Array:
    """Counts the updates of each destination: int32, shape [outer or 1, size, inner or 1]."""
    zeros = jnp.zeros((indices.shape[0], size, indices.shape[2]), jnp.int32)
    return accumulate(zeros, indices, jnp.ones(indices.shape, jnp.int32))


class _Axes:
    """The axes of a read or write in JAX's form, without axes of one element, which cost time.

    Attributes:
        shape: The shape of the operand.
        windows: The axes that a window has whole.
        middle: The axis that the indices count along.
        batch: The axes along which the indices differ.
        of_indices: The axes of the indices for ``batch``.
        indices: The batch axes, the axis of n, and an axis of one element.
    """

    def __init__(self, operand: jax.Array, indices: jax.Array) -> None:
        if indices.dtype != jnp.int32:
            # JAX narrows indices of 64 bits, or the size, before it compares them.
            indices = within(indices, operand.shape[1])
        batch = [axis for axis in (0, 2) if indices.shape[axis] > 1]
        axes = [axis for axis in range(3) if axis == 1 or operand.shape[axis] != 1 or axis in batch]
        of_indices = [axis for axis in axes if axis == 1 or axis in batch]
        self.shape = [operand.shape[axis] for axis in axes]
        self.middle = (axes.index(1),)
        self.batch = tuple(axes.index(axis) for axis in batch)
        self.windows = tuple(i for i in range(len(axes)) if i not in (*self.middle, *self.batch))
        self.of_indices = tuple(of_indices.index(axis) for axis in batch)
        self.indices = indices.reshape([*(indices.shape[axis] for axis in of_indices), 1])


def _scatter(
    method: str, operand: jax.Array, indices: jax.Array, updates: jax.Array, *, unique: bool
) -> jax.Array:
    """Calls a scatter of ``jax.lax``, named by its method."""
    axes = _Axes(operand, indices)
    numbers = ScatterDimensionNumbers(
        update_window_dims=axes.windows,
        inserted_window_dims=axes.middle,
        scatter_dims_to_operand_dims=axes.middle,
        operand_batching_dims=axes.batch,
        scatter_indices_batching_dims=axes.of_indices,
    )
    shape = axes.shape.copy()
    shape[axes.middle[0]] = updates.shape[1]
    out: jax.Array = getattr(lax, method)(
        operand.reshape(axes.shape),
        axes.indices,
        updates.reshape(shape),
        numbers,
        unique_indices=unique,
        mode=GatherScatterMode.FILL_OR_DROP,
    )
    return out.reshape(operand.shape)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def extreme(
    by: ReductionName,
    operand: jax.Array,
    takes_part: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
) -> jax.Array:
    """Returns the minimum or the maximum of each initial value and its updates.

    ``takes_part`` is whether each initial value has a share of the gradient if it is the extreme.
    """
    del takes_part
    scatter = functools.partial(_scatter, f"scatter_{by}", unique=False)

    def by_keys(operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        sign = -1 if by == "min" else 1
        initial, updated = (extreme_keys(sign, each) for each in (operand, updates))
        return from_extreme_keys(sign, scatter(initial, indices, updated), operand.dtype)

    arrays, is_float = (operand, indices, updates), jnp.issubdtype(operand.dtype, jnp.floating)
    if current().portable or not is_float or operand.dtype.itemsize == 1:
        return by_keys(*arrays)
    # XLA for a CPU orders floats as the keys do, but for subnormal ones, which it takes for zeros.
    result: jax.Array = lax.platform_dependent(*arrays, cpu=scatter, default=by_keys)
    return result


@extreme.defjvp
def _jvp_of_extreme(by: ReductionName, primals: Any, tangents: Any) -> Any:
    """Shares the tangent of an extreme among the elements that are equal to it."""
    operand, takes_part, indices, updates = primals
    out = extreme(by, *primals)
    if not jnp.issubdtype(operand.dtype, jnp.inexact):
        return out, tangents[0]
    operand_dot, _, _, updates_dot = tangents
    is_first = takes_part & (operand == out)
    is_equal = updates == gather(out, indices, pullback=Decision())
    count = accumulate(is_first.astype(jnp.int32), indices, is_equal.astype(jnp.int32))
    zero = jnp.zeros((), operand.dtype)
    total = accumulate(
        where(is_first, operand_dot, zero), indices, where(is_equal, updates_dot, zero)
    )
    return out, total / jnp.maximum(count, 1).astype(total.dtype)


@jax.custom_jvp
def _product(operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
    """Multiplies floats; ``lax.scatter_mul`` has no derivatives if an index occurs twice."""
    return _scatter("scatter_mul", operand, indices, updates, unique=False)


@_product.defjvp
def _jvp_of_product(primals: Any, tangents: Any) -> Any:
    """Computes the tangent: the sum of each tangent times all other factors of its destination."""
    operand, indices, updates = primals
    operand_dot, _, updates_dot = tangents
    zeros = accumulate((operand == 0).astype(jnp.int32), indices, (updates == 0).astype(jnp.int32))
    # The product of the factors that are not 0. If one factor is 0, only its own tangent counts.
    nonzero = _product(_replace_zero(operand), indices, _replace_zero(updates))
    of_operand = _product_of_others(operand, nonzero, zeros)
    read = functools.partial(gather, indices=indices, pullback=Decision())
    of_updates = _product_of_others(updates, read(nonzero), read(zeros))
    tangent = accumulate(operand_dot * of_operand, indices, updates_dot * of_updates)
    return _product(*primals), tangent


def _replace_zero(factor: jax.Array) -> jax.Array:
    return where(factor == 0, jnp.ones_like(factor), factor)


def _product_of_others(factor: jax.Array, nonzero: jax.Array, zeros: jax.Array) -> jax.Array:
    """Returns the product of all factors of a destination except ``factor``.

    ``nonzero`` is the product of the factors that are not 0, and ``zeros`` the number of zeros.
    """
    others_are_nonzero = zeros == (factor == 0)
    quotient = nonzero / _replace_zero(factor)
    return where(others_are_nonzero, quotient, jnp.zeros_like(quotient))


@dataclasses.dataclass(frozen=True, eq=False)
class AxisIndex:
    """An array of indices along one axis.

    Attributes:
        axis: The axis.
        index: Integers of any shape, checked where they are known; negative ones count from the
            end.
        number: Whether it stands for an int, which does not affect the order of the result's
            dimensions.
    """

    axis: int
    index: Array
    number: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class FlatIndex:
    """One index into the indexed axes of an array, flattened to one axis.

    The other axes are folded into an outer and an inner axis, so that whole rows are read and
    written.

    Attributes:
        shape: Shape of the array that is indexed.
        axes: Its indexed axes, in ascending order.
        before: Number of the other axes that come before the dimensions of the index in the result.
        index_shape: Shape to which the arrays of indices broadcast.
        flat: One index for each element of ``index_shape``, in row-major order, shape [1, n, 1].
            Where an array of indices is out of range, it is outside [0, size).
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    before: int
    index_shape: tuple[int, ...]
    flat: jax.Array

    @property
    def others(self) -> list[int]:
        """The axes that are not indexed."""
        return [axis for axis in range(len(self.shape)) if axis not in self.axes]

    @property
    def order(self) -> list[int]:
        """All axes, with the indexed ones next to each other."""
        return [*self.others[: self.before], *self.axes, *self.others[self.before :]]

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the elements that are read or written."""
        lengths = [self.shape[axis] for axis in self.others]
        return (*lengths[: self.before], *self.index_shape, *lengths[self.before :])

    def fold(self, array: jax.Array) -> jax.Array:
        """Returns an array of ``shape`` as [outer, size, inner]."""
        size = math.prod(self.shape[axis] for axis in self.axes)
        return self._three_axes(array.transpose(self.order), size)

    def unfold(self, folded: jax.Array) -> jax.Array:
        """Returns an array of ``shape`` from [outer, size, inner]: the inverse of ``fold``."""
        ordered = folded.reshape([self.shape[axis] for axis in self.order])
        return ordered.transpose([self.order.index(axis) for axis in range(len(self.order))])

    def spread(self, values: jax.Array) -> jax.Array:
        """Returns values, broadcast to ``result_shape``, as [outer, n, inner]."""
        return self._three_axes(jnp.broadcast_to(values, self.result_shape), self.flat.shape[1])

    def _three_axes(self, array: jax.Array, middle: int) -> jax.Array:
        lengths = [self.shape[axis] for axis in self.others]
        return array.reshape(
            math.prod(lengths[: self.before]), middle, math.prod(lengths[self.before :])
        )


def flat_index(function: str, shape: tuple[int, ...], indices: Sequence[AxisIndex]) -> FlatIndex:
    """Combines arrays of indices, at least one, in ascending order of axes.

    As in NumPy, their dimensions replace the indexed axes in the result if these are neighbours,
    and come first if they are not. An index that stands for an int removes its axis before that.
    """
    axes = tuple(index.axis for index in indices)
    return FlatIndex(
        shape=shape,
        axes=axes,
        before=_axes_before(len(shape), indices),
        index_shape=_broadcast(function, [np.shape(index.index) for index in indices]),
        flat=_flat(indices, [shape[axis] for axis in axes]),
    )


def _axes_before(ndim: int, indices: Sequence[AxisIndex]) -> int:
    numbers = [index.axis for index in indices if index.number]
    arrays = [index.axis for index in indices if not index.number]
    remaining = [axis for axis in range(ndim) if axis not in numbers]
    positions = [remaining.index(axis) for axis in arrays]
    if positions and positions[-1] - positions[0] >= len(positions):
        return 0
    first = (arrays or numbers)[0]
    return sum(axis < first for axis in remaining)


def _broadcast(function: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise IndexError(
            f"{function}(): shape mismatch: indexing arrays could not be broadcast together with "
            f"shapes {listed}"
        ) from None


def _flat(indices: Sequence[AxisIndex], sizes: list[int]) -> jax.Array:
    """Returns one index for all axes; past the last element where one of them is out of range."""
    total = math.prod(sizes)
    dtype = index_dtype(total)
    known = [arguments.if_known(index.index) for index in indices]
    values = [index for index in known if index is not None]
    if len(values) == len(known):
        # The caller has checked the range. NumPy computes the index, so that nothing is compiled.
        wrapped_values = [
            np.where(i < 0, i + size, i).astype(np.int64)
            for i, size in zip(values, sizes, strict=True)
        ]
        return jnp.asarray(_offset(wrapped_values, sizes).astype(dtype)).reshape(1, -1, 1)
    shape = np.broadcast_shapes(*(np.shape(index.index) for index in indices))
    traced = [
        jnp.broadcast_to(within(wrapped(jnp.asarray(index.index), size), size), shape)
        for index, size in zip(indices, sizes, strict=True)
    ]
    if len(traced) == 1:
        return traced[0].astype(dtype).reshape(1, -1, 1)
    inside = [i < size for i, size in zip(traced, sizes, strict=True)]
    offset = _offset([i.astype(dtype) for i in traced], sizes)
    return where(functools.reduce(operator.and_, inside), offset, total).reshape(1, -1, 1)


def _offset(indices: list[Any], sizes: list[int]) -> Any:
    """Returns the row-major index into axes of these sizes, from NumPy's or JAX's arrays."""
    steps = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return functools.reduce(
        operator.add, [i * step for i, step in zip(indices, steps, strict=True)]
    )
