"""impl.getitem."""

from __future__ import annotations

from typing import Any

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.subscripts import subscript
from impl._mode.decide import decide
from impl._primitives.gather import gather

_NAME = "getitem"


def getitem(input: Array, indices: Any) -> jax.Array:
    """``input[indices]``, with PyTorch's meaning of what stands in the brackets.

    Args:
        input: Any shape and dtype.
        indices: An int, a slice with a positive step, None, ..., a bool, an array or list of
            indices, or a tuple of these. Arrays are of int32 or int64, or masks of bool or uint8
            that are known when the program is traced; an array without dimensions stands for an
            int or a bool. Negative indices count from the end. Under ``jit`` those out of range
            read NaN, or the fill value of ``jax.numpy.take`` for other dtypes.

            A list is an array if it holds numbers alone, and a tuple if not, as in PyTorch:
            ``[i, j]`` with arrays ``i`` and ``j`` is ``i, j``, and None adds a dimension.

            The dimensions of the arrays, broadcast, stand where the indexed dimensions were if
            those are neighbours once ints are gone, and in front if not.

    Returns:
        The elements, of the dtype of ``input``. The gradient adds up all elements read from one
        place; what the mode does with that, and the guarantee, are in the spec's rows. Without
        arrays of indices no place is read twice, and there is nothing to add up.

    Raises:
        IndexError: An index is out of range, of a wrong type, or one too many; or arrays do not
            broadcast.
        NotImplementedError: The indexed dimensions have more elements together than 32 bits count,
            and x64 is off.
        RuntimeError: When differentiated, the mode was on and the profile has no deterministic
            implementation for the device.
        TypeError: ``input`` is not an array, a bound of a slice is no int, or a mask is not known
            under ``jit``.
        ValueError: The step of a slice is not positive, or a list is ragged.

    Source: ``torch.Tensor.__getitem__``.
    """
    input = arguments.array(_NAME, "input", input)
    what = subscript(_NAME, input.shape, indices)
    pullback = decide(
        _NAME,
        "backward",
        **arguments.facts(input, index_is_list=what.has_arrays, unique_indices=what.unique),
    )
    sliced = what.sliced(input)
    if what.index is None:
        return sliced
    out = gather(what.index.fold(sliced), what.index.flat, pullback=pullback)
    return out.reshape(what.index.result_shape)
