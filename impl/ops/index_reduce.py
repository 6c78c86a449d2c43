"""impl.index_reduce."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._index_reduce import BY, check_dtype, reduced

_NAME = "index_reduce"


def index_reduce(
    input: Array,
    dim: int,
    index: Array,
    source: Array,
    reduce: str,
    *,
    include_self: bool = True,
    unique_indices: bool = False,
) -> jax.Array:
    """Reduces slices of ``source`` to ``input`` at places of one dimension.

    FlatIndex that ``index`` does not name keep their bits.

    A mean of integers is rounded down; their sum is kept in at least 32 bits. (PyTorch's wraps
    around in a narrower type, and so does its number of terms.) Of several elements that are the
    maximum or minimum of a place each has an even share of its gradient; an element of ``input``
    has one if ``include_self`` is True. (PyTorch counts it in either case.)

    Args:
        input: Shape [..., size, ...], any dtype; not bool for a mean, not complex for
            products and extremes.
        dim: The dimension that ``index`` counts along.
        index: Shape [n] or [], int32 or int64, each in [0, size). Under ``jit`` others are
            dropped.
        source: Shape of ``input`` but for n in place of size; of the same dtype.
        reduce: "prod", "mean", "amax" or "amin". A NaN is the maximum and the minimum.
        include_self: Whether elements of ``input`` count among what is reduced.
        unique_indices: Vouches that no index occurs twice, so that there is no order to keep.

    Returns:
        Shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` or an index is out of range, or ``index`` has more than one dimension.
        NotImplementedError: The dtype has no such reduction.
        RuntimeError: Shapes or dtypes do not fit; ``reduce`` is another string; or the mode is on
            and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.index_reduce``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input = arguments.array(_NAME, "input", input)
    source = arguments.array(_NAME, "source", source)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    flat = arguments.index_vector(_NAME, index)
    arguments.choice(_NAME, "reduce", reduce, tuple(by for by in BY if by != "sum"))
    arguments.flag(_NAME, "include_self", include_self)
    arguments.flag(_NAME, "unique_indices", unique_indices)
    check_dtype(_NAME, reduce, input.dtype)
    arguments.source_slices(_NAME, input, dim, flat.shape[0], source)
    arguments.index_range(_NAME, index, input.shape[dim] if input.ndim else 1, dim, IndexError)
    decision = decide(_NAME, **arguments.facts(input, reduce=reduce, unique_indices=unique_indices))
    out = reduced(
        three_axes(alert(input, decision), dim),
        flat[None, :, None],
        three_axes(source, dim),
        reduce=reduce,
        include_self=include_self,
        decision=decision,
    )
    return out.reshape(input.shape)
