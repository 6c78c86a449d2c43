"""impl.mode."""

from __future__ import annotations

from typing import NamedTuple

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl._primitives.sort import most_frequent
from impl.ops._selection import as_index, picked, real, reduced_shape, slices

_NAME = "mode"


class Mode(NamedTuple):
    """Values, and where they stand."""

    values: jax.Array
    indices: jax.Array


def mode(input: Array, dim: int = -1, keepdim: bool = False) -> Mode:
    """The element that occurs most often along one dimension, and its index.

    Of several that occur as often it is the least; -0 equals 0, and a NaN equals nothing.

    Args:
        input: Any shape, real numbers.
        dim: The dimension to reduce.
        keepdim: Whether it stays, with length 1.

    Returns:
        Values of the dtype of ``input``, and indices of int64 (int32 where x64 is off). The
        gradient of a value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: ``input`` is complex.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.mode``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input = real(_NAME, input, bools=True)
    arguments.flag(_NAME, "keepdim", keepdim)
    values, dim = slices(_NAME, input, dim, reduced=True)
    facts = arguments.facts(input)
    decision = decide(_NAME, **facts)
    values = alert(values, decision)
    position = most_frequent(values, decision=decision)
    shape = reduced_shape(input, dim, keepdim)
    kept = picked(_NAME, values, position, facts).reshape(shape)
    return Mode(kept, as_index(position).reshape(shape))
