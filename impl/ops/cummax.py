"""The op ``cummax``: cumulative maxima along a dimension, with their indices."""

from __future__ import annotations

from typing import NamedTuple

import jax

from impl._core import eager
from impl._core.arguments import Array
from impl.ops._cumulative import extreme

_NAME = "cummax"


class Cummax(NamedTuple):
    """The result of ``cummax``.

    Attributes:
        values: The maxima.
        indices: Their indices along the dimension.
    """

    values: jax.Array
    indices: jax.Array


@eager.compiled
def cummax(input: Array, dim: int) -> Cummax:
    """Computes cumulative maxima along one dimension, and their indices.

    Args:
        input: Any shape, real numbers or bools. From a NaN on, every result is NaN. -0 equals 0.
        dim: The dimension along which the results accumulate.

    Returns:
        Values of the shape and dtype of ``input``, and indices of int64 (int32 where x64 is off).
        If several elements are equal, the index of the last one is returned. The gradient of a
        value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``input`` is complex.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.cummax``. The spec's rows state what the mode does, and the guarantee.
    """
    return Cummax(*extreme(_NAME, "max", input, dim))
