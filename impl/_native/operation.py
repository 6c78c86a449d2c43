"""What the operations of the engine ``native`` share.

On one device an operation is one call, which rounds its results. Over several devices, each adds
its own terms, and they add their sums exactly::

    bounds      each device: an approximate sum and a bound of its error, float64
    psum        of both, over the devices
    decide      rounds the results that the bound decides, and lists the positions of the others
    digits      each device: its exact sums at these positions, as integers
    psum        of the integers, which is exact
    finish      rounds them
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

#: The dtypes that the engine adds and multiplies, and rounds to.
DTYPES = frozenset(map(jnp.dtype, (jnp.float16, jnp.bfloat16, jnp.float32)))
#: The digits of an exact sum: ``Accumulator::kDigits`` of ``src/numbers.h``.
DIGITS = 24

#: The names of an array's axes; None for an axis that each device needs whole.
Names = tuple[str | None, ...]


def takes(arrays: Sequence[jax.Array], dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether the engine has arrays of these dtypes and sizes, and results of a dtype."""
    has_sizes = all(isinstance(size, int) for array in arrays for size in array.shape)
    return has_sizes and jnp.dtype(dtype) in DTYPES and all(a.dtype in DTYPES for a in arrays)


def strides(shape: Sequence[int]) -> list[int]:
    """Returns the distance of neighbours along each axis of a row-major array, in elements."""
    found: list[int] = []
    step = 1
    for size in reversed(shape):
        found.append(step)
        step *= size
    return found[::-1]


def longs(values: Sequence[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns integers as an attribute of a call."""
    return np.array(list(values), np.int64)


class Operation(abc.ABC):
    """Sums of terms that operands have: a product, a reduction, a scatter.

    The methods take operands of any sizes that fit together, such as those of one device.

    Attributes:
        operands: The names of the axes of each operand. An axis whose name no result has is summed.
        result: The names of the axes of the result.
        once: The numbers of operands whose elements are terms themselves, and not of every device.
    """

    operands: tuple[Names, ...]
    result: Names
    once: tuple[int, ...] = ()

    @abc.abstractmethod
    def nearest(self, *operands: jax.Array) -> jax.Array:
        """Returns the results, rounded once."""

    @abc.abstractmethod
    def bounds(self, *operands: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns approximate results and bounds of their errors, float64.

        An infinity or a NaN of a result is that of the exact one.
        """

    @abc.abstractmethod
    def digits(self, positions: jax.Array, *operands: jax.Array) -> jax.Array:
        """Returns the exact results at positions, as digits.

        Args:
            positions: Positions in the flat result, int64, shape [n]; -1 for none.
            *operands: The operands.

        Returns:
            int64, shape [n, DIGITS]; zeros for the position -1.
        """


def computed(operation: Operation, operands: Sequence[jax.Array]) -> jax.Array:
    """Returns the results of an operation, for the devices that the program is traced for."""
    return operation.nearest(*operands)
