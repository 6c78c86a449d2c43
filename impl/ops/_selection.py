"""What ops that pick elements along a dimension share: their shapes, and their derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import spec
from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._mode.decide import decide
from impl._primitives.gather import gather


def real(
    function: str,
    input: Array,
    *,
    bools: bool = False,
    error: type[Exception] = NotImplementedError,
) -> jax.Array:
    """``input`` as a JAX array of numbers that have an order.

    Raises:
        TypeError: It is no array.
        NotImplementedError: It is complex; or of bools, and they are not taken (or the ``error``
            that PyTorch has here).
    """
    input = arguments.array(function, "input", input)
    if arguments.dtype_kind(input.dtype) in {"complex"} | (set() if bools else {"bool"}):
        taken = "bools, integers and floats" if bools else "integers and floats"
        raise error(f"{function}(): not implemented for {input.dtype}; it takes {taken}")
    return input


def slices(function: str, input: jax.Array, dim: int, *, reduced: bool) -> tuple[jax.Array, int]:
    """``input`` on three axes, and ``dim`` counted from the front.

    Args:
        function: Who asks.
        input: Any shape.
        dim: A dimension.
        reduced: Whether one element of it is picked, so that it must have some.

    Raises:
        IndexError: ``dim`` is out of range; or has no element to pick.
    """
    dim = arguments.dimension(dim, input.ndim, function)
    values = three_axes(input, dim)
    if reduced and values.shape[1] == 0:
        raise IndexError(f"{function}(): Expected reduction dim {dim} to have non-zero size.")
    return values, dim


def picked(
    function: str, values: jax.Array, positions: jax.Array, facts: dict[str, spec.FactValue]
) -> jax.Array:
    """The elements of ``values`` at ``positions``; a gradient goes to them alone."""
    # Each element is read once, so the pullback has no order to keep.
    pullback = decide(function, "backward", **facts, unique_indices=True)
    return gather(values, positions, pullback=pullback)


def reduced_shape(input: jax.Array, dim: int, keepdim: bool) -> tuple[int, ...]:
    """The shape of ``input`` with one element along ``dim``, or without it."""
    shape = list(input.shape)
    if shape:
        shape[dim : dim + 1] = [1] if keepdim else []
    return tuple(shape)


def as_index(positions: jax.Array) -> jax.Array:
    """Positions in the dtype of indices: int64, or int32 where x64 is off."""
    return positions.astype(jnp.result_type(int))
