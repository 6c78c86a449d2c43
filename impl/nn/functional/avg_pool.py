"""impl.nn.functional.avg_pool1d, avg_pool2d and avg_pool3d."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.window_table import WindowTable
from impl._mode.decide import decide
from impl._primitives.alert import alert_pullback
from impl.nn.functional import _pooling


def avg_pool1d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> jax.Array:
    """Means over windows.

    The sum of a window is multiplied by the rounded reciprocal of what it is to be divided by, and
    so is a gradient before it is added up. float16 and bfloat16 are computed in float32 and
    rounded once; integers are divided towards zero.

    Args:
        input: Shape [N, C, L] or [C, L], of floats or int32 or int64.
        kernel_size: Length of a window.
        stride: How far apart windows begin; None for ``kernel_size``.
        padding: How many zeros there are on both sides of the input; at most half of
            ``kernel_size``.
        ceil_mode: Whether a last window may reach beyond the padding, if it begins within the
            input or the padding before it.
        count_include_pad: Whether zeros of the padding count in what a sum is divided by; those
            beyond it never do.

    Returns:
        As ``input``, but for its length, the number of windows.

    Raises:
        NotImplementedError: ``input`` is of another dtype.
        RuntimeError: Shapes or sizes do not fit; or the gradient is asked for, the mode is on, and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.avg_pool1d``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    return _avg_pool(
        1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor=None
    )


def avg_pool2d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> jax.Array:
    """As ``avg_pool1d``, for shapes [N, C, H, W] and [C, H, W].

    ``kernel_size``, ``stride`` and ``padding`` are an int for all dimensions or one for each. A
    sum adds up the last dimension first, and a gradient the first. ``divisor_override`` is what
    every sum is divided by, unless None; not 0.

    Source: ``torch.nn.functional.avg_pool2d``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    return _avg_pool(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> jax.Array:
    """As ``avg_pool2d``, for shapes [N, C, D, H, W] and [C, D, H, W].

    The input must be at least as large as a window, without the padding.

    Source: ``torch.nn.functional.avg_pool3d``. What the mode does, and the guarantee, are in the
    spec's rows.
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
    """Any of them: ``dims`` dimensions are pooled, those before them are not."""
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
    tables = windows.tables(name, sizes)
    if divisor is not None:
        divisors: list[npt.NDArray[Any]] = [np.asarray([divisor])]
    elif count_include_pad:
        divisors = _lengths(windows, sizes, tables)
    else:
        divisors = [table.counts for table in tables]
    overlapping = _pooling.overlapping(tables)
    facts = arguments.facts(input, overlapping=overlapping)
    decision = decide(f"nn.functional.{name}", "backward", **facts)
    out = _pooling.mean(input, tables, divisors, decision=decision)
    return alert_pullback(out, decision)


def _lengths(
    windows: _pooling.Windows, sizes: Sequence[int], tables: Sequence[WindowTable]
) -> list[npt.NDArray[Any]]:
    """How many elements each window has along each dimension, zeros of the padding included."""
    lengths = []
    for dim, (size, table) in enumerate(zip(sizes, tables, strict=True)):
        starts = windows.starts(dim, table.outputs)
        stops = np.minimum(starts + windows.kernel[dim], size + windows.padding[dim])
        lengths.append(stops - starts)
    return lengths


def _check_dtype(name: str, input: jax.Array) -> None:
    # PyTorch takes integers of 64 bits, which are of 32 bits where x64 is off.
    if np.dtype(input.dtype) not in (np.int32, np.int64):
        _pooling.floats(name, input)
