"""The op ``repeat_interleave``: repeats slices, by a gather of their positions.

Its gradient adds up the repetitions of each slice, by scatter-accumulate.
"""

from __future__ import annotations

import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._mode.decide import decide
from impl.ops._indexing import gather

_NAME = "repeat_interleave"


@eager.compiled
def repeat_interleave(
    input: Array,
    repeats: int | Array | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> jax.Array:
    """Repeats each slice of ``input`` along one dimension.

    Args:
        input: Any shape and dtype. Without ``repeats``, the numbers of repetitions, of shape [n];
            the result is then the positions 0 to n - 1, each repeated.
        repeats: The number of repetitions of each slice: an int, or an array of int32 or int64 of
            shape [size], [1] or [].
        dim: The dimension of the slices; None flattens ``input``.
        output_size: The length of the result along ``dim``, which must be the sum of ``repeats``.
            It is needed under ``jit`` if ``repeats`` is an array. There a shorter result is cut
            off, and a longer one is filled up with NaN, or with the fill value of
            ``jax.numpy.take`` for dtypes without NaN (with n for positions).

    Returns:
        An array of the dtype of ``input`` and of its shape, with the sum of ``repeats`` as the
        length of ``dim``. The gradient of a slice is the sum over its repetitions.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: ``repeats`` is an array of another dtype than int32 and int64.
        RuntimeError: ``repeats`` has a negative number or does not fit ``input``, or
            ``output_size`` is not their sum; when differentiated, the mode was on and the profile
            has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type, or ``output_size`` is missing under ``jit``.

    Source: ``torch.repeat_interleave``. The spec's rows state what the mode does with the gradient,
    and the guarantee.
    """
    if output_size is not None:
        output_size = _not_negative("output_size", output_size)
    if repeats is None:
        return _positions_alone(input, dim, output_size)
    input = arguments.array(_NAME, "input", input)
    if dim is None:
        input, dim = input.reshape(-1), 0
    dim = arguments.dimension(dim, input.ndim, _NAME, numbers_have_one=False)
    pullback = decide(_NAME, "backward", **arguments.facts(input))
    index = _positions(_by_slice(repeats, input.shape[dim], dim), output_size)
    out = gather(three_axes(input, dim), index[None, :, None], pullback=pullback)
    return out.reshape(*input.shape[:dim], index.size, *input.shape[dim + 1 :])


def _positions_alone(repeats: Any, dim: int | None, output_size: int | None) -> jax.Array:
    if dim is not None:
        raise TypeError(f"{_NAME}(): argument 'dim' needs argument 'repeats'")
    repeats = _checked_array(repeats, "input")
    if np.ndim(repeats) != 1:
        raise RuntimeError(
            f"{_NAME}(): 'input' alone must be a vector of repeats, but got shape "
            f"{list(np.shape(repeats))}"
        )
    return _positions(repeats, output_size).astype(jnp.asarray(repeats).dtype)


def _by_slice(repeats: Any, size: int, dim: int) -> Array:
    """Returns one number of repetitions for each of ``size`` slices."""
    if isinstance(repeats, numbers.Integral):
        return np.full(size, _not_negative("repeats", repeats))
    repeats = _checked_array(repeats, "repeats")
    if repeats.ndim > 1 or repeats.size not in (1, size):
        raise RuntimeError(
            f"{_NAME}(): repeats must have one element or the size of input along dim, but got "
            f"shape {list(repeats.shape)} and {size} along dimension {dim}"
        )
    values = arguments.known(repeats)
    if values is not None:
        return np.broadcast_to(values.reshape(-1), size)
    return jnp.broadcast_to(jnp.asarray(repeats).reshape(-1), size)


def _positions(repeats: Array, output_size: int | None) -> jax.Array:
    """Returns, for each slice of the result, the position of the slice that it repeats."""
    values = arguments.known(repeats)
    if values is None:
        if output_size is None:
            raise TypeError(
                f"{_NAME}(): the length of the result depends on the values of 'repeats', which "
                "are not known under jit, or where other processes have a part of it; pass "
                "output_size="
            )
        ends = _ends(jnp.clip(jnp.asarray(repeats), 0, output_size), output_size)
        positions = jnp.searchsorted(ends, jnp.arange(output_size), side="right")
        return positions.astype(jnp.int32)
    if values.size and values.min() < 0:
        position = int(np.argmin(values))
        raise RuntimeError(
            f"{_NAME}(): repeats can not be negative, but got {values[position]} at position "
            f"{position}"
        )
    total = int(values.sum())
    if output_size not in (None, total):
        raise RuntimeError(
            f"{_NAME}(): output_size must be the sum of repeats, {total}, but got {output_size}"
        )
    return jnp.asarray(np.repeat(np.arange(values.size), values).astype(np.int32))


def _ends(repeats: jax.Array, output_size: int) -> jax.Array:
    """Returns the sum of the repeats up to each slice, or ``output_size`` where that is less.

    A plain sum of int32 may overflow; one that stops at ``output_size`` does not overflow uint32.
    """

    def add(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.minimum(a + b, jnp.uint32(output_size))

    ends: jax.Array = jax.lax.associative_scan(add, repeats.astype(jnp.uint32))
    return ends.astype(jnp.int32)


def _not_negative(name: str, value: Any) -> int:
    number = arguments.integer(_NAME, name, value)
    if number < 0:
        raise RuntimeError(f"{_NAME}(): {name} must be non-negative, but got {number}")
    return number


def _checked_array(repeats: Any, name: str) -> Array:
    if not isinstance(repeats, jax.Array | np.ndarray | np.generic):
        raise TypeError(
            f"{_NAME}(): argument '{name}' must be an int, a jax.Array or a NumPy array, not "
            f"{type(repeats).__name__}"
        )
    array = arguments.native(_NAME, name, repeats)
    if np.dtype(array.dtype) not in (np.int32, np.int64):
        raise NotImplementedError(
            f"{_NAME}(): not implemented for {array.dtype} in argument '{name}'; it takes int32 "
            "and int64"
        )
    return array
