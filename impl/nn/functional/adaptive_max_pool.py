"""impl.nn.functional.adaptive_max_pool1d, adaptive_max_pool2d and adaptive_max_pool3d."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from impl._core.arguments import Array
from impl.nn.functional import _pooling


def adaptive_max_pool1d(
    input: Array, output_size: int | Sequence[int], return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Maxima over windows that divide the input as evenly as can be.

    Window ``i`` of ``n`` reads from the floor of ``i * L / n`` to before the ceiling of
    ``(i + 1) * L / n``. Which element is taken, and how gradients add up, is as in ``max_pool1d``.

    Args:
        input: Shape [N, C, L] or [C, L], of floats.
        output_size: The number of windows.
        return_indices: Whether to return beside the maxima where they are.

    Returns:
        As ``input``, but for its length, ``output_size``. The indices, int64 (int32 where x64 is
        off), count the elements of a row.

    Raises:
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or sizes do not fit; or the gradient is asked for, the mode is on, and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.adaptive_max_pool1d``. What the mode does, and the guarantee, are
    in the spec's rows.
    """
    return _adaptive(1, input, output_size, return_indices)


def adaptive_max_pool2d(
    input: Array, output_size: int | Sequence[int | None], return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """As ``adaptive_max_pool1d``, for shapes [N, C, H, W] and [C, H, W].

    ``output_size`` is an int for all dimensions or one for each, of which None stands for the size
    of the input. Indices count the elements of a plane in row-major order.

    Source: ``torch.nn.functional.adaptive_max_pool2d``. What the mode does, and the guarantee, are
    in the spec's rows.
    """
    return _adaptive(2, input, output_size, return_indices)


def adaptive_max_pool3d(
    input: Array, output_size: int | Sequence[int | None], return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """As ``adaptive_max_pool2d``, for shapes [N, C, D, H, W] and [C, D, H, W].

    Source: ``torch.nn.functional.adaptive_max_pool3d``. What the mode does, and the guarantee, are
    in the spec's rows.
    """
    return _adaptive(3, input, output_size, return_indices)


def _adaptive(
    dims: int, input: Any, output_size: Any, return_indices: Any
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Any of them: ``dims`` dimensions are pooled, those before them are not."""
    name = f"adaptive_max_pool{dims}d"
    one = np.ndim(input) == dims + 1  # PyTorch lets one example have no channels
    input = _pooling.pooled(name, dims, input, channels_may_be_empty=one)
    _pooling.floats(name, input)
    tables = _pooling.adaptive(name, input.shape[-dims:], output_size, none_allowed=dims > 1)
    return _pooling.max_pool(name, input, tables, return_indices)
