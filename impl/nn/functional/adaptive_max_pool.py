"""The ops ``adaptive_max_pool1d``, ``adaptive_max_pool2d`` and ``adaptive_max_pool3d``.

They compute maxima over a given number of windows. ``_pooling`` makes the windows and the maxima.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from impl._core import eager
from impl._core.arguments import Array
from impl.nn.functional import _pooling
from impl.nn.functional._maxima import Spans


@eager.compiled
def adaptive_max_pool1d(
    input: Array, output_size: int | Sequence[int], return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Computes maxima over windows that divide the input as evenly as possible.

    Window ``i`` of ``n`` reads the elements from ``floor(i * L / n)`` up to, and without,
    ``ceil((i + 1) * L / n)``. Equal elements, NaNs and gradients are as in ``max_pool1d``.

    Args:
        input: Shape [N, C, L] or [C, L], floats.
        output_size: The number of windows.
        return_indices: Whether to return the indices of the maxima too.

    Returns:
        The maxima: shape [N, C, output_size] or [C, output_size], in the dtype of ``input``. With
        ``return_indices``, a pair of the maxima and their indices. An index counts the elements of
        a row; it is int64 (int32 where x64 is off).

    Raises:
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or sizes do not fit; or the call is differentiated, the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.

    Source: ``torch.nn.functional.adaptive_max_pool1d``. The spec's rows state what the mode does,
    and the guarantee.
    """
    return _adaptive(1, input, output_size, return_indices)


@eager.compiled
def adaptive_max_pool2d(
    input: Array, output_size: int | Sequence[int | None], return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Computes maxima as ``adaptive_max_pool1d`` does, for shapes [N, C, H, W] and [C, H, W].

    ``output_size`` is an int for all dimensions, or one int for each. None in place of one of them
    keeps the size of the input. An index counts the elements of a plane in row-major order.

    It raises as ``adaptive_max_pool1d`` does, and a ValueError where ``input`` does not have more
    dimensions than ``output_size`` has sizes.

    Source: ``torch.nn.functional.adaptive_max_pool2d``. The spec's rows state what the mode does,
    and the guarantee.
    """
    return _adaptive(2, input, output_size, return_indices)


@eager.compiled
def adaptive_max_pool3d(
    input: Array, output_size: int | Sequence[int | None], return_indices: bool = False
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Computes maxima as ``adaptive_max_pool2d`` does, for [N, C, D, H, W] and [C, D, H, W].

    Source: ``torch.nn.functional.adaptive_max_pool3d``. The spec's rows state what the mode does,
    and the guarantee.
    """
    return _adaptive(3, input, output_size, return_indices)


def _adaptive(
    dims: int, input: Any, output_size: Any, return_indices: Any
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Pools the last ``dims`` dimensions; the batch and the channels stay."""
    name = f"adaptive_max_pool{dims}d"
    if dims > 1:
        _pooling.sizes_fit(name, input, output_size)
    # As in PyTorch, the number of channels may be 0 if there is no batch.
    unbatched = np.ndim(input) == dims + 1
    input = _pooling.pooled(name, dims, input, channels_may_be_empty=unbatched)
    _pooling.floats(name, input)
    tables = _pooling.adaptive(name, input.shape[-dims:], output_size, none_allowed=dims > 1)
    spans = [
        Spans(tuple(table.index[:, 0].tolist()), tuple(table.counts.tolist())) for table in tables
    ]
    # Only the rows of adaptive_max_pool3d ask for it.
    facts = {"overlapping": any(table.overlapping for table in tables)} if dims == 3 else {}
    return _pooling.max_pool(name, input, spans, return_indices, **facts)
