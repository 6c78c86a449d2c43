"""impl.nn.functional.max_pool1d, max_pool2d and max_pool3d."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl.nn.functional import _pooling


def max_pool1d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Maxima over windows.

    Of equal elements the one with the lowest index is taken, and has the gradient; NaN is above
    every number, and of several the first is taken, not as in PyTorch the last. The gradient of
    an element that several windows take adds up in float32 or wider, and is rounded once.

    Args:
        input: Shape [N, C, L] or [C, L], of floats or integers.
        kernel_size: Length of a window.
        stride: How far apart windows begin; None for ``kernel_size``.
        padding: How far windows reach beyond both ends of the input, where there is nothing that
            they could take; at most half of ``kernel_size``.
        dilation: How far apart the elements of a window are.
        ceil_mode: Whether a last window may reach beyond the padding, if it begins within the
            input or the padding before it.
        return_indices: Whether to return beside the maxima where they are.

    Returns:
        As ``input``, but for its length, the number of windows. Where dilation has a window read
        nothing at all it is minus infinity, or the least integer. The indices, int64 (int32 where
        x64 is off), count the elements of a row, and are -1 for such a window.

    Raises:
        NotImplementedError: ``input`` is of another dtype.
        RuntimeError: Shapes or sizes do not fit; or the gradient is asked for, the mode is on, and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.max_pool1d``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """As ``max_pool1d``, for shapes [N, C, H, W] and [C, H, W].

    ``kernel_size``, ``stride``, ``padding`` and ``dilation`` are an int for all dimensions or one
    for each. Indices count the elements of a plane in row-major order, in which the first of equal
    elements is taken; a gradient adds up the first dimension first.

    Source: ``torch.nn.functional.max_pool2d``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """As ``max_pool2d``, for shapes [N, C, D, H, W] and [C, D, H, W].

    Source: ``torch.nn.functional.max_pool3d``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _max_pool(
    dims: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: Any,
    return_indices: Any,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Any of them: ``dims`` dimensions are pooled, those before them are not."""
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
    tables = windows.tables(name, input.shape[-dims:])
    return _pooling.max_pool(name, input, tables, return_indices)
