"""The op ``getitem``: PyTorch's ``x[...]``.

Arrays of indices become one flat index, which the gather primitive reads; its gradient is a
scatter-accumulate.
"""

from __future__ import annotations

from typing import Any

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl.ops._indexing import gather
from impl.ops._subscripts import subscript

_NAME = "getitem"


@eager.compiled
def getitem(input: Array, indices: Any) -> jax.Array:
    """Reads ``input[indices]``, with PyTorch's meaning of the indices.

    Args:
        input: Any shape and dtype.
        indices: An int, a slice with a positive step, None, ..., a bool, an array or list of
            indices, or a tuple of these. Arrays are of int32 or int64, or are masks of bool or
            uint8 that are known when the program is traced. A 0-d array counts as an int or a
            bool. Negative indices count from the end. Under ``jit`` an index that is out of range
            reads NaN, or the fill value of ``jax.numpy.take`` for dtypes without NaN.

            As in PyTorch, a list of numbers is an array, and another list is a tuple: ``[i, j]``
            with arrays ``i`` and ``j`` means ``i, j``. None adds a dimension.

            The arrays are broadcast together. Ints remove their dimensions first. If the indexed
            dimensions are then adjacent, the dimensions of the arrays take their position;
            otherwise they come first.

    Returns:
        The elements, of the dtype of ``input``. The gradient of an element is the sum over all
        reads of it; without arrays of indices each element is read at most once.

    Raises:
        IndexError: An index is out of range or of a wrong type; there are too many indices; or the
            arrays do not broadcast.
        NotImplementedError: The indexed dimensions together have more elements than 32 bits can
            count, and x64 is off.
        RuntimeError: When differentiated, the mode was on and the profile has no deterministic
            implementation for the device.
        TypeError: ``input`` is not an array, a bound of a slice is not an int, or a mask is not
            known under ``jit``.
        ValueError: The step of a slice is not positive, or a list is ragged.

    Source: ``torch.Tensor.__getitem__``. The spec's rows state what the mode does with the
    gradient, and the guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    selection = subscript(_NAME, input.shape, indices)
    pullback = decide(
        _NAME,
        "backward",
        **arguments.facts(
            input, index_is_list=selection.has_arrays, unique_indices=selection.unique
        ),
    )
    sliced = selection.sliced(input)
    if selection.index is None:
        return sliced
    out = gather(selection.index.fold(sliced), selection.index.flat, pullback=pullback)
    return out.reshape(selection.index.result_shape)
