"""The corner of the input that the index of a scatter spans.

The index of ``scatter``, ``scatter_add`` and ``scatter_reduce`` has as many dimensions as the
input. It may be shorter than the input in every dimension but ``dim``. Only this corner of the
input can change, so only this corner is given to the scatter primitives.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import at_least_1d, corner_slices, three_axes
from impl._mode.decide import Decision
from impl._primitives.alert import alert

#: Combines an operand with updates at indices, each of three axes; returns the new operand.
Combine = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def scattered(
    function: str,
    input: jax.Array,
    dim: int,
    index: Array,
    src: jax.Array,
    *,
    combine: Combine,
    decision: Decision,
) -> jax.Array:
    """Combines ``src`` with the corner of ``input`` that ``index`` spans.

    Args:
        function: The name of the op, for messages.
        input: An array of any shape.
        dim: The dimension that ``index`` counts along, counted from the front.
        index: The index as the user gave it, int32 or int64.
        src: The updates. Elements beyond the shape of ``index`` are not used.
        combine: The scatter.
        decision: The decision whose alert is given after the arguments are checked.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        RuntimeError: An index is out of range; shapes or dtypes do not fit.
        TypeError: ``index`` is not an array.
    """
    indices = arguments.index_array(function, index)
    if input.dtype != src.dtype:
        raise RuntimeError(
            f"{function}(): Expected input.dtype to be equal to src.dtype, but got {input.dtype} "
            f"and {src.dtype}; convert one of them"
        )
    if indices.size == 0:
        return alert(input, decision)
    # PyTorch takes a 0-d array for an array of one element, and the reverse.
    shape, input = input.shape, at_least_1d(input)
    indices, src = at_least_1d(indices), at_least_1d(src)
    arguments.same_ndim(function, indices, input=input, src=src)
    arguments.no_larger(function, indices, dim, input, but_along_dim=True)
    arguments.no_larger(function, indices, dim, src, but_along_dim=False, name="src")
    arguments.index_range(function, index, input.shape[dim], dim)
    input = alert(input, decision)
    corner = input[corner_slices(indices.shape, dim)]
    updates = src[tuple(map(slice, indices.shape))]
    out = combine(three_axes(corner, dim), three_axes(indices, dim), three_axes(updates, dim))
    out = out.reshape(corner.shape)
    if corner.shape != input.shape:
        out = input.at[corner_slices(indices.shape, dim)].set(out)
    return out.reshape(shape)
