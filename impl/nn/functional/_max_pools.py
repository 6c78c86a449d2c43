"""The ops ``fractional_max_pool2d`` and ``fractional_max_pool3d``.

Random samples decide the windows when the program runs, so no static table describes them. The
gradient is a scatter, the transpose of a gather. Along each dimension, windows begin at rounded
multiples of a fraction, shifted by the sample (B. Graham, "Fractional Max-Pooling", 2014,
arXiv:1412.6071). For 7 elements and 4 windows of 2 elements, windows are (7 - 2) / 3 apart::

    operand        [3., 7., 2., 5., 1., 6., 4.]
    sample 0.0     windows begin at 0, 1, 3, 5      maxima [7., 7., 5., 6.]   indices [1, 1, 3, 5]
    sample 0.3                      0, 2, 3, 5             [7., 5., 5., 6.]           [1, 3, 3, 5]
    sample 0.5                      0, 2, 4, 5             [7., 5., 6., 6.]           [1, 3, 5, 5]
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert, fence, isolate
from impl._mode.decide import decide
from impl._primitives.alert import alert, alert_pullback
from impl.nn.functional import _maxima, _pooling
from impl.nn.functional._maxima import Spans


@eager.compiled
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
    """Computes maxima over windows whose distances are random, and nearly equal.

    A dimension of ``L`` elements has ``n`` windows of ``k`` elements. ``u`` is the random sample of
    a channel, and ``a`` is ``(L - k) / (n - 1)``. Window ``i`` begins at ``int((i + u) * a) -
    int(u * a)``; the last window ends at the end of the input. The computation is in the dtype of
    ``input``; in float32 for float16 and bfloat16, as on PyTorch's CUDA devices (on a CPU, PyTorch
    computes in the narrow dtype).

    The first of equal elements, in row-major order, is the maximum and has the gradient. NaN is
    greater than every number; the first NaN is the maximum (in PyTorch, the last). If an element is
    the maximum of several windows, its gradient adds their cotangents in row-major order of the
    windows, in float32 or wider, and is rounded once.

    Args:
        input: Shape [N, C, H, W] or [C, H, W], floats.
        kernel_size: The size of a window: an int for both dimensions, or one int for each.
        output_size: The number of windows: an int for both dimensions, or one int for each. The
            sum of ``output_size`` and ``kernel_size`` is at most the size of the input plus 1.
        output_ratio: Replaces ``output_size``: the number of windows is the integer part of the
            size of the input times this ratio. Between 0 and 1; one number, or one for each
            dimension.
        return_indices: Whether to return the indices of the maxima too.
        _random_samples: The random samples: shape [N or more, C, 2], each in [0, 1), in the dtype
            of ``input``. The sample of the last dimension comes first.
        key: A key of ``jax.random`` that draws the random samples. PyTorch draws them from its
            hidden generator. JAX has none, so the call needs ``key`` or ``_random_samples``.

    Returns:
        The maxima: shape [N, C, rows, columns] or [C, rows, columns], the numbers of windows; in
        the dtype of ``input``. With ``return_indices``, a pair of the maxima and their indices. An
        index counts the elements of a plane in row-major order; it is int64 (int32 where x64 is
        off).

    Raises:
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes, sizes or dtypes do not fit; or the call is differentiated, the mode
            is on and the profile has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: Both or neither of ``output_size`` and ``output_ratio`` are given, or both or
            neither of ``key`` and ``_random_samples``; or a ratio is not between 0 and 1.

    Source: ``torch.nn.functional.fractional_max_pool2d``. The spec's rows state what the mode
    does, and the guarantee.
    """
    return _fractional(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, key
    )


@eager.compiled
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
    """Computes maxima as ``fractional_max_pool2d`` does, for [N, C, D, H, W] and [C, D, H, W].

    ``_random_samples`` has shape [N or more, C, 3]; the sample of the first dimension comes first.
    The sum of ``output_size`` and ``kernel_size`` is at most the size of the input.

    Source: ``torch.nn.functional.fractional_max_pool3d``. The spec's rows state what the mode
    does, and the guarantee.
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
    """Pools the last ``dims`` dimensions; the batch and the channels stay."""
    name = f"fractional_max_pool{dims}d"
    op = f"nn.functional.{name}"
    # As in PyTorch, the number of channels may be 0 if there is no batch.
    unbatched = np.ndim(input) == dims + 1
    input = _pooling.pooled(name, dims, input, channels_may_be_empty=unbatched)
    _pooling.floats(name, input)
    sizes = input.shape[-dims:]
    kernel = arguments.integers(name, "kernel_size", kernel_size, dims)
    lengths = _lengths(name, sizes, output_size, output_ratio)
    _check_sizes(name, sizes, kernel, lengths)
    arguments.flag(name, "return_indices", return_indices)
    samples = _samples(name, dims, input, random_samples, key)
    if dims == 2:
        samples = samples[:, ::-1]  # The caller's samples begin with the last dimension.
    facts = arguments.facts(input)
    pullback = decide(op, "backward", **facts)
    lanes = _pooling.lanes(alert(input, decide(op, **facts)), dims)
    samples = isolate(samples)
    spans = [
        Spans(_starts(samples[:, dim], sizes[dim], n, kernel[dim]), (kernel[dim],) * n)
        for dim, n in enumerate(lengths)
    ]
    out, position = _maxima.greatest(lanes, spans)
    shape = (*input.shape[:-dims], *lengths)
    out = alert_pullback(out.reshape(shape), pullback)
    position = position.astype(jnp.result_type(int)).reshape(shape)
    return (out, position) if return_indices else out


