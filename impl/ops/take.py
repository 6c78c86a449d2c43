"""The op ``take``: reads elements of a flattened array; its gradient is a scatter-accumulate."""

from __future__ import annotations

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import wrapped
from impl._mode.decide import decide
from impl.ops._indexing import gather

_NAME = "take"


@eager.compiled
def take(input: Array, index: Array) -> jax.Array:
    """Reads elements of ``input`` at indices that count in row-major order.

    Args:
        input: Any shape and dtype.
        index: Any shape, int32 or int64, each in [-n, n) for the n elements of ``input``.
            Negative indices count from the end. Under ``jit`` an index that is out of range reads
            NaN, or the fill value of ``jax.numpy.take`` for dtypes without NaN.

    Returns:
        An array of the shape of ``index`` and the dtype of ``input``. The gradient of an element
        is the sum over all reads of it.

    Raises:
        IndexError: An index is out of range.
        NotImplementedError: ``input`` has more elements than 32 bits can count, and x64 is off.
        RuntimeError: ``index`` is not of int32 or int64; when differentiated, the mode was on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is not an array.

    Source: ``torch.take``. The spec's rows state what the mode does with the gradient, and the
    guarantee.
    """
    input = arguments.array(_NAME, "input", input)
    indices = arguments.index_array(_NAME, index)
    arguments.index_range(_NAME, index, input.size, None, IndexError, wrap=True)
    pullback = decide(_NAME, "backward", **arguments.facts(input))
    flat = wrapped(indices, input.size).reshape(1, -1, 1)
    return gather(input.reshape(1, -1, 1), flat, pullback=pullback).reshape(indices.shape)
