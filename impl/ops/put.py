"""impl.put."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import wrapped
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl._primitives.scatter_accumulate import scatter_accumulate
from impl._primitives.scatter_assign import scatter_assign

_NAME = "put"


def put(
    input: Array,
    index: Array,
    source: Array,
    accumulate: bool = False,
    *,
    unique_indices: bool = False,
) -> jax.Array:
    """Writes ``source`` to elements of ``input``, counted in row-major order, or adds it to them.

    Args:
        input: Any shape and dtype.
        index: Any shape, int32 or int64, each in [-n, n) for the n elements of ``input``;
            negative ones count from the end. Under ``jit`` others are dropped.
        source: Of the dtype of ``input``, with as many elements as ``index``.
        accumulate: Whether to add. If not, of several writes to one element the last one stays
            where the mode keeps an order, and its gradient is that write's alone.
        unique_indices: Vouches that no index occurs twice, so that there is no order to keep.

    Returns:
        Shape and dtype of ``input``.

    Raises:
        IndexError: An index is out of range; or ``source`` has another number of elements.
        NotImplementedError: ``input`` has more elements than 32 bits count, and x64 is off.
        RuntimeError: ``index`` is not of int32 or int64; ``source`` is of another dtype; or the
            mode is on and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.Tensor.put_``. What the mode does, and the guarantee, are in the spec's rows.
    """
    input = arguments.array(_NAME, "input", input)
    source = arguments.array(_NAME, "source", source)
    places = arguments.index_array(_NAME, index)
    arguments.flag(_NAME, "accumulate", accumulate)
    arguments.flag(_NAME, "unique_indices", unique_indices)
    arguments.same_dtype(_NAME, input, source=source)
    if places.size != source.size:
        raise IndexError(
            f"{_NAME}(): Expected source and index to have the same number of elements, but got "
            f"{source.size} and {places.size}"
        )
    arguments.index_range(_NAME, index, input.size, None, IndexError, wrap=True)
    decision = decide(
        _NAME, **arguments.facts(input, accumulate=accumulate, unique_indices=unique_indices)
    )
    write = scatter_accumulate if accumulate else scatter_assign
    out = write(
        alert(input, decision).reshape(1, -1, 1),
        wrapped(places, input.size).reshape(1, -1, 1),
        source.reshape(1, -1, 1),
        decision=decision,
    )
    return out.reshape(input.shape)
