"""The op ``put``: writes or adds elements at indices into a flattened array."""

from __future__ import annotations

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import wrapped
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._indexing import accumulate as add
from impl.ops._indexing import assign

_NAME = "put"


@eager.compiled
def put(
    input: Array,
    index: Array,
    source: Array,
    accumulate: bool = False,
    *,
    unique_indices: bool = False,
) -> jax.Array:
    """Writes elements to ``input`` at indices that count in row-major order, or adds them.

    Args:
        input: Any shape and dtype.
        index: Any shape, int32 or int64, each in [-n, n) for the n elements of ``input``.
            Negative indices count from the end. Under ``jit`` an update whose index is out of range
            is dropped.
        source: Of the dtype of ``input``, with as many elements as ``index``, in any shape.
        accumulate: Whether to add instead of to write. Without it, if several elements are written
            to one index, one stays: the last, if the mode keeps an order. The gradient at that
            index goes to the element that stays.
        unique_indices: Promises that no index occurs twice, so that the order does not matter.

    Returns:
        An array of the shape and dtype of ``input``.

    Raises:
        IndexError: An index is out of range; or ``source`` and ``index`` differ in their number of
            elements.
        NotImplementedError: ``input`` has more elements than 32 bits can count, and x64 is off.
        RuntimeError: ``index`` is not of int32 or int64; ``source`` is of another dtype; or the
            mode is on and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.Tensor.put_``. The spec's rows state what the mode does, and the guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    source = arguments.array(_NAME, "source", source)
    indices = arguments.index_array(_NAME, index)
    arguments.flag(_NAME, "accumulate", accumulate)
    arguments.flag(_NAME, "unique_indices", unique_indices)
    arguments.same_dtype(_NAME, input, source=source)
    if indices.size != source.size:
        raise IndexError(
            f"{_NAME}(): Expected source and index to have the same number of elements, but got "
            f"{source.size} and {indices.size}"
        )
    arguments.index_range(_NAME, index, input.size, None, IndexError, wrap=True)
    decision = decide(
        _NAME, **arguments.facts(input, accumulate=accumulate, unique_indices=unique_indices)
    )
    write = add if accumulate else assign
    out = write(
        alert(input, decision).reshape(1, -1, 1),
        wrapped(indices, input.size).reshape(1, -1, 1),
        source.reshape(1, -1, 1),
        unique=unique_indices,
    )
    return out.reshape(input.shape)
