"""The op ``bincount``: a scatter-accumulate of weights, or of ones, into bins."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._indexing import accumulate

_NAME = "bincount"


@eager.compiled
def bincount(
    input: Array,
    weights: Array | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
) -> jax.Array:
    """Counts how often each number occurs, or adds up the weights of its occurrences.

    Args:
        input: Shape [n], integers that are not negative.
        weights: Shape [n], real numbers; or None to count.
        minlength: The least length of the result.
        length: The exact length of the result; numbers of ``length`` and above are dropped. It is
            needed under ``jit``, where the largest number is not known.

    Returns:
        An array of shape [max(minlength, largest number + 1)], or [``length``]. Without
        ``weights`` it has the default integer dtype. With ``weights`` of float32 it is float32;
        with other weights it is float64, or float32 where x64 is off.

    Raises:
        NotImplementedError: ``input`` is not of integers.
        RuntimeError: ``input`` is not 1-d or has a negative number; ``weights``
            and ``input`` differ in shape; ``minlength`` is negative or above ``length``; or the
            mode is on and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type; ``weights`` are complex; or ``length`` is
            missing under ``jit``.

    Source: ``torch.bincount``. The spec's rows state what the mode does, and the guarantee.
    """
    numbers = arguments.array(_NAME, "input", input)
    if not jnp.issubdtype(numbers.dtype, jnp.integer):
        raise NotImplementedError(
            f"{_NAME}(): not implemented for {numbers.dtype} in argument 'input'; it takes integers"
        )
    if numbers.ndim != 1:
        raise RuntimeError(
            f"{_NAME} only supports 1-d non-negative integral inputs, but got shape "
            f"{list(numbers.shape)}"
        )
    minlength = arguments.integer(_NAME, "minlength", minlength)
    if minlength < 0:
        raise RuntimeError(f"{_NAME}(): minlength should be >= 0, but got {minlength}")
    size = _length(input, minlength, length)
    amounts = _amounts(weights, numbers)
    decision = decide(_NAME, **arguments.facts(amounts, weights=weights is not None))
    out = accumulate(
        jnp.zeros((1, size, 1), amounts.dtype),
        _bins(input, numbers, size)[None, :, None],
        alert(amounts, decision)[None, :, None],
    )
    return out.reshape(size)


def _length(input: Any, minlength: int, length: int | None) -> int:
    if length is not None:
        length = arguments.integer(_NAME, "length", length)
        if length < minlength:
            raise RuntimeError(
                f"{_NAME}(): length must not be below minlength, but got {length} and {minlength}"
            )
        eager.when_known(_check_values, input)
        return length
    values = arguments.known(input)
    if values is None:
        raise TypeError(
            f"{_NAME}(): the length of the result depends on the values of 'input', which are not "
            "known under jit, or where other processes have a part of it; pass length=, as for "
            "jax.numpy.bincount"
        )
    _check_values(values)
    return max(minlength, int(values.max()) + 1 if values.size else 0)


def _check_values(values: np.ndarray[Any, Any]) -> None:
    if values.size and values.min() < 0:
        position = int(np.argmin(values))
        raise RuntimeError(
            f"{_NAME} only supports 1-d non-negative integral inputs, but got "
            f"{values[position]} at position {position}"
        )


def _bins(input: Any, numbers: jax.Array, size: int) -> jax.Array:
    if not isinstance(input, np.ndarray) or input.dtype == numbers.dtype:
        return numbers
    # JAX narrows the numbers to 32 bits. A wide number must not become another number that way.
    return jnp.asarray(np.where(input < size, input, size))


def _amounts(weights: Any, numbers: jax.Array) -> jax.Array:
    if weights is None:
        return jnp.ones(numbers.shape, jnp.result_type(int))
    amounts = arguments.array(_NAME, "weights", weights)
    if amounts.shape != numbers.shape:
        raise RuntimeError(
            f"{_NAME}(): weights should be 1-d and have the same length as input, but got shapes "
            f"{list(amounts.shape)} and {list(numbers.shape)}"
        )
    if jnp.issubdtype(amounts.dtype, jnp.complexfloating):
        raise TypeError(
            f"{_NAME}(): argument 'weights' must be real, not {amounts.dtype}; pass its .real"
        )
    return amounts if amounts.dtype == jnp.float32 else amounts.astype(jnp.result_type(float))
