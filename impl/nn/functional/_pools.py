"""The pools that add: ``avg_pool1d`` to ``avg_pool3d``, the adaptive ones, and ``lp_pool``.

An average multiplies the sum of a window by the rounded reciprocal of its divisor. ``lp_pool`` is a
power, a mean over windows, and a root; for infinite powers, a maximum.

For example, of x = [[1., 2., 3., 4., 5.]]::

    avg_pool1d(x, 3, 2, 1)                            [[1., 3., 3.]]
    avg_pool1d(x, 3, 2, 1, count_include_pad=False)   [[1.5, 3., 4.5]]
    adaptive_avg_pool1d(x, 2)                         [[2., 4.]]
    lp_pool1d(x, 2., 2)                               [[2.236068, 5.]]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._mode.alert import alert_pullback
from impl._mode.decide import decide
from impl.nn.functional import _maxima, _windows
from impl.ops._op import for_dims, op


@op("torch.nn.functional.avg_pool1d")
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
        RuntimeError: Shapes or sizes do not fit.
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def _avg_pool(
    dims: int,
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
    """
    name = f"avg_pool{dims}d"
    input = _windows.pooled(name, dims, input)
    # PyTorch accepts int64. JAX converts it to int32 where x64 is off.
    if np.dtype(input.dtype) not in (np.int32, np.int64):
        arguments.check_kind(name, input.dtype, "floating", name="input")
    arguments.flags(name, count_include_pad=count_include_pad)
    override = divisor_override
    if override is not None and arguments.integer(name, "divisor_override", override) == 0:
        raise RuntimeError(f"{name}(): divisor_override must be not zero")
    windows = _windows.Windows.of(name, dims, kernel_size, stride, padding, ceil_mode=ceil_mode)
    sizes = input.shape[-dims:]
    if dims == 3 and any(n < k for n, k in zip(sizes, windows.kernel, strict=True)):
        raise RuntimeError(
            f"{name}(): an input of size {list(sizes)} is smaller than kernel_size "
            f"{list(windows.kernel)}; pad it beforehand"
        )
    lengths = windows.outputs(name, sizes)
    if override is not None:
        divisors: list[npt.NDArray[Any]] = [np.asarray([override])]
    else:
        divisors = [*windows.counts(sizes, lengths, padding=count_include_pad)]
    decision = decide(f"nn.functional.{name}", "backward", **arguments.facts(input))
    total = windows.sums(convert(input, accumulator(input.dtype)), lengths)
    return alert_pullback(_windows.mean(total, divisors, input.dtype), decision)


avg_pool2d, avg_pool3d = for_dims(
    _avg_pool, (2, 3), "Without the padding, the input must be at least as large as a window."
)


def _adaptive_avg_pool(  # noqa: D417  # The ops have no ``dims``.
    dims: int, input: Array, output_size: int | Sequence[int | None]
) -> jax.Array:
    """Computes means over windows that divide the input as evenly as possible.

    Window ``i`` of ``n`` reads the elements from ``floor(i * L / n)`` up to, and without,
    ``ceil((i + 1) * L / n)``. Sums and gradients are computed as in ``avg_pool1d``.

    Args:
        input: Shape [N, C, L] or [C, L], floats.
        output_size: The number of windows.

    Returns:
        An array of shape [N, C, output_size] or [C, output_size], in the dtype of ``input``.

    Raises:
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or sizes do not fit.
    """
    name = f"adaptive_avg_pool{dims}d"
    if dims > 1:
        _windows.sizes_fit(name, input, output_size)
    input = _windows.pooled(name, dims, input, channels_may_be_empty=True)
    arguments.check_kind(name, input.dtype, "floating", name="input")
    tables = _windows.adaptive(name, input.shape[-dims:], output_size, none_allowed=dims > 1)
    facts = arguments.facts(input, output_size_is_one=all(table.outputs == 1 for table in tables))
    decision = decide(f"nn.functional.{name}", "backward", **facts)
    return alert_pullback(_windows.mean_of_tables(input, tables), decision)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = for_dims(
    _adaptive_avg_pool,
    (1, 2, 3),
    """``output_size`` is an int for all dimensions, or one int for each. None in place of one of
    them keeps the size of the input.

    It raises as ``adaptive_avg_pool1d`` does, and a ValueError where ``input`` does not have
    more dimensions than ``output_size`` has sizes.
    """,
)


