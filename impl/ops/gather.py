"""The op ``gather``: reads elements along one dimension; its gradient is a scatter-accumulate."""

from __future__ import annotations

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import at_least_1d, corner_slices, three_axes
from impl._mode.decide import decide
from impl.ops._indexing import gather as gather_along

_NAME = "gather"


@eager.compiled
def gather(input: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> jax.Array:  # noqa: ARG001
    """Reads the elements of ``input`` at the indices ``index`` along ``dim``.

    In three dimensions with ``dim=0``: ``out[i, j, k] = input[index[i, j, k], j, k]``.

    Args:
        input: Any shape and dtype.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, each value in [0, input.shape[dim]). It has as many dimensions as
            ``input``, and may be larger than ``input`` along ``dim`` only; or it is empty. Under
            ``jit`` an index that is out of range reads NaN, or the fill value of
            ``jax.numpy.take`` for dtypes without NaN.
        sparse_grad: Accepted for compatibility with PyTorch and ignored; gradients are dense.

    Returns:
        An array of the shape of ``index`` and the dtype of ``input``. The gradient of an element
        is the sum over all reads of it.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: An index is out of range, shapes do not fit, or ``index`` is not of int32 or
            int64; when differentiated, the mode was on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.gather``. The spec's rows state what the mode does with the gradient, and the
    guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    indices = arguments.index_array(_NAME, index)
    pullback = decide(_NAME, "backward", **arguments.facts(input))
    shape = indices.shape
    if indices.size == 0:
        return jax.numpy.zeros(shape, input.dtype)
    # PyTorch takes a 0-d array for an array of one element, and the reverse.
    input, indices = at_least_1d(input), at_least_1d(indices)
    arguments.same_ndim(_NAME, indices, input=input)
    arguments.no_larger(_NAME, indices, dim, input, but_along_dim=True)
    arguments.index_range(_NAME, index, input.shape[dim], dim)
    corner = input[corner_slices(indices.shape, dim)]
    out = gather_along(three_axes(corner, dim), three_axes(indices, dim), pullback=pullback)
    return out.reshape(shape)
