"""impl.gather."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import at_least_1d, corner_slices, three_axes
from impl._mode.decide import decide
from impl._primitives.gather import gather as gather_along

_NAME = "gather"


def gather(input: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> jax.Array:  # noqa: ARG001
    """Elements of ``input`` at the places that ``index`` gives along ``dim``.

    In three dimensions with ``dim=0``: ``out[i, j, k] = input[index[i, j, k], j, k]``.

    Args:
        input: Any shape and dtype.
        dim: The dimension that ``index`` counts along.
        index: int32 or int64, of as many dimensions as ``input`` and not larger than it but along
            ``dim``; or empty. Each value in [0, input.shape[dim]). Under ``jit`` others read
            NaN, or the fill value of ``jax.numpy.take`` for other dtypes.
        sparse_grad: Taken for PyTorch's sake; gradients are dense here.

    Returns:
        Shape of ``index``, dtype of ``input``. Its gradient adds up all elements read from one
        place; what the mode does with that, and the guarantee, are in the spec's rows.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: An index is out of range, shapes do not fit, or ``index`` is not of int32 or
            int64; when differentiated, the mode was on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.gather``.
    """
    input = arguments.array(_NAME, "input", input)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    places = arguments.index_array(_NAME, index)
    pullback = decide(_NAME, "backward", **arguments.facts(input))
    if places.size == 0:
        return jax.numpy.zeros(places.shape, input.dtype)
    # PyTorch lets a number stand for an array of one element, and the other way round.
    input, at = at_least_1d(input), at_least_1d(places)
    arguments.same_ndim(_NAME, at, input=input)
    arguments.no_larger(_NAME, at, dim, input, but_along_dim=True)
    arguments.index_range(_NAME, index, input.shape[dim], dim)
    corner = input[corner_slices(at.shape, dim)]
    out = gather_along(three_axes(corner, dim), three_axes(at, dim), pullback=pullback)
    return out.reshape(places.shape)
