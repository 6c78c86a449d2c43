"""impl.scatter_reduce."""

from __future__ import annotations

import functools

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl.ops._index_reduce import BY, check_dtype, reduced
from impl.ops._scatter_corner import scattered

_NAME = "scatter_reduce"


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
    """Reduces elements of ``src`` to the place in ``input`` that ``index`` gives along ``dim``.

    In three dimensions with ``dim=0`` and a sum: ``out[index[i, j, k], j, k] += src[i, j, k]``.
    FlatIndex that ``index`` does not name keep their bits.

    A mean of integers is rounded down; their sum is kept in at least 32 bits. (PyTorch's wraps
    around in a narrower type, and so does its number of terms.) Of several elements that are the
    maximum or minimum of a place each has an even share of its gradient; an element of ``input``
    has one if ``include_self`` is True. (PyTorch counts it in either case.)

    Args:
        input: Any shape and dtype; not bool for a mean, not complex for products and extremes.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, of as many dimensions as ``input`` and ``src``, not larger than
            ``src`` anywhere, nor than ``input`` but along ``dim``; or empty. Each value in
            [0, input.shape[dim]). Under ``jit`` others are dropped.
        src: Of the dtype of ``input``; what lies beyond ``index`` is not used.
        reduce: "sum", "prod", "mean", "amax" or "amin". A NaN is the maximum and the minimum.
        include_self: Whether elements of ``input`` count among what is reduced.
        unique_indices: Vouches that no element is reduced to twice, so that there is no order to
            keep.

    Returns:
        Shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: The dtype has no such reduction.
        RuntimeError: An index is out of range; shapes or dtypes do not fit; ``reduce`` is another
            string; or the mode is on and the profile has no deterministic implementation for the
            device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.scatter_reduce``. What the mode does, and the guarantee, are in the spec's
    rows.
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
        reduced, reduce=reduce, include_self=include_self, decision=decision
    )
    return scattered(_NAME, input, dim, index, src, combine=combine, decision=decision)
