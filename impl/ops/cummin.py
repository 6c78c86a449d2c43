"""impl.cummin."""

from __future__ import annotations

from typing import NamedTuple

import jax

from impl._core.arguments import Array
from impl.ops._cumulative import extreme

_NAME = "cummin"


class Cummin(NamedTuple):
    """Values, and where they stand."""

    values: jax.Array
    indices: jax.Array


def cummin(input: Array, dim: int) -> Cummin:
    """Running minima along one dimension, and their indices.

    Args:
        input: Any shape, real numbers or bools. A NaN stays from where it is on, and -0 equals 0.
        dim: The dimension to go along.

    Returns:
        Values of the shape and dtype of ``input``, and indices of int64 (int32 where x64 is off).
        Of several equal elements the index is that of the last. The gradient of each value goes
        to the element of its index.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``input`` is complex.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.cummin``. What the mode does, and the guarantee, are in the spec's rows.
    """
    return Cummin(*extreme(_NAME, "min", input, dim))
