"""The op ``index_select``: reads slices of an array; its gradient is a scatter-accumulate."""

from __future__ import annotations

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._mode.decide import decide
from impl.ops._indexing import gather as gather_along

_NAME = "index_select"


@eager.compiled
def index_select(input: Array, dim: int, index: Array) -> jax.Array:
    """Reads slices of ``input`` along one dimension.

    Args:
        input: Shape [..., size, ...], any dtype.
        dim: The dimension that ``index`` counts along.
        index: Shape [n] or [], int32 or int64, each in [0, size). Under ``jit`` an index that is
            out of range reads NaN, or the fill value of ``jax.numpy.take`` for dtypes without NaN.

    Returns:
        An array of shape [..., n, ...], of the dtype of ``input``. The gradient of a slice is the
        sum over all reads of it.

    Raises:
        IndexError: ``dim`` or an index is out of range, or ``index`` has more than one dimension.
        RuntimeError: ``index`` is not of int32 or int64, or has several elements for a 0-d
            ``input``; when differentiated, the mode was on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.index_select``. The spec's rows state what the mode does with the gradient, and
    the guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    indices = arguments.index_vector(_NAME, index)
    if input.ndim == 0 and indices.size != 1:
        raise RuntimeError(
            f"{_NAME}(): Index to scalar can have only 1 value, got {indices.size} value(s)"
        )
    arguments.index_range(_NAME, index, input.shape[dim] if input.ndim else 1, dim, IndexError)
    pullback = decide(_NAME, "backward", **arguments.facts(input))
    out = gather_along(three_axes(input, dim), indices[None, :, None], pullback=pullback)
    shape = list(input.shape)
    if shape:
        shape[dim] = indices.size
    return out.reshape(shape)
