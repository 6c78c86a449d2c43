"""The ops that read elements at indices; their gradients add up all reads of an element.

These are ``gather``, ``index_select``, ``take``, ``take_along_dim`` and ``repeat_interleave``. The
last one reads each slice as often as it is repeated.

For example, of t = [10., 20., 30., 40.]::

    index_select(t, 0, [3, 0, 3])    [40., 10., 40.]
    its cotangent [1., 2., 4.]       the gradient [2., 0., 0., 5.]
    take(t, [-1, 0])                 [40., 10.]
    repeat_interleave(t[:2], [2, 1]) [10., 10., 20.]
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import at_least_1d, corner_slices, three_axes, wrapped
from impl._core.lax_functions import where
from impl._mode.decide import Decision, decide
from impl.ops import _indexing
from impl.ops._op import op


@op("torch.gather")
def gather(input: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> jax.Array:  # noqa: ARG001
    """Reads the elements of ``input`` at the indices ``index`` along ``dim``.

    In three dimensions with ``dim=0``: ``out[i, j, k] = input[index[i, j, k], j, k]``.

    Args:
        input: Any shape and dtype.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, each value in [0, input.shape[dim]). It has as many dimensions as
            ``input``, and may be larger than ``input`` along ``dim`` only; or it is empty. Under
            ``jit`` an index that is out of range reads NaN, or the fill value of
            ``jax.numpy.take`` for dtypes without NaN.
        sparse_grad: Accepted for compatibility with PyTorch and ignored; gradients are dense.

    Returns:
        An array of the shape of ``index`` and the dtype of ``input``. The gradient of an element
        is the sum over all reads of it.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: An index is out of range, shapes do not fit, or ``index`` is not of int32 or
            int64.
    """
    input = arguments.array("gather", "input", input)
    dim = arguments.dimension(dim, input.ndim, "gather")
    indices = arguments.index_array("gather", index)
    pullback = decide("gather", "backward", **arguments.facts(input))
    shape = indices.shape
    if indices.size == 0:
        return jax.numpy.zeros(shape, input.dtype)
    # PyTorch takes a 0-d array for an array of one element, and the reverse.
    input, indices = at_least_1d(input), at_least_1d(indices)
    arguments.same_ndim("gather", indices, input=input)
    arguments.no_larger("gather", indices, dim, input, but_along_dim=True)
    arguments.index_range("gather", index, input.shape[dim], dim)
    # The same result. With negative indices replaced, XLA for a CPU compiles a faster loop.
    indices = where(indices < 0, -input.shape[dim], indices)
    corner = input[corner_slices(indices.shape, dim)]
    out = _indexing.gather(three_axes(corner, dim), three_axes(indices, dim), pullback=pullback)
    return out.reshape(shape)


@op("torch.index_select")
def index_select(input: Array, dim: int, index: Array) -> jax.Array:
    """Reads slices of ``input`` along one dimension.

    Args:
        input: Shape [..., size, ...], any dtype.
        dim: The dimension that ``index`` counts along.
        index: Shape [n] or [], int32 or int64, each in [0, size). Under ``jit`` an index that is
            out of range reads NaN, or the fill value of ``jax.numpy.take`` for dtypes without NaN.

    Returns:
        An array of shape [..., n, ...], of the dtype of ``input``. The gradient of a slice is the
        sum over all reads of it.

    Raises:
        IndexError: ``dim`` or an index is out of range, or ``index`` has more than one dimension.
        RuntimeError: ``index`` is not of int32 or int64, or has several elements for a 0-d
            ``input``.
    """
    input = arguments.array("index_select", "input", input)
    dim, indices = _indexing.index_of_slices("index_select", input, dim, index)
    if input.ndim == 0 and indices.size != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {indices.size} value(s)"
        )
    pullback = decide("index_select", "backward", **arguments.facts(input))
    out = _indexing.gather(three_axes(input, dim), indices[None, :, None], pullback=pullback)
    shape = list(input.shape)
    if shape:
        shape[dim] = indices.size
    return out.reshape(shape)


@op("torch.take")
def take(input: Array, index: Array) -> jax.Array:
    """Reads elements of ``input`` at indices that count in row-major order.

    Args:
        input: Any shape and dtype.
        index: Any shape, int32 or int64, each in [-n, n) for the n elements of ``input``.
            Negative indices count from the end. Under ``jit`` an index that is out of range reads
            NaN, or the fill value of ``jax.numpy.take`` for dtypes without NaN.

    Returns:
        An array of the shape of ``index`` and the dtype of ``input``. The gradient of an element
        is the sum over all reads of it.

    Raises:
        IndexError: An index is out of range.
        NotImplementedError: ``input`` has more elements than 32 bits can count, and x64 is off.
        RuntimeError: ``index`` is not of int32 or int64.
    """
    input = arguments.array("take", "input", input)
    indices = arguments.index_array("take", index)
    arguments.index_range("take", index, input.size, None, IndexError, wrap=True)
    pullback = decide("take", "backward", **arguments.facts(input))
    flat = wrapped(indices, input.size).reshape(1, -1, 1)
    return _indexing.gather(input.reshape(1, -1, 1), flat, pullback=pullback).reshape(indices.shape)


@op("torch.take_along_dim")
def take_along_dim(input: Array, indices: Array, dim: int | None = None) -> jax.Array:
    """Reads the elements of ``input`` at the indices ``indices`` along ``dim``.

    This is ``gather`` for shapes that broadcast. (PyTorch reduces indices modulo ``size``.)

    Args:
        input: Any shape and dtype.
        indices: int32 or int64. With ``dim``: of as many dimensions as ``input``; the shapes
            broadcast in all dimensions but ``dim``, and each index is in [-size, size), where
            negative ones count from the end. Without ``dim``: any shape, and each index is in
            [0, n) for the n elements of ``input``. Under ``jit`` an index that is out of range
            reads NaN, or the fill value of ``jax.numpy.take`` for dtypes without NaN.
        dim: The dimension that ``indices`` count along; None flattens both arrays.

    Returns:
        An array of the broadcast shape, with the length of ``indices`` along ``dim``, and of the
        dtype of ``input``. The gradient of an element is the sum over all reads of it.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: An index is out of range, shapes do not fit, or ``indices`` are not of int32
            or int64.
    """
    input = arguments.array("take_along_dim", "input", input)
    index = arguments.index_array("take_along_dim", indices, name="indices")
    pullback = decide("take_along_dim", "backward", **arguments.facts(input))
    if dim is None:
        arguments.index_range("take_along_dim", indices, input.size, None, name="indices")
        flat = input.reshape(1, -1, 1)
        return _indexing.gather(flat, index.reshape(1, -1, 1), pullback=pullback).reshape(-1)
    if input.ndim != index.ndim:
        raise RuntimeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but "
            f"got {input.ndim} dimensions for input, and {index.ndim} dimensions for indices"
        )
    dim = arguments.dimension(dim, input.ndim, "take_along_dim", numbers_have_one=False)
    size = input.shape[dim]
    arguments.index_range("take_along_dim", indices, size, dim, wrap=True, name="indices")
    return _read_broadcast(input, wrapped(index, size), dim, pullback)


def _read_broadcast(input: jax.Array, index: jax.Array, dim: int, pullback: Decision) -> jax.Array:
    """Reads along ``dim``, with all reads of one element in one lane.

    The gradient also sums over the dimensions along which ``input`` is repeated. These are folded
    into the axis of the reads, so that there is one sum, in the order that the row states.
    """
    shape = _broadcast_shape(input, index, dim)
    repeated = [old == 1 != new for old, new in zip(input.shape, shape, strict=True)]
    along = [axis for axis in range(len(shape)) if axis == dim or repeated[axis]]
    before = list(range(along[0]))
    after = [axis for axis in range(along[0], len(shape)) if axis not in along]
    order = [*before, *along, *after]

    def lanes(axes: list[int]) -> list[int]:
        """Returns the lengths of the index, which is not repeated where all lanes share it."""
        shared = all(index.shape[axis] == 1 for axis in axes)
        return [1 if shared else shape[axis] for axis in axes]

    outer, inner = lanes(before), lanes(after)
    middle = [shape[axis] for axis in along]
    repeated_index = jnp.broadcast_to(index.transpose(order), (*outer, *middle, *inner))
    folded = input.transpose(order).reshape(
        math.prod(shape[axis] for axis in before),
        input.shape[dim],
        math.prod(shape[axis] for axis in after),
    )
    lane_index = repeated_index.reshape(math.prod(outer), math.prod(middle), math.prod(inner))
    out = _indexing.gather(folded, lane_index, pullback=pullback)
    ordered = out.reshape([shape[axis] for axis in order])
    return ordered.transpose([order.index(axis) for axis in range(len(order))])


def _broadcast_shape(input: jax.Array, index: jax.Array, dim: int) -> tuple[int, ...]:
    shape = []
    for axis, (length, count) in enumerate(zip(input.shape, index.shape, strict=True)):
        if axis != dim and length != count and 1 not in (length, count):
            raise RuntimeError(
                f"take_along_dim(): The size of input ({length}) must match the size of indices "
                f"({count}) at non-singleton dimension {axis}"
            )
        shape.append(count if axis == dim or length == 1 else length)
    return tuple(shape)


@op("torch.repeat_interleave")
def repeat_interleave(
    input: Array,
    repeats: int | Array | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> jax.Array:
    """Repeats each slice of ``input`` along one dimension.

    Args:
        input: Any shape and dtype. Without ``repeats``, the numbers of repetitions, of shape [n];
            the result is then the positions 0 to n - 1, each repeated.
        repeats: The number of repetitions of each slice: an int, or an array of int32 or int64 of
            shape [size], [1] or [].
        dim: The dimension of the slices; None flattens ``input``.
        output_size: The length of the result along ``dim``, which must be the sum of ``repeats``.
            It is needed under ``jit`` if ``repeats`` is an array. There a shorter result is cut
            off, and a longer one is filled up with NaN, or with the fill value of
            ``jax.numpy.take`` for dtypes without NaN (with n for positions).

    Returns:
        An array of the dtype of ``input`` and of its shape, with the sum of ``repeats`` as the
        length of ``dim``. The gradient of a slice is the sum over its repetitions.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``repeats`` is an array of another dtype than int32 and int64.
        RuntimeError: ``repeats`` has a negative number or does not fit ``input``, or
            ``output_size`` is not their sum.
        TypeError: ``output_size`` is missing under ``jit``.
    """
    if output_size is not None:
        output_size = _not_negative("output_size", output_size)
    if repeats is None:
        return _positions_alone(input, dim, output_size)
    input = arguments.array("repeat_interleave", "input", input)
    if dim is None:
        input, dim = input.reshape(-1), 0
    dim = arguments.dimension(dim, input.ndim, "repeat_interleave", numbers_have_one=False)
    pullback = decide("repeat_interleave", "backward", **arguments.facts(input))
    index = _positions(_by_slice(repeats, input.shape[dim], dim), output_size)
    out = _indexing.gather(three_axes(input, dim), index[None, :, None], pullback=pullback)
    return out.reshape(*input.shape[:dim], index.size, *input.shape[dim + 1 :])


def _positions_alone(repeats: Any, dim: int | None, output_size: int | None) -> jax.Array:
    if dim is not None:
        raise TypeError("repeat_interleave(): argument 'dim' needs argument 'repeats'")
    repeats = _repeats_array(repeats, "input")
    if np.ndim(repeats) != 1:
        raise RuntimeError(
            f"repeat_interleave(): 'input' alone must be a vector of repeats, but got shape "
            f"{list(np.shape(repeats))}"
        )
    return _positions(repeats, output_size).astype(jnp.asarray(repeats).dtype)


def _by_slice(repeats: Any, size: int, dim: int) -> Array:
    """Returns one number of repetitions for each of ``size`` slices."""
    if isinstance(repeats, numbers.Integral):
        return np.full(size, _not_negative("repeats", repeats))
    repeats = _repeats_array(repeats, "repeats")
    if repeats.ndim > 1 or repeats.size not in (1, size):
        raise RuntimeError(
            "repeat_interleave(): repeats must have one element or the size of input along dim, "
            f"but got shape {list(repeats.shape)} and {size} along dimension {dim}"
        )
    values = arguments.known(repeats)
    if values is not None:
        return np.broadcast_to(values.reshape(-1), size)
    return jnp.broadcast_to(jnp.asarray(repeats).reshape(-1), size)


def _positions(repeats: Array, output_size: int | None) -> jax.Array:
    """Returns, for each slice of the result, the position of the slice that it repeats."""
    values = arguments.known(repeats)
    if values is None:
        if output_size is None:
            raise TypeError(
                "repeat_interleave(): the length of the result depends on the values of 'repeats', "
                "which are not known under jit, or where other processes have a part of it; pass "
                "output_size="
            )
        ends = _ends(jnp.clip(jnp.asarray(repeats), 0, output_size), output_size)
        return jnp.cumsum(jnp.zeros(output_size, jnp.int32).at[ends].add(1, mode="drop"))
    if values.size and values.min() < 0:
        position = int(np.argmin(values))
        raise RuntimeError(
            f"repeat_interleave(): repeats can not be negative, but got {values[position]} at "
            f"position {position}"
        )
    total = int(values.sum())
    if output_size not in (None, total):
        raise RuntimeError(
            f"repeat_interleave(): output_size must be the sum of repeats, {total}, but got "
            f"{output_size}"
        )
    return jnp.asarray(np.repeat(np.arange(values.size), values).astype(np.int32))


def _ends(repeats: jax.Array, output_size: int) -> jax.Array:
    """Returns the sum of the repeats up to each slice, or ``output_size`` where that is less.

    A plain sum of int32 may overflow; one that stops at ``output_size`` does not overflow uint32.
    """

    def add(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.minimum(a + b, jnp.uint32(output_size))

    ends: jax.Array = jax.lax.associative_scan(add, repeats.astype(jnp.uint32))
    return ends.astype(jnp.int32)


def _not_negative(name: str, value: Any) -> int:
    number = arguments.integer("repeat_interleave", name, value)
    if number < 0:
        raise RuntimeError(f"repeat_interleave(): {name} must be non-negative, but got {number}")
    return number


def _repeats_array(repeats: Any, name: str) -> Array:
    if not isinstance(repeats, jax.Array | np.ndarray | np.generic):
        taken = "an int, a jax.Array or a NumPy array"
        raise arguments.wrong_type("repeat_interleave", name, taken, repeats)
    array = arguments.native("repeat_interleave", name, repeats)
    if np.dtype(array.dtype) not in (np.int32, np.int64):
        raise NotImplementedError(
            f"repeat_interleave(): not implemented for {array.dtype} in argument '{name}'; it "
            "takes int32 and int64"
        )
    return array
