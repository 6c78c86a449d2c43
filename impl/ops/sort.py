"""The ops ``sort`` and ``argsort``, both stable."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._selection import argsort as indices_in_order
from impl.ops._selection import as_index, lanes, picked, real


class Sort(NamedTuple):
    """The result of ``sort``.

    Attributes:
        values: The elements in sorted order.
        indices: Their indices in the input, along the dimension.
    """

    values: jax.Array
    indices: jax.Array


@eager.compiled
def sort(input: Array, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Sort:
    """Sorts the elements along one dimension, and returns their indices too.

    NaNs are greater than every number, and -0 equals 0.

    Args:
        input: Any shape, real numbers or bools.
        dim: The dimension along which to sort.
        descending: Whether the greatest element comes first.
        stable: Accepted for compatibility with PyTorch: equal elements always keep their order,
            also if ``descending`` is True.

    Returns:
        Values of the shape and dtype of ``input``, and indices of int64 (int32 where x64 is off).
        The gradient of a value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: ``input`` is complex; or the mode is on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.sort``. The spec's rows state what the mode does, and the guarantee.
    """
    values, dim = _prepared("sort", input, dim, descending, stable)
    index = indices_in_order(values, dim, descending=descending)
    shape = np.shape(input)
    return Sort(picked(values, index, dim).reshape(shape), as_index(index).reshape(shape))


@eager.compiled
def argsort(
    input: Array, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> jax.Array:
    """Returns the indices that sort the elements along one dimension.

    Args:
        input: As for ``sort``.
        dim: As for ``sort``.
        descending: As for ``sort``.
        stable: As for ``sort``.

    Returns:
        Indices of int64 (int32 where x64 is off), of the shape of ``input``.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: ``input`` is complex; or the mode is on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.argsort``. The spec's rows state what the mode does, and the guarantee.
    """
    values, dim = _prepared("argsort", input, dim, descending, stable)
    index = indices_in_order(values, dim, descending=descending)
    return as_index(index).reshape(np.shape(input))


def _prepared(
    function: str, input: Array, dim: int, descending: bool, stable: bool
) -> tuple[jax.Array, int]:
    """Returns the input with at least one dimension, and ``dim`` counted from the front."""
    input = real(function, input, bools=True, error=RuntimeError)
    arguments.flag(function, "descending", descending)
    arguments.flag(function, "stable", stable)
    values, dim = lanes(function, input, dim, reduced=False)
    return alert(values, decide(function, **arguments.facts(input))), dim
