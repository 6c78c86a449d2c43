"""impl.resize."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.shard_axes import aligned
from impl._mode import modes
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert
from impl._primitives.uninitialized import uninitialized
from impl.ops._uninitialized import unused
from impl.quantized import QuantizedArray

_NAME = "resize"


@overload
def resize(
    input: Array, *sizes: int | Sequence[int], size: Sequence[int] | None = ..., **keywords: Any
) -> jax.Array: ...


@overload
def resize(
    input: QuantizedArray,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = ...,
    **keywords: Any,
) -> QuantizedArray: ...


def resize(
    input: Array | QuantizedArray,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
    **keywords: Any,
) -> jax.Array | QuantizedArray:
    """The elements of an array in another shape: some are dropped, or new ones come after them.

    Elements stay in row-major order. New ones hold what an array of ``empty`` would; those of a
    quantized array hold the zero point, which stands for 0. A gradient reaches the elements that
    stay. (PyTorch resizes no tensor that requires one.)

    Args:
        input: Any shape and dtype, or a ``QuantizedArray``.
        *sizes: The shape, as ints or as one tuple or list of them.
        size: The same by name.
        **keywords: PyTorch's ``memory_format`` is taken where it is None.

    Returns:
        The shape asked for, of the dtype of ``input``; quantized as ``input`` is.

    Raises:
        RuntimeError: A size is negative; or the mode is on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type, or a keyword asks for something.

    Source: ``torch.Tensor.resize_``, which changes its tensor; this one does not. What the mode
    does, and the guarantee, are in the spec's rows.
    """
    codes = input.int_repr if isinstance(input, QuantizedArray) else input
    codes = arguments.array(_NAME, "input", codes)
    shape = arguments.sizes(_NAME, sizes, size)
    unused(_NAME, keywords)
    decision = decide(
        _NAME,
        quantized=isinstance(input, QuantizedArray),
        fill_uninitialized_memory=modes.fill_uninitialized_memory(),
    )
    if isinstance(input, QuantizedArray):
        point = input.zero_point.astype(codes.dtype)
        return dataclasses.replace(input, int_repr=_resized(codes, shape, decision, point))
    return _resized(codes, shape, decision, None)


def _resized(
    input: jax.Array, shape: tuple[int, ...], decision: Decision, tail: jax.Array | None
) -> jax.Array:
    flat = alert(input, decision).reshape(-1)
    count = math.prod(shape)
    if count <= flat.size:
        return flat[:count].reshape(shape)
    more = (count - flat.size,)
    if tail is None:
        new = uninitialized(more, input.dtype, decision=decision)
    else:
        new = jnp.broadcast_to(tail, more)
    return jnp.concatenate(aligned(flat, new)).reshape(shape)
