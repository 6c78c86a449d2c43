"""Shapes, checks and derivatives of the ops that pick elements along a dimension.

These are ``kthvalue``, ``median``, ``nanmedian``, ``mode``, ``topk``, ``sort`` and ``argsort``. A
primitive returns positions; this module reads the elements there, so that gradients go to them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._mode.decide import Decision
from impl._primitives.gather import gather


def real(
    function: str,
    input: Array,
    *,
    bools: bool = False,
    error: type[Exception] = NotImplementedError,
) -> jax.Array:
    """Returns ``input`` as a JAX array of real numbers.

    Args:
        function: The name of the op, for messages.
        input: The argument of the op.
        bools: Whether bools are accepted.
        error: The exception that PyTorch raises for other dtypes.

    Raises:
        TypeError: ``input`` is not an array.
        NotImplementedError: ``input`` is complex, or of bools that are not accepted. Another
            ``error`` replaces this exception.
    """
    input = arguments.array(function, "input", input)
    if arguments.dtype_kind(input.dtype) in {"complex"} | (set() if bools else {"bool"}):
        taken = "bools, integers and floats" if bools else "integers and floats"
        raise error(f"{function}(): not implemented for {input.dtype}; it takes {taken}")
    return input


def slices(function: str, input: jax.Array, dim: int, *, reduced: bool) -> tuple[jax.Array, int]:
    """Returns ``input`` on three axes, and ``dim`` counted from the front.

    Args:
        function: The name of the op, for messages.
        input: An array of any shape.
        dim: A dimension; negative ones count from the end.
        reduced: Whether the op picks one element along ``dim``, which then must not be empty.

    Raises:
        IndexError: ``dim`` is out of range, or is empty and ``reduced`` is True.
    """
    dim = arguments.dimension(dim, input.ndim, function)
    values = three_axes(input, dim)
    if reduced and values.shape[1] == 0:
        raise IndexError(f"{function}(): Expected reduction dim {dim} to have non-zero size.")
    return values, dim


def picked(values: jax.Array, positions: jax.Array) -> jax.Array:
    """Returns the elements of ``values`` at ``positions``; gradients go to these elements alone."""
    # Each element is read once, so the gradient is the same in every order, and no row is about it.
    return gather(values, positions, pullback=Decision())


def reduced_shape(input: jax.Array, dim: int, keepdim: bool) -> tuple[int, ...]:
    """Returns the shape of ``input`` with length 1 along ``dim``, or without ``dim``."""
    shape = list(input.shape)
    if shape:
        shape[dim : dim + 1] = [1] if keepdim else []
    return tuple(shape)


def as_index(positions: jax.Array) -> jax.Array:
    """Converts positions to the dtype of indices: int64, or int32 where x64 is off."""
    return positions.astype(jnp.result_type(int))
