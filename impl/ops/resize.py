"""The op ``resize``: the elements of an array in another shape, with uninitialised new ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp

from impl._core import arguments, eager
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


@eager.compiled
def resize(
    input: Array | QuantizedArray,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
    **keywords: Any,
) -> jax.Array | QuantizedArray:
    """Returns the elements of an array in another shape; drops the last ones or adds new ones.

    Elements stay in row-major order. The values of new elements are those described for ``empty``;
    in a quantized array they are the zero point, which represents 0. Gradients go to the elements
    that stay. (In PyTorch a tensor that requires a gradient cannot be resized.)

    Args:
        input: Any shape and dtype, or a ``QuantizedArray``.
        *sizes: The shape, as ints or as one tuple or list of ints.
        size: The shape, as a keyword.
        **keywords: PyTorch's ``memory_format``, which must be None.

    Returns:
        An array of the given shape and of the dtype of ``input``; quantized if ``input`` is.

    Raises:
        RuntimeError: A size is negative; or the mode is on and the profile has no deterministic
            implementation for the device.
        TypeError: An argument is of the wrong type, or a keyword has a value that JAX does not
            support.

    Source: ``torch.Tensor.resize_``, which changes its tensor; this function does not. The spec's
    rows state what the mode does, and the guarantee.
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
    shortage = (count - flat.size,)
    if tail is None:
        new = uninitialized(shortage, input.dtype, decision=decision)
    else:
        new = jnp.broadcast_to(tail, shortage)
    return jnp.concatenate(aligned(flat, new)).reshape(shape)
