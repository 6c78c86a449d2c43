"""The op ``scatter_reduce``: reductions at indices along one dimension, by scatter-accumulate."""

from __future__ import annotations

import functools

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl.ops._index_reduce import BY, check_dtype, reduced
from impl.ops._scatter_corner import scattered

_NAME = "scatter_reduce"


@eager.compiled
def scatter_reduce(
    input: Array,
    dim: int,
    index: Array,
    src: Array,
    reduce: str,
    *,
    include_self: bool = True,
    unique_indices: bool = False,
) -> jax.Array:
    """Reduces the elements of ``src`` into ``input`` at the indices ``index`` along ``dim``.

    In three dimensions with ``dim=0`` and a sum: ``out[index[i, j, k], j, k] += src[i, j, k]``.
    Elements of ``input`` whose index does not occur in ``index`` keep their bits.

    A mean of integers is rounded down; its sum has at least 32 bits. (In PyTorch the sum and the
    number of terms of a narrower type wrap around.) If several elements equal the maximum or the
    minimum, the gradient is shared equally among them. The element of ``input`` has a share only if
    ``include_self`` is True. (In PyTorch it always has one.)

    Args:
        input: Any shape and dtype; not bool for a mean, and not complex for products, maxima and
            minima.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, each value in [0, input.shape[dim]). It has as many dimensions as
            ``input`` and ``src``; it is not larger than ``src``, and may be larger than ``input``
            along ``dim`` only; or it is empty. Under ``jit`` an update whose index is out of range
            is dropped.
        src: Of the dtype of ``input``; elements beyond the shape of ``index`` are not used.
        reduce: "sum", "prod", "mean", "amax" or "amin". If a NaN occurs, the maximum and the
            minimum are NaN.
        include_self: Whether the elements of ``input`` take part in the reduction.
        unique_indices: Promises that no element is updated twice, so that the order does not
            matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: The reduction is not defined for the dtype.
        RuntimeError: An index is out of range; shapes or dtypes do not fit; ``reduce`` is another
            string; or the mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.scatter_reduce``. The spec's rows state what the mode does, and the guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    src = arguments.array(_NAME, "src", src)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    arguments.choice(_NAME, "reduce", reduce, tuple(BY))
    arguments.flag(_NAME, "include_self", include_self)
    arguments.flag(_NAME, "unique_indices", unique_indices)
    check_dtype(_NAME, reduce, input.dtype)
    decision = decide(_NAME, **arguments.facts(input, reduce=reduce, unique_indices=unique_indices))
    combine = functools.partial(
        reduced, reduce=reduce, include_self=include_self, unique=unique_indices
    )
    return scattered(_NAME, input, dim, index, src, combine=combine, decision=decision)
