"""The ops ``max_unpool1d``, ``max_unpool2d`` and ``max_unpool3d``: the inverses of max-pooling.

They write elements to the indices that max-pooling returned. If indices repeat, the last write
stays. With a kernel of 2:

    max_pool1d      [3, 7, 2, 5]                  ->  [7, 5], indices [1, 3]
    max_unpool1d    [7, 5], indices [1, 3]        ->  [0, 7, 0, 5]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.ops._indexing import assign


@eager.compiled
def max_unpool1d(
    input: Array,
    indices: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
    *,
    unique_indices: bool = False,
) -> jax.Array:
    """Writes each element to the index at which max-pooling found it; other elements are 0.

    Args:
        input: Shape [N, C, L] or [C, L], floats.
        indices: The index of each element in its row of the result, as max-pooling returns it: the
            shape of ``input``; int32 or int64; each in [0, length of the result). Under ``jit``,
            where values are unknown, elements of other indices are dropped.
        kernel_size: The kernel size of the pooling.
        stride: The stride of the pooling; None means ``kernel_size``.
        padding: The padding of the pooling.
        output_size: The length of the result, or its shape. The length differs from (L - 1) *
            ``stride`` + ``kernel_size`` - 2 * ``padding`` by less than ``stride``; None means
            that length.
        unique_indices: A promise that no index occurs twice in a row. The result then does not
            depend on the order of writes.

    Returns:
        An array of shape [N, C, length] or [C, length], in the dtype of ``input``. If several
        elements have the same index, only the one that stays has a gradient. (In PyTorch, all of
        them have it.)

    Raises:
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: An index is out of range; shapes or dtypes do not fit; or the mode is on and
            the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: ``output_size`` is too far from the length that None means.

    Source: ``torch.nn.functional.max_unpool1d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size, unique_indices)


@eager.compiled
def max_unpool2d(
    input: Array,
    indices: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
    *,
    unique_indices: bool = False,
) -> jax.Array:
    """Writes elements as ``max_unpool1d`` does, for shapes [N, C, H, W] and [C, H, W].

    An index counts the elements of a plane of the result in row-major order. ``kernel_size``,
    ``stride`` and ``padding`` are an int for all dimensions, or one int for each.

    Source: ``torch.nn.functional.max_unpool2d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size, unique_indices)


@eager.compiled
def max_unpool3d(
    input: Array,
    indices: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
    *,
    unique_indices: bool = False,
) -> jax.Array:
    """Writes elements as ``max_unpool1d`` does, for shapes [N, C, D, H, W] and [C, D, H, W].

    An index counts the elements of a volume of the result in row-major order. ``kernel_size``,
    ``stride`` and ``padding`` are an int for all dimensions, or one int for each.

    Source: ``torch.nn.functional.max_unpool3d``. The spec's rows state what the mode does, and the
    guarantee.
    """
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size, unique_indices)


def _unpool(
    dims: int,
    input: Array,
    indices: Array,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
    unique_indices: bool,
) -> jax.Array:
    """Unpools the last ``dims`` dimensions; the batch and the channels stay."""
    name = f"max_unpool{dims}d"
    op = f"nn.functional.{name}"
    input = arguments.array(name, "input", input)
    checked = arguments.index_array(name, indices, "indices")
    _check_input(name, dims, input, checked)
    size = _output_size(name, input.shape[-dims:], kernel_size, stride, padding, output_size)
    of = f"a result of size {'x'.join(map(str, size))}"
    arguments.index_range(name, indices, math.prod(size), None, name="indices", of=of)
    arguments.flag(name, "unique_indices", unique_indices)
    decision = decide(op, **arguments.facts(input, unique_indices=unique_indices))
    rows = (math.prod(input.shape[:-dims]), math.prod(input.shape[-dims:]), 1)
    out = assign(
        jnp.zeros((rows[0], math.prod(size), 1), input.dtype),
        # The alert is on the indices, because the gradient uses them too.
        alert(checked, decision).reshape(rows),
        input.reshape(rows),
        unique=unique_indices,
    )
    return out.reshape(*input.shape[:-dims], *size)


def _check_input(name: str, dims: int, input: jax.Array, indices: jax.Array) -> None:
    if arguments.dtype_kind(input.dtype) != "floating":
        raise NotImplementedError(
            f"{name}(): not implemented for {input.dtype} in argument 'input'; it takes floats"
        )
    if input.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"{name}(): Input should be a {dims + 1}d or {dims + 2}d array, but got shape "
            f"{list(input.shape)}"
        )
    if input.shape != indices.shape:
        raise RuntimeError(
            f"{name}(): Expected shape of indices to be same as that of the input "
            f"({list(input.shape)}) but got indices with shape: {list(indices.shape)}"
        )
    if 0 in input.shape[-dims - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got "
            f"{list(input.shape)}"
        )


def _output_size(
    name: str,
    lengths: tuple[int, ...],
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> tuple[int, ...]:
    """Returns the spatial sizes of the result: sizes that a pooling reduces to ``lengths``."""
    dims = len(lengths)
    kernel = arguments.integers(name, "kernel_size", kernel_size, dims)
    step = kernel if stride is None else arguments.integers(name, "stride", stride, dims)
    pad = arguments.integers(name, "padding", padding, dims)
    if min(step) <= 0:
        raise RuntimeError(
            f"{name}(): strides should be greater than zero, but got stride: {list(step)}"
        )
    default = tuple(
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(lengths, kernel, step, pad, strict=True)
    )
    size = default if output_size is None else _spatial_size(name, output_size, dims)
    for dim, (n, center, s) in enumerate(zip(size, default, step, strict=True)):
        if not center - s < n < center + s:
            raise ValueError(
                f'{name}(): invalid output_size "{size}" (dim {dim} must be between {center - s} '
                f"and {center + s})"
            )
    if min(size) < 0:
        raise ValueError(
            f"{name}(): output_size must contain non-negative spatial dimensions, but got "
            f"{list(size)}"
        )
    return size


def _spatial_size(name: str, output_size: Any, dims: int) -> tuple[int, ...]:
    if not isinstance(output_size, Sequence):
        raise TypeError(
            f"{name}(): argument 'output_size' must be a tuple of ints, not "
            f"{type(output_size).__name__}"
        )
    if len(output_size) not in (dims, dims + 2):
        raise ValueError(
            f"{name}(): output_size should be a sequence containing {dims} or {dims + 2} elements, "
            f"but it has a length of '{len(output_size)}'"
        )
    return arguments.integers(name, "output_size", output_size[-dims:], dims)
