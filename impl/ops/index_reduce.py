"""The op ``index_reduce``: products, means, maxima and minima of slices, by scatter-accumulate."""

from __future__ import annotations

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._index_reduce import BY, check_dtype, reduced

_NAME = "index_reduce"


@eager.compiled
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
    """Reduces the slices of ``source`` into slices of ``input`` along one dimension.

    Elements of ``input`` whose index does not occur in ``index`` keep their bits.

    A mean of integers is rounded down; its sum has at least 32 bits. (In PyTorch the sum and the
    number of terms of a narrower type wrap around.) If several elements equal the maximum or the
    minimum, the gradient is shared equally among them. The element of ``input`` has a share only if
    ``include_self`` is True. (In PyTorch it always has one.)

    Args:
        input: Shape [..., size, ...], any dtype; not bool for a mean, and not complex for
            products, maxima and minima.
        dim: The dimension that ``index`` counts along.
        index: Shape [n] or [], int32 or int64, each in [0, size). Under ``jit`` an update whose
            index is out of range is dropped.
        source: Shape [..., n, ...], of the dtype of ``input``; its other lengths equal
            ``input``'s.
        reduce: "prod", "mean", "amax" or "amin". If a NaN occurs, the maximum and the minimum are
            NaN.
        include_self: Whether the elements of ``input`` take part in the reduction.
        unique_indices: Promises that no index occurs twice, so that the order does not matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` or an index is out of range, or ``index`` has more than one dimension.
        NotImplementedError: The reduction is not defined for the dtype.
        RuntimeError: Shapes or dtypes do not fit; ``reduce`` is another string; or the mode is on
            and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.index_reduce``. The spec's rows state what the mode does, and the guarantee.
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
        unique=unique_indices,
    )
    return out.reshape(input.shape)
