"""impl.nn.functional.conv1d, conv2d and conv3d."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.convolution_window import ConvolutionWindow
from impl.nn.functional import _convolution


def conv1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> jax.Array:
    """A convolution, as neural networks have it: the kernel is not turned round.

    float32 is multiplied in full precision, unless jax_default_matmul_precision says otherwise;
    float16 and bfloat16 are added up in float32 and rounded.

    Args:
        input: Shape [N, C, L] or [C, L]; integers, floats or complex numbers.
        weight: Shape [D, C / groups, K], of the same dtype.
        bias: Shape [D], of the same dtype, or None.
        stride: How far apart windows begin.
        padding: How many zeros there are on both sides of the input; or "valid" for none, or
            "same" for as many as give a result of the input's length, one more behind it if that
            is odd. "same" needs a stride of 1.
        dilation: How far apart the elements of one window are.
        groups: Into how many groups channels are divided; each of the input's is seen by one of
            the result's alone.

    Returns:
        Shape [N, D, windows] or [D, windows].

    Raises:
        NotImplementedError: The arrays are of bools.
        RuntimeError: Shapes, sizes or dtypes do not fit; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.conv1d``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> jax.Array:
    """As ``conv1d``, for an input of shape [N, C, H, W] or [C, H, W].

    ``stride``, ``padding`` and ``dilation`` are an int for all dimensions or one for each.

    Source: ``torch.nn.functional.conv2d``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> jax.Array:
    """As ``conv2d``, for an input of shape [N, C, T, H, W] or [C, T, H, W].

    Source: ``torch.nn.functional.conv3d``. What the mode does, and the guarantee, are in the
    spec's rows.
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
    """Any of them, of ``dims`` dimensions."""
    name = f"conv{dims}d"
    groups = _convolution.positive(name, "groups", groups)
    operands = _convolution.operands(name, dims, input, weight, bias, groups, transposed=False)
    step = _convolution.each(name, "stride", stride, dims, 1)
    apart = _convolution.each(name, "dilation", dilation, dims, 1)
    reach = [d * (k - 1) + 1 for d, k in zip(apart, operands.taps, strict=True)]
    before, after = _padding(name, padding, step, reach)
    padded = [b + n + a for b, n, a in zip(before, operands.sizes, after, strict=True)]
    if any(n < r for n, r in zip(padded, reach, strict=True)):
        raise RuntimeError(
            f"{name}(): Calculated padded input size per channel: {padded}. Kernel size: {reach}, "
            "dilation included. Kernel size can't be greater than actual input size"
        )
    strides = ConvolutionWindow(
        image=operands.sizes,
        result=tuple((n - r) // s + 1 for n, r, s in zip(padded, reach, step, strict=True)),
        kernel=operands.taps,
        stride=step,
        dilation=apart,
        before=before,
        groups=groups,
    )
    return _convolution.convolved(name, operands, strides, wanted="result")


def _padding(
    name: str, padding: Any, stride: Sequence[int], reach: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros before and after each dimension."""
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
