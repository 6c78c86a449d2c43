"""impl.sort and impl.argsort."""

from __future__ import annotations

from typing import NamedTuple

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl._primitives.sort import argsort as argsort_along
from impl.ops._selection import as_index, picked, real, slices


class Sort(NamedTuple):
    """Values, and where they stood."""

    values: jax.Array
    indices: jax.Array


def sort(input: Array, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Sort:
    """The elements along one dimension in sorted order, and their indices.

    NaNs are greater than every number, and -0 equals 0.

    Args:
        input: Any shape, real numbers.
        dim: The dimension to sort along.
        descending: Whether the greatest comes first.
        stable: Whether equal elements keep their order, in both directions. They do in any case.

    Returns:
        Values of the shape and dtype of ``input``, and indices of int64 (int32 where x64 is off).
        The gradient of a value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: ``input`` is complex; or the mode is on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.sort``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input, values, positions = _sorted("sort", input, dim, descending, stable)
    kept = picked("sort", values, positions, arguments.facts(input))
    return Sort(kept.reshape(input.shape), as_index(positions).reshape(input.shape))


def argsort(
    input: Array, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> jax.Array:
    """The indices by which ``sort`` puts the elements along one dimension in order.

    Args:
        input: As for ``sort``.
        dim: As for ``sort``.
        descending: As for ``sort``.
        stable: As for ``sort``.

    Returns:
        int64 (int32 where x64 is off), of the shape of ``input``.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: ``input`` is complex; or the mode is on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.argsort``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input, _, positions = _sorted("argsort", input, dim, descending, stable)
    return as_index(positions).reshape(input.shape)


def _sorted(
    function: str, input: Array, dim: int, descending: bool, stable: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The input, its elements on three axes, and where those come from that are in order."""
    input = real(function, input, bools=True, error=RuntimeError)
    arguments.flag(function, "descending", descending)
    arguments.flag(function, "stable", stable)
    values, _ = slices(function, input, dim, reduced=False)
    decision = decide(function, **arguments.facts(input))
    values = alert(values, decision)
    positions = argsort_along(values, values.shape[1], descending=descending, decision=decision)
    return input, values, positions
