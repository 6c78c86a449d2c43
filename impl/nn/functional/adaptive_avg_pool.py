"""The ops ``adaptive_avg_pool1d``, ``adaptive_avg_pool2d`` and ``adaptive_avg_pool3d``.

They compute means over a given number of windows. ``_pooling`` makes the windows and the means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert_pullback
from impl.nn.functional import _pooling


@eager.compiled
def adaptive_avg_pool1d(input: Array, output_size: int | Sequence[int]) -> jax.Array:
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
        RuntimeError: Shapes or sizes do not fit; or the call is differentiated, the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.adaptive_avg_pool1d``. The spec's rows state what the mode does,
    and the guarantee.
    """
    return _adaptive(1, input, output_size)


@eager.compiled
def adaptive_avg_pool2d(input: Array, output_size: int | Sequence[int | None]) -> jax.Array:
    """Computes means as ``adaptive_avg_pool1d`` does, for shapes [N, C, H, W] and [C, H, W].

    ``output_size`` is an int for all dimensions, or one int for each. None in place of one of them
    keeps the size of the input.

    It raises as ``adaptive_avg_pool1d`` does, and a ValueError where ``input`` does not have more
    dimensions than ``output_size`` has sizes.

    Source: ``torch.nn.functional.adaptive_avg_pool2d``. The spec's rows state what the mode does,
    and the guarantee.
    """
    return _adaptive(2, input, output_size)


@eager.compiled
def adaptive_avg_pool3d(input: Array, output_size: int | Sequence[int | None]) -> jax.Array:
    """Computes means as ``adaptive_avg_pool2d`` does, for [N, C, D, H, W] and [C, D, H, W].

    Source: ``torch.nn.functional.adaptive_avg_pool3d``. The spec's rows state what the mode does,
    and the guarantee.
    """
    return _adaptive(3, input, output_size)


def _adaptive(dims: int, input: Any, output_size: Any) -> jax.Array:
    """Pools the last ``dims`` dimensions; the batch and the channels stay."""
    name = f"adaptive_avg_pool{dims}d"
    if dims > 1:
        _pooling.sizes_fit(name, input, output_size)
    input = _pooling.pooled(name, dims, input, channels_may_be_empty=True)
    _pooling.floats(name, input)
    tables = _pooling.adaptive(name, input.shape[-dims:], output_size, none_allowed=dims > 1)
    facts = arguments.facts(
        input,
        output_size_is_one=all(table.outputs == 1 for table in tables),
    )
    decision = decide(f"nn.functional.{name}", "backward", **facts)
    return alert_pullback(_pooling.mean_of_tables(input, tables), decision)
