"""impl.kthvalue."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from impl import checks
from impl.checks import Array
from impl.decide import decide
from impl.layout import three_axes
from impl.primitives.alert import alert
from impl.primitives.gather import gather as gather_along
from impl.primitives.select_kth import select_kth

_NAME = "kthvalue"


class Kthvalue(NamedTuple):
    """Values, and where they stand."""

    values: jax.Array
    indices: jax.Array


def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> Kthvalue:
    """The k-th smallest element along one dimension, and its index.

    Args:
        input: Any shape, real numbers. NaNs come after every number, and -0 equals 0.
        k: From 1 to the length of the dimension.
        dim: The dimension to reduce.
        keepdim: Whether it stays, with length 1.

    Returns:
        Values of the dtype of ``input``, and indices of int64 (int32 where x64 is off). Which of
        several equal elements is taken is what the mode settles; see the spec's rows.

    Raises:
        IndexError: ``dim`` is out of range or has length 0.
        NotImplementedError: ``input`` is of bools or complex numbers.
        RuntimeError: ``k`` is out of range; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.kthvalue``.
    """
    input = checks.array(_NAME, "input", input)
    if checks.dtype_kind(input.dtype) in ("bool", "complex"):
        raise NotImplementedError(
            f"{_NAME}(): not implemented for {input.dtype}; it takes integers and floats"
        )
    dim = checks.dimension(dim, input.ndim, _NAME)
    k = checks.integer(_NAME, "k", k)
    values = three_axes(input, dim)
    length = values.shape[1]
    if length == 0:
        raise IndexError(f"{_NAME}(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= length:
        raise RuntimeError(
            f"{_NAME}(): selected number k out of range for dimension {dim}: got {k}, allowed are "
            f"1 to {length}"
        )
    facts = checks.facts(input)
    decision = decide(_NAME, **facts)
    values = alert(values, decision)
    position = select_kth(values, k, decision=decision)
    # Each slice is read once, so the pullback has no order to keep.
    pullback = decide(_NAME, "backward", **facts, unique_indices=True)
    kept = gather_along(values, position, pullback=pullback)
    shape = list(input.shape)
    if shape:
        shape[dim : dim + 1] = [1] if keepdim else []
    return Kthvalue(kept.reshape(shape), position.astype(jnp.result_type(int)).reshape(shape))
