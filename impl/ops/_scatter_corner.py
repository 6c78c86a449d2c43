"""What scatter, scatter_add and scatter_reduce share: the corner of the input that an index spans.

Their index has as many dimensions as the input, and may be shorter than it in any but the one that
it counts along. Only that corner of the input can change.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import at_least_1d, corner_slices, three_axes
from impl._mode.decide import Decision
from impl._primitives.alert import alert

#: Takes an operand, indices and updates of three axes, and returns what becomes of the operand.
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
    """``input`` with ``src`` combined with the corner that ``index`` spans.

    Args:
        function: Whose arguments these are, for messages.
        input: Any shape.
        dim: The dimension that ``index`` counts along, from the front.
        index: As the user gave it; int32 or int64.
        src: What lies beyond ``index`` is not used.
        combine: What to combine by.
        decision: Whose alerts to give, once the arguments are known to be good.

    Returns:
        Shape and dtype of ``input``.

    Raises:
        RuntimeError: An index is out of range; shapes or dtypes do not fit.
        TypeError: ``index`` is not an array.
    """
    places = arguments.index_array(function, index)
    if input.dtype != src.dtype:
        raise RuntimeError(
            f"{function}(): Expected input.dtype to be equal to src.dtype, but got {input.dtype} "
            f"and {src.dtype}; convert one of them"
        )
    if places.size == 0:
        return alert(input, decision)
    # PyTorch lets a number stand for an array of one element, and the other way round.
    shape, input = input.shape, at_least_1d(input)
    places, src = at_least_1d(places), at_least_1d(src)
    arguments.same_ndim(function, places, input=input, src=src)
    arguments.no_larger(function, places, dim, input, but_along_dim=True)
    arguments.no_larger(function, places, dim, src, but_along_dim=False, name="src")
    arguments.index_range(function, index, input.shape[dim], dim)
    input = alert(input, decision)
    corner = input[corner_slices(places.shape, dim)]
    used = src[tuple(map(slice, places.shape))]
    out = combine(three_axes(corner, dim), three_axes(places, dim), three_axes(used, dim))
    out = out.reshape(corner.shape)
    if corner.shape != input.shape:
        out = input.at[corner_slices(places.shape, dim)].set(out)
    return out.reshape(shape)
