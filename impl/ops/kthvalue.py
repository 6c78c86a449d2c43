"""The op ``kthvalue``: the k-th smallest element along a dimension, with its index."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax import lax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._selection import as_index, kth, lanes, picked, real, reduced_shape

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
        Values of the dtype of ``input``, and indices of int64 (int32 where x64 is off); of
        equal elements the lowest index. The gradient of a value goes to the element at its index.

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
    values, dim = lanes(_NAME, input, dim, reduced=True)
    length = values.shape[dim]
    if not 1 <= k <= length:
        raise RuntimeError(
            f"{_NAME}(): selected number k out of range for dimension {dim}: got {k}, allowed are "
            f"1 to {length}"
        )
    values = alert(values, decide(_NAME, **arguments.facts(input)))
    index = kth(values, dim, lambda keys: lax.slice_in_dim(keys, k - 1, k, axis=dim))
    shape = reduced_shape(input, dim, keepdim)
    return Kthvalue(picked(values, index, dim).reshape(shape), as_index(index).reshape(shape))
