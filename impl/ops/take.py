"""impl.take."""

from __future__ import annotations

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import wrapped
from impl._mode.decide import decide
from impl._primitives.gather import gather

_NAME = "take"


def take(input: Array, index: Array) -> jax.Array:
    """Elements of ``input``, counted in row-major order.

    Args:
        input: Any shape and dtype.
        index: Any shape, int32 or int64, each in [-n, n) for the n elements of ``input``;
            negative ones count from the end. Under ``jit`` others read NaN, or the fill value of
            ``jax.numpy.take`` for other dtypes.

    Returns:
        Shape of ``index``, dtype of ``input``. Its gradient adds up all elements read from one
        place; what the mode does with that, and the guarantee, are in the spec's rows.

    Raises:
        IndexError: An index is out of range.
        NotImplementedError: ``input`` has more elements than 32 bits count, and x64 is off.
        RuntimeError: ``index`` is not of int32 or int64; when differentiated, the mode was on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is not an array.

    Source: ``torch.take``.
    """
    input = arguments.array(_NAME, "input", input)
    places = arguments.index_array(_NAME, index)
    arguments.index_range(_NAME, index, input.size, None, IndexError, wrap=True)
    pullback = decide(_NAME, "backward", **arguments.facts(input))
    flat = wrapped(places, input.size).reshape(1, -1, 1)
    return gather(input.reshape(1, -1, 1), flat, pullback=pullback).reshape(places.shape)
