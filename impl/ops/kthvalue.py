"""The op ``kthvalue``: the k-th smallest element along a dimension, with its index."""

from __future__ import annotations

from typing import NamedTuple

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl._primitives.select_kth import select_kth
from impl.ops._selection import as_index, picked, real, reduced_shape, slices

_NAME = "kthvalue"


class Kthvalue(NamedTuple):
    """The result of ``kthvalue``.

    Attributes:
        values: The k-th smallest elements.
        indices: Their indices along the dimension.
    """

    values: jax.Array
    indices: jax.Array


@eager.compiled
def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> Kthvalue:
    """Returns the k-th smallest element along one dimension, and its index.

    Args:
        input: Any shape, integers or floats. NaNs are greater than every number, and -0 equals 0.
        k: From 1 to the length of ``dim``.
        dim: The dimension to reduce.
        keepdim: Whether ``dim`` stays, with length 1.

    Returns:
        Values of the dtype of ``input``, and indices of int64 (int32 where x64 is off). With the
        mode off, the index may be any of several equal elements'. The gradient of a value
        goes to the element at its index.

    Raises:
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: ``input`` is of bools or complex numbers.
        RuntimeError: ``k`` is out of range; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.kthvalue``. The spec's rows state what the mode does, and the guarantee.
    """
    input = real(_NAME, input)
    k = arguments.integer(_NAME, "k", k)
    arguments.flag(_NAME, "keepdim", keepdim)
    values, dim = slices(_NAME, input, dim, reduced=True)
    length = values.shape[1]
    if not 1 <= k <= length:
        raise RuntimeError(
            f"{_NAME}(): selected number k out of range for dimension {dim}: got {k}, allowed are "
            f"1 to {length}"
        )
    decision = decide(_NAME, **arguments.facts(input))
    values = alert(values, decision)
    position = select_kth(values, k, decision=decision)
    shape = reduced_shape(input, dim, keepdim)
    elements = picked(values, position).reshape(shape)
    return Kthvalue(elements, as_index(position).reshape(shape))
