"""impl.topk."""

from __future__ import annotations

from typing import NamedTuple

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl._primitives.sort import argsort
from impl.ops._selection import as_index, picked, real, slices

_NAME = "topk"


class Topk(NamedTuple):
    """Values, and where they stand."""

    values: jax.Array
    indices: jax.Array


def topk(input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Topk:
    """The ``k`` greatest or least elements along one dimension, and their indices.

    NaNs are greater than every number, and -0 equals 0.

    Args:
        input: Any shape, integers or floats.
        k: From 0 to the length of the dimension.
        dim: The dimension to pick from.
        largest: Whether the greatest are picked; otherwise the least.
        sorted: Whether the result has an order, the first being the greatest or the least. It has
            that order in any case.

    Returns:
        Values of the dtype of ``input``, and indices of int64 (int32 where x64 is off), with ``k``
        elements along ``dim``. The gradient of a value goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: ``k`` is out of range; ``input`` is of bools or complex numbers; or the mode
            is on and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.topk``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input = real(_NAME, input, error=RuntimeError)
    k = arguments.integer(_NAME, "k", k)
    arguments.flag(_NAME, "largest", largest)
    arguments.flag(_NAME, "sorted", sorted)
    values, dim = slices(_NAME, input, dim, reduced=False)
    length = values.shape[1]
    if not 0 <= k <= length:
        raise RuntimeError(
            f"{_NAME}(): selected index k out of range for dimension {dim}: got {k}, allowed are "
            f"0 to {length}"
        )
    facts = arguments.facts(input)
    decision = decide(_NAME, **facts)
    values = alert(values, decision)
    # Of a number it is a number, also where none is asked for.
    count = k if input.ndim else 1
    positions = argsort(values, count, descending=largest, decision=decision)
    shape = (*input.shape[:dim], k, *input.shape[dim + 1 :]) if input.ndim else ()
    kept = picked(_NAME, values, positions, facts).reshape(shape)
    return Topk(kept, as_index(positions).reshape(shape))
