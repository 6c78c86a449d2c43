"""Pools that take maxima, of windows that are fixed, adaptive or fractional; and ``max_unpool``.

Windows of ``fractional_max_pool`` begin at rounded multiples of a fraction, shifted by a random
sample, which decides them when the program runs (B. Graham, "Fractional Max-Pooling", 2014,
arXiv:1412.6071). For 7 elements and 4 windows of 2 elements, windows are (7 - 2) / 3 apart::

    operand        [3., 7., 2., 5., 1., 6., 4.]
    sample 0.0     windows begin at 0, 1, 3, 5      maxima [7., 7., 5., 6.]   indices [1, 1, 3, 5]
    sample 0.3                      0, 2, 3, 5             [7., 5., 5., 6.]           [1, 3, 3, 5]
    sample 0.5                      0, 2, 4, 5             [7., 5., 6., 6.]           [1, 3, 5, 5]

``max_unpool`` writes elements to the indices that a pool returned; the last write of an index
stays::

    max_pool1d      [3, 7, 2, 5], kernel 2        ->  [7, 5], indices [1, 3]
    max_unpool1d    [7, 5], indices [1, 3]        ->  [0, 7, 0, 5]
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import spec
from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert, fence, isolate
from impl._mode.alert import alert, alert_pullback
from impl._mode.decide import decide
from impl.nn.functional import _maxima, _windows
from impl.nn.functional._maxima import Spans
from impl.ops._indexing import assign
from impl.ops._op import for_dims


def _max_pool(  # noqa: D417  # The ops have no ``dims``.
    dims: int,
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Computes maxima over windows.

    The first of equal elements is the maximum and has the gradient. NaN is greater than every
    number; the first NaN is the maximum (in PyTorch, the last). If an element is the maximum of
    several windows, its gradient adds their cotangents in float32 or wider, and is rounded once.

    Args:
        input: Shape [N, C, L] or [C, L], floats or integers.
        kernel_size: The number of elements of a window.
        stride: The distance between the starts of two windows; None means ``kernel_size``.
        padding: The length that windows may reach beyond each end of the input; at most half of
            ``kernel_size``. Elements of the padding are never the maximum.
        dilation: The distance between two elements of a window.
        ceil_mode: Whether a last window may end beyond the padding. It must begin in the input or
            in the padding before it.
        return_indices: Whether to return the indices of the maxima too.

    Returns:
        The maxima: shape [N, C, windows] or [C, windows], in the dtype of ``input``. With
        ``return_indices``, a pair of the maxima and their indices. An index counts the elements of
        a row; it is int64 (int32 where x64 is off). With a dilation, a window may read no element
        at all: its maximum is then minus infinity, or the least integer, and its index is -1.

    Raises:
        NotImplementedError: ``input`` is of another dtype.
        RuntimeError: Shapes or sizes do not fit.
    """
    name = f"max_pool{dims}d"
    input = _windows.pooled(name, dims, input)
    if arguments.dtype_kind(input.dtype) != "integer":
        arguments.check_kind(name, input.dtype, "floating", name="input")
    windows = _windows.Windows.of(name, dims, kernel_size, stride, padding, dilation, ceil_mode)
    spans = windows.spans(windows.outputs(name, input.shape[-dims:]))
    # Only the rows of max_pool3d ask for it.
    facts = {"returns_indices": return_indices} if dims == 3 else {}
    return _maxima_with_alerts(name, input, spans, return_indices, **facts)


max_pool1d, max_pool2d, max_pool3d = for_dims(
    _max_pool,
    (1, 2, 3),
    """``kernel_size``, ``stride``, ``padding`` and ``dilation`` are an int for all dimensions, or
    one int for each. An index counts the elements of a plane in row-major order; the first of
    equal elements is the first in this order. A gradient adds along the first dimension first.
    """,
)


