"""impl.scatter_add."""

from __future__ import annotations

import functools

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.scatter_accumulate import scatter_accumulate
from impl.ops._scatter_corner import scattered

_NAME = "scatter_add"


def scatter_add(
    input: Array,
    dim: int,
    index: Array,
    src: Array,
    *,
    unique_indices: bool = False,
) -> jax.Array:
    """Adds each element of ``src`` to ``input`` at the place that ``index`` gives along ``dim``.

    In three dimensions with ``dim=0``: ``out[index[i, j, k], j, k] += src[i, j, k]``.

    Args:
        input: Any shape and dtype.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, of as many dimensions as ``input`` and ``src``, not larger than
            ``src`` anywhere, nor than ``input`` but along ``dim``; or empty. Each value in
            [0, input.shape[dim]). Under ``jit`` others are dropped.
        src: Of the dtype of ``input``; what lies beyond ``index`` is not used.
        unique_indices: Vouches that no element is added to twice, so that there is no order to
            keep.

    Returns:
        Shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: An index is out of range; shapes or dtypes do not fit; or the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.scatter_add``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input = arguments.array(_NAME, "input", input)
    src = arguments.array(_NAME, "src", src)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    arguments.flag(_NAME, "unique_indices", unique_indices)
    decision = decide(_NAME, **arguments.facts(input, unique_indices=unique_indices))
    add = functools.partial(scatter_accumulate, decision=decision)
    return scattered(_NAME, input, dim, index, src, combine=add, decision=decision)
