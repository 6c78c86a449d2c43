"""The op ``index_copy``: writes slices to slices of an array; the last write wins."""

from __future__ import annotations

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._indexing import assign

_NAME = "index_copy"


@eager.compiled
def index_copy(
    input: Array, dim: int, index: Array, source: Array, *, unique_indices: bool = False
) -> jax.Array:
    """Writes the slices of ``source`` to slices of ``input`` along one dimension.

    If several slices are written to one index, one of them stays. The gradient at that index goes
    to the slice that stays; the other slices have a gradient of 0. (In PyTorch the gradient goes to
    each of them.)

    Args:
        input: Shape [..., size, ...], any dtype.
        dim: The dimension that ``index`` counts along.
        index: Shape [n] or [], int32 or int64, each in [0, size). Under ``jit`` an update whose
            index is out of range is dropped.
        source: Shape [..., n, ...], of the dtype of ``input``; its other lengths equal
            ``input``'s. A 0-d array counts as one of a single element.
        unique_indices: Promises that no index occurs twice, so that the order does not matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: ``dim`` or an index is out of range; or the number of dimensions of ``index``
            or ``source``, or the number of slices, does not fit.
        RuntimeError: Shapes of slices or dtypes do not fit; or the mode is on and the profile has
            no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.index_copy``. The spec's rows state what the mode does, and the guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    source = arguments.array(_NAME, "source", source)
    dim = arguments.dimension(dim, input.ndim, _NAME)
    flat = arguments.index_vector(_NAME, index)
    _check_source(input, dim, flat.shape[0], source)
    arguments.index_range(_NAME, index, input.shape[dim] if input.ndim else 1, dim, IndexError)
    arguments.flag(_NAME, "unique_indices", unique_indices)
    decision = decide(_NAME, **arguments.facts(input, unique_indices=unique_indices))
    out = assign(
        three_axes(alert(input, decision), dim),
        flat[None, :, None],
        three_axes(source, dim),
        unique=unique_indices,
    )
    return out.reshape(input.shape)


def _check_source(input: jax.Array, dim: int, count: int, source: jax.Array) -> None:
    if input.dtype != source.dtype:
        raise RuntimeError(
            f"{_NAME}(): input and source expected to have the same dtype, but got "
            f"{input.dtype} and {source.dtype}; convert one of them"
        )
    if source.ndim == 0 and count != 1:
        raise IndexError(
            f"{_NAME}(): When source is scalar, index should have one element (got {count})"
        )
    if source.ndim and input.ndim and source.ndim != input.ndim:
        raise IndexError(
            f"{_NAME}(): When source and input are not scalars, their dimensionality must match. "
            f"Got input.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )
    rest = [list(a.shape[:dim] + a.shape[dim + 1 :]) for a in (input, source)]
    if rest[0] != rest[1]:
        raise RuntimeError(
            f"{_NAME}(): input and source must have same slice shapes, excluding dimension {dim}. "
            f"Got input.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )
    if source.ndim and source.shape[dim] != count:
        raise IndexError(
            f"{_NAME}(): Number of indices ({count}) should be equal to source.shape[dim] "
            f"({source.shape[dim]})"
        )