def _lp_pool(  # noqa: D417  # The ops have no ``dims``.
    dims: int,
    input: Array,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> jax.Array:
    """Computes the p-th root of the sum of the p-th powers of each window.

    As in PyTorch, this takes powers of the elements, not of their absolute values: an odd power
    keeps the sign, the root of a negative sum is NaN, and so is a fractional power of a negative
    element. If a window ends beyond the input, its sum is multiplied by ``kernel_size`` and divided
    by the number of elements that it reads. float16 and bfloat16 are computed in float32 and
    rounded once.

    Args:
        input: Shape [N, C, L] or [C, L], floats.
        norm_type: The power p, not 0. Infinity computes the greatest absolute value, minus
            infinity the least; of equal values, the one of the lowest index has the gradient.
        kernel_size: The number of elements of a window.
        stride: The distance between the starts of two windows; None means ``kernel_size``.
        ceil_mode: Whether a last window that begins in the input may end beyond it.

    Returns:
        An array of shape [N, C, windows] or [C, windows], in the dtype of ``input``. Its gradient
        is 0 if the sum is 0.

    Raises:
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or sizes do not fit.
        ZeroDivisionError: ``norm_type`` is 0.
    """
    name = f"lp_pool{dims}d"
    input = _windows.pooled(name, dims, input)
    arguments.check_kind(name, input.dtype, "floating", name="input")
    power = arguments.real(name, "norm_type", norm_type)
    if power == 0:
        raise ZeroDivisionError(f"{name}(): norm_type must not be zero")
    windows = _windows.Windows.of(name, dims, kernel_size, stride, ceil_mode=ceil_mode)
    sizes = input.shape[-dims:]
    lengths = windows.outputs(name, sizes)
    decision = decide(f"nn.functional.{name}", "backward", **arguments.facts(input))
    wide = convert(input, accumulator(input.dtype))
    if math.isinf(power):
        sign = math.copysign(1, power)
        out = sign * _maxima.greatest(sign * _magnitude(wide), windows.spans(lengths))[0]
    else:
        raised = _raised(wide, power)
        counts = windows.counts(sizes, lengths)
        divisors = [count / k for count, k in zip(counts, windows.kernel, strict=True)]
        out = _root(_windows.mean(windows.sums(raised, lengths), divisors, wide.dtype), power)
    return alert_pullback(convert(out, input.dtype), decision)


lp_pool1d, lp_pool2d = for_dims(
    _lp_pool,
    (1, 2),
    "``kernel_size`` and ``stride`` are an int for all dimensions, or one int for each.",
)


def _root(total: jax.Array, power: float) -> jax.Array:
    """Returns the root of each sum. Its gradient at 0 is 0; a plain root's is infinite."""
    zero = total == 0
    safe = jnp.where(zero, 1, total)
    root = jnp.sqrt(safe) if power == 2 else _raised(safe, 1 / power)
    return jnp.where(zero, 0 if power > 0 else jnp.inf, root)


def _magnitude(value: jax.Array) -> jax.Array:
    """Returns the absolute value. Its gradient is 0 where the value is 0 or NaN."""
    zero_or_nan = jnp.abs(jax.lax.stop_gradient(value))
    return jnp.where(value > 0, value, jnp.where(value < 0, -value, zero_or_nan))


def _raised(value: jax.Array, power: float) -> jax.Array:
    return jnp.power(value, int(power) if power.is_integer() else power)
