"""The op ``scatter``: writes elements along one dimension, or adds or multiplies them."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments, eager, number_arguments
from impl._core.arguments import Array
from impl._kernels.reductions import ReductionName
from impl._mode.decide import decide
from impl.ops._index_reduce import refuse_complex_product
from impl.ops._scatter_corner import Combine, scattered
from impl.ops._indexing import accumulate, assign

_NAME = "scatter"

_BY: Mapping[str, ReductionName] = MappingProxyType({"add": "add", "multiply": "mul"})


@eager.compiled
def scatter(
    input: Array,
    dim: int,
    index: Array,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    unique_indices: bool = False,
) -> jax.Array:
    """Writes the elements of ``src`` to ``input`` at the indices ``index`` along ``dim``.

    In three dimensions with ``dim=0``: ``out[index[i, j, k], j, k] = src[i, j, k]``.

    If several elements are written to one index, one of them stays. The gradient at that index goes
    to the element that stays; the other elements have a gradient of 0. (In PyTorch the gradient
    goes to each of them.)

    Args:
        input: Any shape and dtype.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, each value in [0, input.shape[dim]). It has as many dimensions as
            ``input`` and ``src``; it is not larger than ``src``, and may be larger than ``input``
            along ``dim`` only; or it is empty. Under ``jit`` an update whose index is out of range
            is dropped.
        src: An array of the dtype of ``input``, whose elements beyond the shape of ``index`` are
            not used; or a number that the dtype of ``input`` can hold.
        value: A number or a 0-d array, given instead of ``src``.
        reduce: None to write; "add" or "multiply" to combine with the element of ``input``. These
            can be differentiated (in PyTorch they cannot).
        unique_indices: Promises that no element is written twice, so that the order does not
            matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``reduce`` is "multiply" and ``input`` is complex.
        RuntimeError: An index is out of range; shapes or dtypes do not fit; ``reduce`` is another
            string; or the mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type, or ``src`` and ``value`` are both given or both
            missing.

    Source: ``torch.scatter``. The spec's rows state what the mode does, and the guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    if (src is None) == (value is None):
        raise TypeError(
            f"{_NAME}(): expected one of 'src' (an array or a number) and 'value' (a number), but "
            f"got {'neither' if src is None else 'both'}"
        )
    if reduce is not None:
        arguments.choice(_NAME, "reduce", reduce, tuple(_BY))
    if reduce == "multiply":
        refuse_complex_product(_NAME, input.dtype)
    arguments.flag(_NAME, "unique_indices", unique_indices)
    is_array = value is None and not isinstance(src, numbers.Number)
    if is_array:
        source = arguments.array(_NAME, "src", src)
    else:
        name, number = ("src", src) if value is None else ("value", value)
        scalar = number_arguments.number_as(_NAME, name, number, input.dtype)
        source = jnp.broadcast_to(scalar, arguments.index_array(_NAME, index).shape)
    decision = decide(
        _NAME,
        **arguments.facts(
            input, src_is_array=is_array, reduce=reduce or "none", unique_indices=unique_indices
        ),
    )
    combine: Combine
    if reduce is None and not is_array:
        combine = _filled
    elif reduce is None:
        combine = functools.partial(assign, unique=unique_indices)
    else:
        combine = functools.partial(accumulate, by=_BY[reduce], unique=unique_indices)
    return scattered(_NAME, input, dim, index, source, combine=combine, decision=decision)


def _filled(operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
    """Writes one number, the same in all updates, wherever an index occurs."""
    zeros = jnp.zeros(operand.shape, jnp.int32)
    counts = accumulate(zeros, indices, jnp.ones(updates.shape, jnp.int32))
    return jnp.where(counts > 0, updates[:1, :1, :1], operand)
