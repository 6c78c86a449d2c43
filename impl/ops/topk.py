"""The op ``topk``: the k greatest or least elements along a dimension, with their indices."""

from __future__ import annotations

from typing import NamedTuple

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._selection import as_index, first_in_order, lanes, picked, real

_NAME = "topk"


class Topk(NamedTuple):
    """The result of ``topk``.

    Attributes:
        values: The greatest or least elements.
        indices: Their indices along the dimension.
    """

    values: jax.Array
    indices: jax.Array


@eager.compiled
def topk(input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Topk:
    """Returns the ``k`` greatest or least elements along one dimension, and their indices.

    NaNs are greater than every number, and -0 equals 0.

    Args:
        input: Any shape, integers or floats.
        k: From 0 to the length of ``dim``.
        dim: The dimension along which elements are picked.
        largest: Whether to pick the greatest elements; otherwise the least.
        sorted: Accepted for compatibility with PyTorch: the result is always sorted, the greatest
            element first, or the least if ``largest`` is False.

    Returns:
        Values of the dtype of ``input``, and indices of int64 (int32 where x64 is off), with ``k``
        elements along ``dim``. The gradient of a value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: ``k`` is out of range; ``input`` is of bools or complex numbers; or the mode
            is on and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.topk``. The spec's rows state what the mode does, and the guarantee.
    """
    input = real(_NAME, input, error=RuntimeError)
    k = arguments.integer(_NAME, "k", k)
    arguments.flag(_NAME, "largest", largest)
    arguments.flag(_NAME, "sorted", sorted)
    values, dim = lanes(_NAME, input, dim, reduced=False)
    length = values.shape[dim]
    if not 0 <= k <= length:
        raise RuntimeError(
            f"{_NAME}(): selected index k out of range for dimension {dim}: got {k}, allowed are "
            f"0 to {length}"
        )
    values = alert(values, decide(_NAME, **arguments.facts(input)))
    # The result of a 0-d array is 0-d, also for k = 0.
    count = k if input.ndim else 1
    index = first_in_order(values, count, dim, descending=largest)
    shape = (*input.shape[:dim], k, *input.shape[dim + 1 :]) if input.ndim else ()
    return Topk(picked(values, index, dim).reshape(shape), as_index(index).reshape(shape))
