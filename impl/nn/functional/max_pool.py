"""The ops ``max_pool1d``, ``max_pool2d`` and ``max_pool3d``: maxima over windows of a fixed size.

``_pooling`` makes the windows and the maxima.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl.nn.functional import _pooling


@eager.compiled
def max_pool1d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Computes maxima over windows.

    The first of equal elements is the maximum and has the gradient. NaN is greater than every
    number; the first NaN is the maximum (in PyTorch, the last). If an element is the maximum of
    several windows, its gradient adds their cotangents in float32 or wider, and is rounded once.

    Args:
        input: Shape [N, C, L] or [C, L], floats or integers.
        kernel_size: The number of elements of a window.
        stride: The distance between the starts of two windows; None means ``kernel_size``.
        padding: The length that windows may reach beyond each end of the input; at most half of
            ``kernel_size``. Elements of the padding are never the maximum.
        dilation: The distance between two elements of a window.
        ceil_mode: Whether a last window may end beyond the padding. It must begin in the input or
            in the padding before it.
        return_indices: Whether to return the indices of the maxima too.

    Returns:
        The maxima: shape [N, C, windows] or [C, windows], in the dtype of ``input``. With
        ``return_indices``, a pair of the maxima and their indices. An index counts the elements of
        a row; it is int64 (int32 where x64 is off). With a dilation, a window may read no element
        at all: its maximum is then minus infinity, or the least integer, and its index is -1.

    Raises:
        NotImplementedError: ``input`` is of another dtype.
        RuntimeError: Shapes or sizes do not fit; or the call is differentiated, the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.max_pool1d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@eager.compiled
def max_pool2d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Computes maxima as ``max_pool1d`` does, for shapes [N, C, H, W] and [C, H, W].

    ``kernel_size``, ``stride``, ``padding`` and ``dilation`` are an int for all dimensions, or one
    int for each. An index counts the elements of a plane in row-major order; the first of equal
    elements is the first in this order. A gradient adds along the first dimension first.

    Source: ``torch.nn.functional.max_pool2d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@eager.compiled
def max_pool3d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Computes maxima as ``max_pool2d`` does, for shapes [N, C, D, H, W] and [C, D, H, W].

    Source: ``torch.nn.functional.max_pool3d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    sizes = kernel_size, stride, padding, dilation
    return _max_pool(3, input, *sizes, ceil_mode, return_indices, returns_indices=return_indices)


def _max_pool(
    dims: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: Any,
    return_indices: Any,
    **facts: Any,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Pools the last ``dims`` dimensions; the batch and the channels stay."""
    name = f"max_pool{dims}d"
    input = _pooling.pooled(name, dims, input)
    if arguments.dtype_kind(input.dtype) != "integer":
        _pooling.floats(name, input)
    windows = _pooling.Windows.of(
        name,
        dims,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
    )
    spans = windows.spans(windows.outputs(name, input.shape[-dims:]))
    return _pooling.max_pool(name, input, spans, return_indices, **facts)
