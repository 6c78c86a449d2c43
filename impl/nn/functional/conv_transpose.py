"""impl.nn.functional.conv_transpose1d, conv_transpose2d and conv_transpose3d."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from impl._core.arguments import Array
from impl._core.convolution_window import ConvolutionWindow
from impl.nn.functional import _convolution


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
    """The transpose of a convolution: its gradient for the input, but for the bias.

    float32 is multiplied in full precision, unless jax_default_matmul_precision says otherwise;
    float16 and bfloat16 are added up in float32 and rounded.

    Args:
        input: Shape [N, C, L] or [C, L]; integers, floats or complex numbers.
        weight: Shape [C, D / groups, K], of the same dtype.
        bias: Shape [D], of the same dtype, or None.
        stride: That of the convolution.
        padding: That of the convolution: how much is cut off on both sides of the result.
        output_padding: How much longer the result is at its end; less than ``stride`` or
            ``dilation``.
        groups: That of the convolution.
        dilation: That of the convolution.

    Returns:
        Shape [N, D, length] or [D, length], where length is
        (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1.

    Raises:
        NotImplementedError: The arrays are of bools.
        RuntimeError: Shapes, sizes or dtypes do not fit; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.conv_transpose1d``. What the mode does, and the guarantee, are in
    the spec's rows.
    """
    return _conv_transpose(
        1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


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
    """As ``conv_transpose1d``, for an input of shape [N, C, H, W] or [C, H, W].

    ``stride``, ``padding``, ``output_padding`` and ``dilation`` are an int for all dimensions or
    one for each.

    Source: ``torch.nn.functional.conv_transpose2d``. What the mode does, and the guarantee, are in
    the spec's rows.
    """
    return _conv_transpose(
        2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


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
    """As ``conv_transpose2d``, for an input of shape [N, C, T, H, W] or [C, T, H, W].

    Source: ``torch.nn.functional.conv_transpose3d``. What the mode does, and the guarantee, are in
    the spec's rows.
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
    """Any of them, of ``dims`` dimensions."""
    name = f"conv_transpose{dims}d"
    groups = _convolution.positive(name, "groups", groups)
    operands = _convolution.operands(name, dims, input, weight, bias, groups, transposed=True)
    step = _convolution.each(name, "stride", stride, dims, 1)
    cut = _convolution.each(name, "padding", padding, dims, 0)
    more = _convolution.each(name, "output_padding", output_padding, dims, 0)
    apart = _convolution.each(name, "dilation", dilation, dims, 1)
    if any(m >= max(s, d) for m, s, d in zip(more, step, apart, strict=True)):
        raise RuntimeError(
            f"{name}(): output padding must be smaller than either stride or dilation, but got "
            f"output_padding {list(more)}, stride {list(step)} and dilation {list(apart)}"
        )
    if min(operands.sizes) < 1:
        raise RuntimeError(
            f"{name}(): Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{list(operands.input.shape)}"
        )
    sizes = tuple(
        (n - 1) * s - 2 * c + d * (k - 1) + m + 1
        for n, s, c, d, k, m in zip(
            operands.sizes, step, cut, apart, operands.taps, more, strict=True
        )
    )
    if min(sizes) < 1:
        raise RuntimeError(
            f"{name}(): Given input size per channel: {list(operands.sizes)}. Calculated output "
            f"size per channel: {list(sizes)}. Output size is too small"
        )
    strides = ConvolutionWindow(
        image=sizes,
        result=operands.sizes,
        kernel=operands.taps,
        stride=step,
        dilation=apart,
        before=cut,
        groups=groups,
    )
    return _convolution.convolved(name, operands, strides, wanted="image")