def _starts(sample: jax.Array, size: int, length: int, kernel: int) -> jax.Array:
    """Returns the first index of each window by PyTorch's rule, shape [lanes, length]."""
    greatest = size - kernel
    last = jnp.full((sample.shape[0], min(length, 1)), greatest, jnp.int32)
    if length <= 1:
        return last
    number = sample.dtype.type
    alpha = jnp.full((1, 1), number(greatest) / number(length - 1), sample.dtype)
    position = jnp.arange(length - 1, dtype=sample.dtype)[None, :]

    def steps(value: jax.Array) -> jax.Array:
        return (fence(value) * alpha).astype(jnp.int32)

    start = steps(sample[:, None] + position) - steps(sample[:, None])
    # A sample outside [0, 1), such as NaN, must not read outside the input.
    return jnp.concatenate([jnp.clip(start, 0, greatest), last], axis=1)


def _samples(name: str, dims: int, input: jax.Array, random_samples: Any, key: Any) -> jax.Array:
    """Returns a sample for each dimension of each lane, [lanes, dims], in float32 or wider."""
    batch = input.shape[0] if input.ndim == dims + 2 else 1
    channels, wide = input.shape[-dims - 1], accumulator(input.dtype)
    if (random_samples is None) == (key is None):
        raise ValueError(
            f"{name}(): JAX has no hidden random state: give either 'key', from jax.random.key, "
            f"or '_random_samples', of shape [{batch}, {channels}, {dims}]; got "
            + ("neither" if key is None else "both")
        )
    if key is not None:
        return jax.random.uniform(key, (batch * channels, dims), wide)
    samples = arguments.array(name, "_random_samples", random_samples)
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
    """Returns the number of windows along each dimension."""
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
    # PyTorch's bound is stricter for three dimensions than for two.
    extra = 1 if len(sizes) == 2 else 0
    for size, k, n in zip(sizes, kernel, lengths, strict=True):
        if n + k > size + extra:
            raise RuntimeError(
                f"{name}(): kernel_size {list(kernel)} is too large for an input of size "
                f"{list(sizes)} and an output of size {list(lengths)}: their sum must be at most "
                "the input's size" + " and 1" * extra
            )
