"""The ops ``conv_transpose1d``, ``conv_transpose2d`` and ``conv_transpose3d``.

This module computes the geometry of a transposed convolution from PyTorch's arguments.
``_convolution`` checks the arrays and computes the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import eager
from impl._core.arguments import Array
from impl.nn.functional import _convolution


@eager.compiled
def conv_transpose1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> jax.Array:
    """Computes the transpose of a convolution, plus a bias.

    Without the bias it is the gradient of a convolution: ``input`` is the cotangent, and the
    result is the gradient for the input of the convolution. Products of float32 have full
    precision, unless ``jax_default_matmul_precision`` is set to a lower one. Products of float16
    and bfloat16 are added in float32, and each sum is rounded.

    Args:
        input: Shape [N, C, L] or [C, L]; integers, floats or complex numbers.
        weight: Shape [C, D / groups, K], in the dtype of ``input``.
        bias: Shape [D], in the dtype of ``input``; or None.
        stride: The stride of the convolution.
        padding: The padding of the convolution, which is cut off on each side of the result.
        output_padding: The number of elements that are added at the end of the result; less than
            ``stride`` or less than ``dilation``.
        groups: The groups of the convolution.
        dilation: The dilation of the convolution.

    Returns:
        An array of shape [N, D, length] or [D, length], in the dtype of ``input``. The length is
        (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1.

    Raises:
        NotImplementedError: The arrays are of bools.
        RuntimeError: Shapes, sizes or dtypes do not fit; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.conv_transpose1d``. The spec's rows state what the mode does, and
    the guarantee.
    """
    return _conv_transpose(
        1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@eager.compiled
def conv_transpose2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> jax.Array:
    """Computes what ``conv_transpose1d`` does, for an input of shape [N, C, H, W] or [C, H, W].

    ``stride``, ``padding``, ``output_padding`` and ``dilation`` are an int for all dimensions, or
    one int for each.

    Source: ``torch.nn.functional.conv_transpose2d``. The spec's rows state what the mode does, and
    the guarantee.
    """
    return _conv_transpose(
        2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@eager.compiled
def conv_transpose3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> jax.Array:
    """Computes what ``conv_transpose2d`` does, for an input of [N, C, T, H, W] or [C, T, H, W].

    Source: ``torch.nn.functional.conv_transpose3d``. The spec's rows state what the mode does, and
    the guarantee.
    """
    return _conv_transpose(
        3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def _conv_transpose(
    dims: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: Any,
    dilation: Any,
) -> jax.Array:
    """Computes a transposed convolution over the last ``dims`` dimensions."""
    name = f"conv_transpose{dims}d"
    groups = _convolution.positive(name, "groups", groups)
    operands = _convolution.operands(name, dims, input, weight, bias, groups, transposed=True)
    step = _convolution.each(name, "stride", stride, dims, 1)
    cut = _convolution.each(name, "padding", padding, dims, 0)
    extra = _convolution.each(name, "output_padding", output_padding, dims, 0)
    distance = _convolution.each(name, "dilation", dilation, dims, 1)
    if any(e >= max(s, d) for e, s, d in zip(extra, step, distance, strict=True)):
        raise RuntimeError(
            f"{name}(): output padding must be smaller than either stride or dilation, but got "
            f"output_padding {list(extra)}, stride {list(step)} and dilation {list(distance)}"
        )
    if min(operands.sizes) < 1:
        raise RuntimeError(
            f"{name}(): Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{list(operands.input.shape)}"
        )
    sizes = tuple(
        (n - 1) * s - 2 * c + d * (k - 1) + e + 1
        for n, s, c, d, k, e in zip(
            operands.sizes, step, cut, distance, operands.kernel, extra, strict=True
        )
    )
    if min(sizes) < 1:
        raise RuntimeError(
            f"{name}(): Given input size per channel: {list(operands.sizes)}. Calculated output "
            f"size per channel: {list(sizes)}. Output size is too small"
        )
    window = _convolution.Window(
        result=sizes,
        stride=(1,) * dims,
        padding=tuple(
            (d * (k - 1) - c, d * (k - 1) - c + e)
            for d, k, c, e in zip(distance, operands.kernel, cut, extra, strict=True)
        ),
        spread=step,
        dilation=distance,
        groups=groups,
    )
    # The weights of the convolution that computes the image of the other one from its result.
    inputs, outputs, *taps = operands.weight.shape
    weight = operands.weight.reshape(groups, inputs // groups, outputs, *taps)
    weight = jnp.swapaxes(weight, 1, 2).reshape(groups * outputs, inputs // groups, *taps)
    weight = jax.lax.rev(weight, tuple(range(2, weight.ndim)))
    return _convolution.convolved(name, operands, weight, window)