def _adaptive_max_pool(  # noqa: D417  # The ops have no ``dims``.
    dims: int, input: Array, output_size: int | Sequence[int | None], return_indices: bool = False
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
        RuntimeError: Shapes or sizes do not fit.
    """
    name = f"adaptive_max_pool{dims}d"
    if dims > 1:
        _windows.sizes_fit(name, input, output_size)
    # As in PyTorch, the number of channels may be 0 if there is no batch.
    unbatched = np.ndim(input) == dims + 1
    input = _windows.pooled(name, dims, input, channels_may_be_empty=unbatched)
    arguments.check_kind(name, input.dtype, "floating", name="input")
    tables = _windows.adaptive(name, input.shape[-dims:], output_size, none_allowed=dims > 1)
    spans = [
        Spans(tuple(table.index[:, 0].tolist()), tuple(table.counts.tolist())) for table in tables
    ]
    # Only the rows of adaptive_max_pool3d ask for it.
    facts = {"overlapping": any(table.overlapping for table in tables)} if dims == 3 else {}
    return _maxima_with_alerts(name, input, spans, return_indices, **facts)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = for_dims(
    _adaptive_max_pool,
    (1, 2, 3),
    """``output_size`` is an int for all dimensions, or one int for each. None in place of one of
    them keeps the size of the input. An index counts the elements of a plane in row-major
    order.

    It raises as ``adaptive_max_pool1d`` does, and a ValueError where ``input`` does not have
    more dimensions than ``output_size`` has sizes.
    """,
)


def _fractional_max_pool(  # noqa: D417  # The ops have no ``dims``.
    dims: int,
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
        RuntimeError: Shapes, sizes or dtypes do not fit.
        ValueError: Both or neither of ``output_size`` and ``output_ratio`` are given, or both or
            neither of ``key`` and ``_random_samples``; or a ratio is not between 0 and 1.
    """
    name = f"fractional_max_pool{dims}d"
    # As in PyTorch, the number of channels may be 0 if there is no batch.
    unbatched = np.ndim(input) == dims + 1
    input = _windows.pooled(name, dims, input, channels_may_be_empty=unbatched)
    arguments.check_kind(name, input.dtype, "floating", name="input")
    sizes = input.shape[-dims:]
    kernel = arguments.integers(name, "kernel_size", kernel_size, dims)
    lengths = _lengths(name, sizes, output_size, output_ratio)
    _check_sizes(name, sizes, kernel, lengths)
    samples = isolate(_samples(name, dims, input, _random_samples, key))
    if dims == 2:
        samples = samples[:, ::-1]  # The caller's samples begin with the last dimension.
    spans = [
        Spans(_starts(samples[:, dim], sizes[dim], n, kernel[dim]), (kernel[dim],) * n)
        for dim, n in enumerate(lengths)
    ]
    return _maxima_with_alerts(name, input, spans, return_indices)


fractional_max_pool2d, fractional_max_pool3d = for_dims(
    _fractional_max_pool,
    (2, 3),
    """``_random_samples`` has shape [N or more, C, 3]; the sample of the first dimension comes
    first. The sum of ``output_size`` and ``kernel_size`` is at most the size of the input.
    """,
)


def _maxima_with_alerts(
    function: str,
    input: jax.Array,
    spans: Sequence[Spans],
    return_indices: Any,
    **facts: spec.FactValue,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Computes the maxima of a max-pooling op, and their flat indices if the caller wants them.

    ``facts`` are further facts of the call, which only the rows of some of the ops ask for.
    """
    arguments.flags(function, return_indices=return_indices)
    op = f"nn.functional.{function}"
    stated = arguments.facts(input, **facts)
    input = alert(input, decide(op, **stated))
    out, position = _maxima.greatest(input, spans)
    out = alert_pullback(out, decide(op, "backward", **stated))
    return (out, position.astype(jnp.result_type(int))) if return_indices else out


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
            taken = f"a number or {dims} of them"
            raise arguments.wrong_type(name, "output_ratio", taken, ratio)
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


def _max_unpool(  # noqa: D417  # The ops have no ``dims``.
    dims: int,
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
        RuntimeError: An index is out of range; or shapes or dtypes do not fit.
        ValueError: ``output_size`` is too far from the length that None means.
    """
    name = f"max_unpool{dims}d"
    op = f"nn.functional.{name}"
    input = arguments.array(name, "input", input)
    checked = arguments.index_array(name, indices, "indices")
    _check_unpool(name, dims, input, checked)
    size = _output_size(name, input.shape[-dims:], kernel_size, stride, padding, output_size)
    of = f"a result of size {'x'.join(map(str, size))}"
    arguments.index_range(name, indices, math.prod(size), None, name="indices", of=of)
    arguments.flags(name, unique_indices=unique_indices)
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


max_unpool1d, max_unpool2d, max_unpool3d = for_dims(
    _max_unpool,
    (1, 2, 3),
    """``kernel_size``, ``stride`` and ``padding`` are an int for all dimensions, or one int for
    each. An index counts the elements of a plane, or a volume, of the result in row-major
    order.
    """,
)


def _check_unpool(name: str, dims: int, input: jax.Array, indices: jax.Array) -> None:
    arguments.check_kind(name, input.dtype, "floating", name="input")
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
        raise arguments.wrong_type(name, "output_size", "a tuple of ints", output_size)
    if len(output_size) not in (dims, dims + 2):
        raise ValueError(
            f"{name}(): output_size should be a sequence containing {dims} or {dims + 2} elements, "
            f"but it has a length of '{len(output_size)}'"
        )
    return arguments.integers(name, "output_size", output_size[-dims:], dims)
