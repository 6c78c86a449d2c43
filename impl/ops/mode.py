"""The op ``mode``: the most frequent element along a dimension, with its index."""

from __future__ import annotations

from typing import NamedTuple

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._selection import as_index, lanes, most_frequent, picked, real, reduced_shape

_NAME = "mode"


class Mode(NamedTuple):
    """The result of ``mode``.

    Attributes:
        values: The most frequent elements.
        indices: Their indices along the dimension.
    """

    values: jax.Array
    indices: jax.Array


@eager.compiled
def mode(input: Array, dim: int = -1, keepdim: bool = False) -> Mode:
    """Returns the most frequent element along one dimension, and its index.

    If several elements are equally frequent, the result is the least of them. -0 equals 0, and a
    NaN equals no element.

    Args:
        input: Any shape, real numbers or bools.
        dim: The dimension to reduce.
        keepdim: Whether ``dim`` stays, with length 1.

    Returns:
        Values of the dtype of ``input``, and indices of int64 (int32 where x64 is off). The
        gradient of a value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: ``input`` is complex.
        RuntimeError: The mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.mode``. The spec's rows state what the mode does, and the guarantee.
    """
    input = real(_NAME, input, bools=True)
    arguments.flag(_NAME, "keepdim", keepdim)
    values, dim = lanes(_NAME, input, dim, reduced=True)
    values = alert(values, decide(_NAME, **arguments.facts(input)))
    index = most_frequent(values, dim)
    shape = reduced_shape(input, dim, keepdim)
    return Mode(picked(values, index, dim).reshape(shape), as_index(index).reshape(shape))
