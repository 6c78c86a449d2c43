"""impl.nn.functional.adaptive_avg_pool1d, adaptive_avg_pool2d and adaptive_avg_pool3d."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from impl._core import arguments
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert_pullback
from impl.nn.functional import _pooling


def adaptive_avg_pool1d(input: Array, output_size: int | Sequence[int]) -> jax.Array:
    """Means over windows that divide the input as evenly as can be.

    Window ``i`` of ``n`` reads from the floor of ``i * L / n`` to before the ceiling of
    ``(i + 1) * L / n``. Sums and gradients are computed as in ``avg_pool1d``.

    Args:
        input: Shape [N, C, L] or [C, L], of floats.
        output_size: The number of windows.

    Returns:
        As ``input``, but for its length, ``output_size``.

    Raises:
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or sizes do not fit; or the gradient is asked for, the mode is on, and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.adaptive_avg_pool1d``. What the mode does, and the guarantee, are
    in the spec's rows.
    """
    return _adaptive(1, input, output_size)


def adaptive_avg_pool2d(input: Array, output_size: int | Sequence[int | None]) -> jax.Array:
    """As ``adaptive_avg_pool1d``, for shapes [N, C, H, W] and [C, H, W].

    ``output_size`` is an int for all dimensions or one for each, of which None stands for the size
    of the input.

    Source: ``torch.nn.functional.adaptive_avg_pool2d``. What the mode does, and the guarantee, are
    in the spec's rows.
    """
    return _adaptive(2, input, output_size)


def adaptive_avg_pool3d(input: Array, output_size: int | Sequence[int | None]) -> jax.Array:
    """As ``adaptive_avg_pool2d``, for shapes [N, C, D, H, W] and [C, D, H, W].

    Source: ``torch.nn.functional.adaptive_avg_pool3d``. What the mode does, and the guarantee, are
    in the spec's rows.
    """
    return _adaptive(3, input, output_size)


def _adaptive(dims: int, input: Any, output_size: Any) -> jax.Array:
    """Any of them: ``dims`` dimensions are pooled, those before them are not."""
    name = f"adaptive_avg_pool{dims}d"
    input = _pooling.pooled(name, dims, input, channels_may_be_empty=True)
    _pooling.floats(name, input)
    tables = _pooling.adaptive(name, input.shape[-dims:], output_size, none_allowed=dims > 1)
    facts = arguments.facts(
        input,
        overlapping=_pooling.overlapping(tables),
        output_size_is_one=all(table.outputs == 1 for table in tables),
    )
    decision = decide(f"nn.functional.{name}", "backward", **facts)
    counts = [table.counts for table in tables]
    return alert_pullback(_pooling.mean(input, tables, counts, decision=decision), decision)
