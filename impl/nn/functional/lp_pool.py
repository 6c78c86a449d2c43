"""The ops ``lp_pool1d`` and ``lp_pool2d``: norms over windows.

A power, a mean over windows from ``_pooling``, and a root; for infinite powers, a maximum.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._mode.decide import decide
from impl._primitives.alert import alert_pullback
from impl.nn.functional import _pooling


@eager.compiled
def lp_pool1d(
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
        RuntimeError: Shapes or sizes do not fit; or the call is differentiated, the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ZeroDivisionError: ``norm_type`` is 0.

    Source: ``torch.nn.functional.lp_pool1d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@eager.compiled
def lp_pool2d(
    input: Array,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> jax.Array:
    """Computes what ``lp_pool1d`` does, for shapes [N, C, H, W] and [C, H, W].

    ``kernel_size`` and ``stride`` are an int for all dimensions, or one int for each.

    Source: ``torch.nn.functional.lp_pool2d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def _lp_pool(
    dims: int, input: Any, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: Any
) -> jax.Array:
    """Pools the last ``dims`` dimensions; the batch and the channels stay."""
    name = f"lp_pool{dims}d"
    input = _pooling.pooled(name, dims, input)
    _pooling.floats(name, input)
    power = _power(name, norm_type)
    windows = _pooling.Windows.of(
        name, dims, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode
    )
    sizes = input.shape[-dims:]
    lengths = windows.outputs(name, sizes)
    decision = decide(f"nn.functional.{name}", "backward", **arguments.facts(input))
    wide = convert(input, accumulator(input.dtype))
    if math.isinf(power):
        sign = math.copysign(1, power)
        out = sign * _pooling.greatest(sign * _magnitude(wide), windows.spans(lengths))[0]
    else:
        raised = _raised(wide, power)
        counts = windows.counts(sizes, lengths)
        divisors = [count / k for count, k in zip(counts, windows.kernel, strict=True)]
        out = _root(_pooling.mean(windows.sums(raised, lengths), divisors, wide.dtype), power)
    return alert_pullback(convert(out, input.dtype), decision)


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


def _power(name: str, norm_type: Any) -> float:
    if isinstance(norm_type, bool) or not isinstance(norm_type, numbers.Real):
        raise TypeError(
            f"{name}(): argument 'norm_type' must be a number, not {type(norm_type).__name__}"
        )
    if norm_type == 0:
        raise ZeroDivisionError(f"{name}(): norm_type must not be zero")
    return float(norm_type)
