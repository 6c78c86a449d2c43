"""impl.nn.functional.fractional_max_pool2d and fractional_max_pool3d."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import three_axes
from impl._core.numerics import accumulator, convert, fence
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl._primitives.arithmetic import multiply
from impl._primitives.gather import gather
from impl._primitives.windows import argmax_from
from impl.nn.functional import _pooling


def fractional_max_pool2d(
    input: Array,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Array | None = None,
    *,
    key: jax.Array | None = None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Maxima over windows that begin at random steps, of about the same length.

    Along a dimension of ``L`` elements, window ``i`` of ``n``, of ``k`` elements, begins at the
    integer part of ``(i + u) * a`` less that of ``u * a``, with ``a`` for ``(L - k) / (n - 1)``
    and ``u`` the random sample of the channel; the last one ends where the input does. This is
    computed in the dtype of ``input``, but for float16 and bfloat16 in float32, as PyTorch does on
    CUDA devices and not on CPUs.

    Of equal elements the first in row-major order is taken, and has the gradient; NaN is above
    every number, and of several the first is taken, not as in PyTorch the last. The gradient of an
    element that several windows take adds up in row-major order of the windows, in float32 or
    wider, and is rounded once.

    Args:
        input: Shape [N, C, H, W] or [C, H, W], of floats.
        kernel_size: Size of a window: an int for both dimensions or one for each.
        output_size: The number of windows, likewise; with ``kernel_size`` no more than the size
            of the input and 1.
        output_ratio: In place of it, what the size of the input is multiplied by and cut off to
            an integer: between 0 and 1, one or one for each dimension.
        return_indices: Whether to return beside the maxima where they are.
        _random_samples: Where windows begin: in [0, 1), shape [N or more, C, 2], of the dtype of
            ``input``, the sample of the last dimension first.
        key: A key of ``jax.random`` to draw them from, in place of them. PyTorch draws them from
            its hidden generator, which JAX has not: one of the two must be given.

    Returns:
        As ``input``, but for its size. The indices, int64 (int32 where x64 is off), count the
        elements of a plane in row-major order.

    Raises:
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes, sizes or dtypes do not fit; or the gradient is asked for, the mode is
            on, and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: Not just one of ``output_size`` and ``output_ratio``, or of ``key`` and
            ``_random_samples``, is given; or a ratio is not between 0 and 1.

    Source: ``torch.nn.functional.fractional_max_pool2d``. What the mode does, and the guarantee,
    are in the spec's rows.
    """
    return _fractional(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, key
    )


