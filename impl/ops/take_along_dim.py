"""The op ``take_along_dim``: reads elements along one dimension, for shapes that broadcast.

Its gradient is a scatter-accumulate.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import wrapped
from impl._mode.decide import Decision, decide
from impl.ops._indexing import gather

_NAME = "take_along_dim"


@eager.compiled
def take_along_dim(input: Array, indices: Array, dim: int | None = None) -> jax.Array:
    """Reads the elements of ``input`` at the indices ``indices`` along ``dim``.

    This is ``gather`` for shapes that broadcast.

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
            or int64; when differentiated, the mode was on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.take_along_dim``, which reduces indices modulo ``size``. The spec's rows state
    what the mode does with the gradient, and the guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    index = arguments.index_array(_NAME, indices, name="indices")
    pullback = decide(_NAME, "backward", **arguments.facts(input))
    if dim is None:
        arguments.index_range(_NAME, indices, input.size, None, name="indices")
        flat = input.reshape(1, -1, 1)
        return gather(flat, index.reshape(1, -1, 1), pullback=pullback).reshape(-1)
    if input.ndim != index.ndim:
        raise RuntimeError(
            f"{_NAME}(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {index.ndim} dimensions for indices"
        )
    dim = arguments.dimension(dim, input.ndim, _NAME, numbers_have_one=False)
    size = input.shape[dim]
    arguments.index_range(_NAME, indices, size, dim, wrap=True, name="indices")
    return _broadcast(input, wrapped(index, size), dim, pullback)


def _broadcast(input: jax.Array, index: jax.Array, dim: int, pullback: Decision) -> jax.Array:
    """Reads along ``dim``, with all reads of one element in one lane.

    The gradient also sums over the dimensions along which ``input`` is repeated. These are folded
    into the axis of the reads, so that there is one sum, in the order that the row states.
    """
    shape = _shape(input, index, dim)
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
    out = gather(folded, lane_index, pullback=pullback)
    ordered = out.reshape([shape[axis] for axis in order])
    return ordered.transpose([order.index(axis) for axis in range(len(order))])


def _shape(input: jax.Array, index: jax.Array, dim: int) -> tuple[int, ...]:
    shape = []
    for axis, (length, count) in enumerate(zip(input.shape, index.shape, strict=True)):
        if axis != dim and length != count and 1 not in (length, count):
            raise RuntimeError(
                f"{_NAME}(): The size of input ({length}) must match the size of indices ({count}) "
                f"at non-singleton dimension {axis}"
            )
        shape.append(count if axis == dim or length == 1 else length)
    return tuple(shape)
