"""impl.take_along_dim."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import wrapped
from impl._mode.decide import Decision, decide
from impl._primitives.gather import gather

_NAME = "take_along_dim"


def take_along_dim(input: Array, indices: Array, dim: int | None = None) -> jax.Array:
    """Elements of ``input`` at the places that ``indices`` give along ``dim``.

    As ``gather``, for shapes that broadcast.

    Args:
        input: Any shape and dtype.
        indices: int32 or int64, of as many dimensions as ``input``, and of a shape that broadcasts
            with its but along ``dim``. Each in [-size, size); negative ones count from the end.
            Without ``dim`` any shape, and each in [0, n) for the n elements of ``input``. Under
            ``jit`` others read NaN, or the fill value of ``jax.numpy.take`` for other dtypes.
        dim: The dimension that ``indices`` count along; None flattens both arrays.

    Returns:
        The broadcast shape, with that of ``indices`` along ``dim``; dtype of ``input``. Its
        gradient adds up all elements read from one place; what the mode does with that, and the
        guarantee, are in the spec's rows.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: An index is out of range, shapes do not fit, or ``indices`` are not of int32
            or int64; when differentiated, the mode was on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.take_along_dim``, which takes indices of ``size`` and above for others.
    """
    input = arguments.array(_NAME, "input", input)
    places = arguments.index_array(_NAME, indices, name="indices")
    pullback = decide(_NAME, "backward", **arguments.facts(input))
    if dim is None:
        arguments.index_range(_NAME, indices, input.size, None, name="indices")
        flat = input.reshape(1, -1, 1)
        return gather(flat, places.reshape(1, -1, 1), pullback=pullback).reshape(-1)
    if input.ndim != places.ndim:
        raise RuntimeError(
            f"{_NAME}(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {places.ndim} dimensions for indices"
        )
    dim = arguments.dimension(dim, input.ndim, _NAME, numbers_have_one=False)
    size = input.shape[dim]
    arguments.index_range(_NAME, indices, size, dim, wrap=True, name="indices")
    return _broadcast(input, wrapped(places, size), dim, pullback)


def _broadcast(input: jax.Array, places: jax.Array, dim: int, pullback: Decision) -> jax.Array:
    """Reads along ``dim``, all reads of one element in one lane.

    Where ``input`` is repeated over a dimension, its gradient sums over that too: such dimensions
    count as read along, so that there is one sum, in the order of the row.
    """
    shape = _shape(input, places, dim)
    repeated = [own == 1 != length for own, length in zip(input.shape, shape, strict=True)]
    along = [axis for axis in range(len(shape)) if axis == dim or repeated[axis]]
    before = list(range(along[0]))
    after = [axis for axis in range(along[0], len(shape)) if axis not in along]
    order = [*before, *along, *after]

    def lanes(axes: list[int]) -> list[int]:
        """Lengths of the indices, which are not repeated where all lanes share them."""
        shared = all(places.shape[axis] == 1 for axis in axes)
        return [1 if shared else shape[axis] for axis in axes]

    outer, inner = lanes(before), lanes(after)
    middle = [shape[axis] for axis in along]
    at = jnp.broadcast_to(places.transpose(order), (*outer, *middle, *inner))
    folded = input.transpose(order).reshape(
        math.prod(shape[axis] for axis in before),
        input.shape[dim],
        math.prod(shape[axis] for axis in after),
    )
    index = at.reshape(math.prod(outer), math.prod(middle), math.prod(inner))
    out = gather(folded, index, pullback=pullback)
    ordered = out.reshape([shape[axis] for axis in order])
    return ordered.transpose([order.index(axis) for axis in range(len(order))])


def _shape(input: jax.Array, places: jax.Array, dim: int) -> tuple[int, ...]:
    shape = []
    for axis, (own, other) in enumerate(zip(input.shape, places.shape, strict=True)):
        if axis != dim and own != other and 1 not in (own, other):
            raise RuntimeError(
                f"{_NAME}(): The size of input ({own}) must match the size of indices ({other}) "
                f"at non-singleton dimension {axis}"
            )
        shape.append(other if axis == dim or own == 1 else own)
    return tuple(shape)