def fractional_max_pool3d(
    input: Array,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Array | None = None,
    *,
    key: jax.Array | None = None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """As ``fractional_max_pool2d``, for shapes [N, C, D, H, W] and [C, D, H, W].

    ``_random_samples`` has shape [N or more, C, 3], the sample of the first dimension first.
    ``output_size`` and ``kernel_size`` together are no more than the size of the input.

    Source: ``torch.nn.functional.fractional_max_pool3d``. What the mode does, and the guarantee,
    are in the spec's rows.
    """
    return _fractional(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, key
    )


def _fractional(
    dims: int,
    input: Any,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    return_indices: Any,
    random_samples: Any,
    key: Any,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Either of them: ``dims`` dimensions are pooled, those before them are not."""
    name = f"fractional_max_pool{dims}d"
    op = f"nn.functional.{name}"
    one = np.ndim(input) == dims + 1  # PyTorch lets one example have no channels
    input = _pooling.pooled(name, dims, input, channels_may_be_empty=one)
    _pooling.floats(name, input)
    sizes = input.shape[-dims:]
    kernel = arguments.integers(name, "kernel_size", kernel_size, dims)
    lengths = _lengths(name, sizes, output_size, output_ratio)
    _check_sizes(name, sizes, kernel, lengths)
    arguments.flag(name, "return_indices", return_indices)
    samples = _samples(name, dims, input, random_samples, key)
    if dims == 2:
        samples = samples[:, ::-1]  # there the last dimension's is first
    facts = arguments.facts(input)
    pullback = decide(op, "backward", **facts)
    lanes = _pooling.lanes(alert(input, decide(op, **facts)), dims)
    position = _positions(jax.lax.stop_gradient(lanes), kernel, lengths, samples)
    # All that is pooled is one axis: windows are not known where an order of theirs could be.
    flat = position.reshape(lanes.shape[0], math.prod(lengths), 1)
    out = gather(lanes.reshape(lanes.shape[0], math.prod(sizes), 1), flat, pullback=pullback)
    shape = (*input.shape[:-dims], *lengths)
    return (out.reshape(shape), position.reshape(shape)) if return_indices else out.reshape(shape)


def _positions(
    lanes: jax.Array, kernel: Sequence[int], lengths: Sequence[int], samples: jax.Array
) -> jax.Array:
    """Flat position of the greatest element of each window, shape [lanes, *lengths].

    Args:
        lanes: Shape [lanes, *sizes].
        kernel: Size of a window.
        lengths: The number of windows along each dimension.
        samples: Shape [lanes, dimensions].
    """
    sizes = lanes.shape[1:]
    places, out = [], lanes
    for dim in reversed(range(len(sizes))):
        start = _starts(samples[:, dim], sizes[dim], lengths[dim], kernel[dim])
        # Every element of the dimensions before is a lane of its own.
        each = jnp.repeat(start, math.prod(sizes[:dim]), axis=0)
        three = three_axes(out, 1 + dim)
        place = argmax_from(three, each, kernel[dim])
        out = jnp.take_along_axis(three, place, axis=1, mode="promise_in_bounds")
        shape = (*lanes.shape[: 1 + dim], *lengths[dim:])
        out = out.reshape(shape)
        places.append(place.reshape(shape))
    return _pooling.flat_position(places, sizes)


def _starts(sample: jax.Array, size: int, length: int, kernel: int) -> jax.Array:
    """Where windows begin, shape [lanes, length], by PyTorch's rule."""
    room = size - kernel
    last = jnp.full((sample.shape[0], min(length, 1)), room, jnp.int32)
    if length <= 1:
        return last
    number = sample.dtype.type
    alpha = jnp.full((1, 1), number(room) / number(length - 1), sample.dtype)
    position = jnp.arange(length - 1, dtype=sample.dtype)[None, :]

    def whole(value: jax.Array) -> jax.Array:
        return multiply(fence(value), alpha).astype(jnp.int32)

    start = whole(sample[:, None] + position) - whole(sample[:, None])
    # Samples that are none, as NaN, are to read nothing from outside.
    return jnp.concatenate([jnp.clip(start, 0, room), last], axis=1)


def _samples(name: str, dims: int, input: jax.Array, given: Any, key: Any) -> jax.Array:
    """A sample for each dimension of each lane, [lanes, dims], wide enough to compute with."""
    batch = input.shape[0] if input.ndim == dims + 2 else 1
    channels, wide = input.shape[-dims - 1], accumulator(input.dtype)
    if (given is None) == (key is None):
        raise ValueError(
            f"{name}(): JAX has no hidden random state: give either 'key', from jax.random.key, "
            f"or '_random_samples', of shape [{batch}, {channels}, {dims}]; got "
            + ("neither" if key is None else "both")
        )
    if key is not None:
        return jax.random.uniform(key, (batch * channels, dims), wide)
    samples = arguments.array(name, "_random_samples", given)
    if samples.dtype != input.dtype:
        raise RuntimeError(
            f"{name}(): expected _random_samples to have the dtype of input, {input.dtype}, but "
            f"got {samples.dtype}"
        )
    if samples.ndim != 3 or samples.shape[0] < batch or samples.shape[1:] != (channels, dims):
        raise RuntimeError(
            f"{name}(): expected _random_samples of shape [{batch} or more, {channels}, {dims}], "
            f"but got {list(samples.shape)}"
        )
    return convert(samples[:batch].reshape(batch * channels, dims), wide)


def _lengths(
    name: str, sizes: Sequence[int], output_size: Any, output_ratio: Any
) -> tuple[int, ...]:
    """The number of windows along each dimension."""
    dims = len(sizes)
    if (output_size is None) == (output_ratio is None):
        raise ValueError(
            f"{name}(): requires specifying either an output_size or an output_ratio, but got "
            + ("neither" if output_size is None else "both")
        )
    if output_size is not None:
        return arguments.integers(name, "output_size", output_size, dims)
    several = isinstance(output_ratio, Sequence) and not isinstance(output_ratio, str)
    ratios = output_ratio if several else (output_ratio,) * dims
    if len(ratios) != dims:
        raise ValueError(
            f"{name}(): requires output_ratio to be a number or {dims} of them, but got "
            f"{output_ratio!r}"
        )
    for ratio in ratios:
        if isinstance(ratio, bool) or not isinstance(ratio, numbers.Real):
            raise TypeError(
                f"{name}(): argument 'output_ratio' must be a number or {dims} of them, not "
                f"{type(ratio).__name__}"
            )
        if not 0 < float(ratio) < 1:
            raise ValueError(f"{name}(): output_ratio must be between 0 and 1 (got {output_ratio})")
    return tuple(int(size * float(ratio)) for size, ratio in zip(sizes, ratios, strict=True))


def _check_sizes(
    name: str, sizes: Sequence[int], kernel: Sequence[int], lengths: Sequence[int]
) -> None:
    if min(kernel) <= 0:
        raise RuntimeError(
            f"{name}(): kernel_size should be greater than zero, but got {list(kernel)}"
        )
    if min(lengths) < 0:
        raise RuntimeError(
            f"{name}(): elements of output_size must be greater than or equal to 0, but got "
            f"{list(lengths)}"
        )
    # PyTorch's kernel for volumes has the stricter bound.
    spare = 1 if len(sizes) == 2 else 0
    for size, k, n in zip(sizes, kernel, lengths, strict=True):
        if n + k > size + spare:
            raise RuntimeError(
                f"{name}(): kernel_size {list(kernel)} is too large for an input of size "
                f"{list(sizes)} and an output of size {list(lengths)}: their sum must be at most "
                "the input's size" + " and 1" * spare
            )
