"""The op ``scatter_add``: adds elements at indices along one dimension, by scatter-accumulate."""

from __future__ import annotations

import functools

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl.ops._scatter_corner import scattered
from impl.ops._indexing import accumulate

_NAME = "scatter_add"


@eager.compiled
def scatter_add(
    input: Array,
    dim: int,
    index: Array,
    src: Array,
    *,
    unique_indices: bool = False,
) -> jax.Array:
    """Adds the elements of ``src`` to ``input`` at the indices ``index`` along ``dim``.

    In three dimensions with ``dim=0``: ``out[index[i, j, k], j, k] += src[i, j, k]``.

    Args:
        input: Any shape and dtype.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, each value in [0, input.shape[dim]). It has as many dimensions as
            ``input`` and ``src``; it is not larger than ``src``, and may be larger than ``input``
            along ``dim`` only; or it is empty. Under ``jit`` an update whose index is out of range
            is dropped.
        src: Of the dtype of ``input``; elements beyond the shape of ``index`` are not used.
        unique_indices: Promises that no element is updated twice, so that the order does not
            matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: An index is out of range; shapes or dtypes do not fit; or the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.scatter_add``. The spec's rows state what the mode does, and the guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    src = arguments.array(_NAME, "src", src)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    arguments.flag(_NAME, "unique_indices", unique_indices)
    decision = decide(_NAME, **arguments.facts(input, unique_indices=unique_indices))
    add = functools.partial(accumulate, unique=unique_indices)
    return scattered(_NAME, input, dim, index, src, combine=add, decision=decision)
