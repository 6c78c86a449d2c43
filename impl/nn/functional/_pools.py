"""The ops ``avg_pool1d``, ``avg_pool2d`` and ``avg_pool3d``: means over windows of a fixed size.

``_pooling`` makes the windows and the means. This module decides the divisor of each sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._mode.decide import decide
from impl._primitives.alert import alert_pullback
from impl.nn.functional import _pooling


@eager.compiled
def avg_pool1d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> jax.Array:
    """Computes means over windows.

    The sum of a window is multiplied by the rounded reciprocal of its divisor. A cotangent is
    multiplied by it before it is added to a gradient. float16 and bfloat16 are computed in float32
    and rounded once. Quotients of integers are rounded towards zero.

    Args:
        input: Shape [N, C, L] or [C, L], floats, int32 or int64.
        kernel_size: The number of elements of a window.
        stride: The distance between the starts of two windows; None means ``kernel_size``.
        padding: The number of zeros on each side of the input; at most half of ``kernel_size``.
        ceil_mode: Whether a last window may end beyond the padding. It must begin in the input or
            in the padding before it.
        count_include_pad: Whether the divisor counts the zeros of the padding. It never counts
            elements beyond the padding.

    Returns:
        An array of shape [N, C, windows] or [C, windows], in the dtype of ``input``.

    Raises:
        NotImplementedError: ``input`` is of another dtype.
        RuntimeError: Shapes or sizes do not fit; or the call is differentiated, the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.avg_pool1d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _avg_pool(
        1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor=None
    )


@eager.compiled
def avg_pool2d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> jax.Array:
    """Computes means as ``avg_pool1d`` does, for shapes [N, C, H, W] and [C, H, W].

    ``kernel_size``, ``stride`` and ``padding`` are an int for all dimensions, or one int for each.
    ``divisor_override`` is the divisor of every sum, and not 0; None means the number of elements.

    Source: ``torch.nn.functional.avg_pool2d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _avg_pool(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@eager.compiled
def avg_pool3d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> jax.Array:
    """Computes means as ``avg_pool2d`` does, for shapes [N, C, D, H, W] and [C, D, H, W].

    Without the padding, the input must be at least as large as a window.

    Source: ``torch.nn.functional.avg_pool3d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _avg_pool(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _avg_pool(
    dims: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: Any,
    count_include_pad: Any,
    divisor: Any,
) -> jax.Array:
    """Pools the last ``dims`` dimensions; the batch and the channels stay."""
    name = f"avg_pool{dims}d"
    input = _pooling.pooled(name, dims, input)
    _check_dtype(name, input)
    arguments.flag(name, "count_include_pad", count_include_pad)
    if divisor is not None and arguments.integer(name, "divisor_override", divisor) == 0:
        raise RuntimeError(f"{name}(): divisor_override must be not zero")
    windows = _pooling.Windows.of(
        name, dims, kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode
    )
    sizes = input.shape[-dims:]
    if dims == 3 and any(n < k for n, k in zip(sizes, windows.kernel, strict=True)):
        raise RuntimeError(
            f"{name}(): an input of size {list(sizes)} is smaller than kernel_size "
            f"{list(windows.kernel)}; pad it beforehand"
        )
    lengths = windows.outputs(name, sizes)
    if divisor is not None:
        divisors: list[npt.NDArray[Any]] = [np.asarray([divisor])]
    else:
        divisors = [*windows.counts(sizes, lengths, padding=count_include_pad)]
    decision = decide(f"nn.functional.{name}", "backward", **arguments.facts(input))
    total = windows.sums(convert(input, accumulator(input.dtype)), lengths)
    return alert_pullback(_pooling.mean(total, divisors, input.dtype), decision)


def _check_dtype(name: str, input: jax.Array) -> None:
    # PyTorch accepts int64. JAX converts it to int32 where x64 is off.
    if np.dtype(input.dtype) not in (np.int32, np.int64):
        _pooling.floats(name, input)
