"""The ops ``conv1d``, ``conv2d`` and ``conv3d``.

This module computes the geometry of a convolution from PyTorch's arguments. ``_convolution``
checks the arrays and computes the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl.nn.functional import _convolution


@eager.compiled
def conv1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> jax.Array:
    """Computes a cross-correlation, which neural networks call a convolution.

    Products of float32 have full precision, unless ``jax_default_matmul_precision`` is set to a
    lower one. Products of float16 and bfloat16 are added in float32, and each sum is rounded.

    Args:
        input: Shape [N, C, L] or [C, L]; integers, floats or complex numbers.
        weight: Shape [D, C / groups, K], in the dtype of ``input``.
        bias: Shape [D], in the dtype of ``input``; or None.
        stride: The distance between the starts of two windows.
        padding: The number of zeros on each side of the input. "valid" means none. "same" pads so
            that the result has the length of the input; if the number of zeros is odd, there is
            one more after the input than before it. "same" needs a stride of 1.
        dilation: The distance between two elements of a window.
        groups: The number of groups of channels. A group of the result reads one group of the
            input.

    Returns:
        An array of shape [N, D, windows] or [D, windows], in the dtype of ``input``.

    Raises:
        NotImplementedError: The arrays are of bools.
        RuntimeError: Shapes, sizes or dtypes do not fit; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.conv1d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@eager.compiled
def conv2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> jax.Array:
    """Computes what ``conv1d`` does, for an input of shape [N, C, H, W] or [C, H, W].

    ``stride``, ``padding`` and ``dilation`` are an int for all dimensions, or one int for each.

    Source: ``torch.nn.functional.conv2d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@eager.compiled
def conv3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> jax.Array:
    """Computes what ``conv2d`` does, for an input of shape [N, C, T, H, W] or [C, T, H, W].

    Source: ``torch.nn.functional.conv3d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _conv(
    dims: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> jax.Array:
    """Computes a convolution over the last ``dims`` dimensions."""
    name = f"conv{dims}d"
    groups = _convolution.positive(name, "groups", groups)
    operands = _convolution.operands(name, dims, input, weight, bias, groups, transposed=False)
    step = _convolution.each(name, "stride", stride, dims, 1)
    distance = _convolution.each(name, "dilation", dilation, dims, 1)
    reach = [d * (k - 1) + 1 for d, k in zip(distance, operands.kernel, strict=True)]
    before, after = _padding(name, padding, step, reach)
    padded = [b + n + a for b, n, a in zip(before, operands.sizes, after, strict=True)]
    if any(n < r for n, r in zip(padded, reach, strict=True)):
        raise RuntimeError(
            f"{name}(): Calculated padded input size per channel: {padded}. Kernel size: {reach}, "
            "dilation included. Kernel size can't be greater than actual input size"
        )
    window = _convolution.Window(
        result=tuple((n - r) // s + 1 for n, r, s in zip(padded, reach, step, strict=True)),
        stride=step,
        padding=tuple(zip(before, after, strict=True)),
        spread=(1,) * dims,
        dilation=distance,
        groups=groups,
    )
    return _convolution.convolved(name, operands, operands.weight, window)


def _padding(
    name: str, padding: Any, stride: Sequence[int], reach: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the numbers of zeros before, and those after, each dimension."""
    if not isinstance(padding, str):
        both = _convolution.each(name, "padding", padding, len(reach), 0)
        return both, both
    arguments.choice(name, "padding", padding, ("valid", "same"))
    if padding == "valid":
        return (0,) * len(reach), (0,) * len(reach)
    if max(stride) > 1:
        raise RuntimeError(
            f"{name}(): padding='same' is not supported for strided convolutions, but got stride "
            f"{list(stride)}"
        )
    return tuple((r - 1) // 2 for r in reach), tuple(r // 2 for r in reach)
