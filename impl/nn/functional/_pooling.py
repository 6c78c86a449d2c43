"""The part that pooling ops share: checks of arguments, windows, means and maxima.

Adaptive pooling and ``interpolate`` use functions of this module too. For a kernel of 3, a stride
of 2 and a padding of 1::

    operand           [3., 7., 2., 5., 1.]
    windows           [0, 3., 7.]  [7., 2., 5.]  [5., 1., 0]
    maxima            [7., 7., 5.]                            at the flat positions [1, 1, 3]
    means             [10 / 3, 14 / 3, 6 / 3]                 divisors count the padding,
                      [10 / 2, 14 / 3, 6 / 2]                 or the elements alone
    adaptive, to 2    [0, 1, 2]  [2, 3, 4]                    windows as even as possible
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import spec
from impl._core import arguments
from impl._core.numerics import accumulator, convert
from impl._mode.decide import decide
from impl._primitives.alert import alert, alert_pullback
from impl.nn.functional import _maxima, _windows
from impl.nn.functional._maxima import Spans
from impl.nn.functional._windows import WindowTable


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows of a fixed size; each tuple has one element for each dimension.

    Attributes:
        kernel: The number of elements of a window.
        stride: The distance between the starts of two windows.
        padding: The length of the padding on each side of the input.
        dilation: The distance between two elements of a window.
        ceil_mode: Whether a last window may end beyond the padding. It must begin in the input or
            in the padding before it.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool

    @classmethod
    def of(
        cls,
        function: str,
        dims: int,
        *,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: Any = False,
    ) -> Windows:
        """Makes windows from the arguments of a pool: an int for all dimensions, or one for each.

        Raises:
            RuntimeError: The number of ints is not the number of dimensions; a kernel, a stride or
                a dilation is not positive; or a padding is negative or exceeds half the kernel.
            TypeError: One of them is not an int, or ``ceil_mode`` is not a bool.
        """
        kernel = _each(function, "kernel_size", kernel_size, dims)
        omitted = stride is None or (isinstance(stride, Sequence) and len(stride) == 0)
        step = kernel if omitted else _each(function, "stride", stride, dims)
        pad = _each(function, "padding", padding, dims)
        distance = _each(function, "dilation", dilation, dims)
        arguments.flag(function, "ceil_mode", ceil_mode)
        for name, values in (("kernel_size", kernel), ("stride", step), ("dilation", distance)):
            if min(values) <= 0:
                raise RuntimeError(
                    f"{function}(): {name} should be greater than zero, but got {list(values)}"
                )
        if min(pad) < 0:
            raise RuntimeError(f"{function}(): padding must be non-negative, but got {list(pad)}")
        if any(p > k // 2 for p, k in zip(pad, kernel, strict=True)):
            raise RuntimeError(
                f"{function}(): padding should be at most half of kernel_size, but got padding "
                f"{list(pad)} and kernel_size {list(kernel)}"
            )
        return cls(kernel, step, pad, distance, ceil_mode)

    def outputs(self, function: str, sizes: Sequence[int]) -> tuple[int, ...]:
        """Returns the number of windows along each dimension of an input of these ``sizes``.

        Raises:
            RuntimeError: The input is too small for a window.
        """
        lengths = tuple(self._length(dim, size) for dim, size in enumerate(sizes))
        if min(lengths) < 1:
            raise RuntimeError(
                f"{function}(): an input of size {_by(sizes)} gives an output of size "
                f"{_by(max(n, 0) for n in lengths)}, which is too small; use a smaller kernel_size"
                " or more padding"
            )
        return lengths

    def starts(self, dim: int, length: int) -> npt.NDArray[np.int64]:
        """Returns the first index of ``length`` windows; it is negative in the padding."""
        return np.arange(length, dtype=np.int64) * self.stride[dim] - self.padding[dim]

    def counts(
        self, sizes: Sequence[int], lengths: Sequence[int], *, padding: bool = False
    ) -> list[npt.NDArray[np.int64]]:
        """Returns how many elements each window reads along each dimension, if taps are adjacent.

        Args:
            sizes: The sizes of the input.
            lengths: The number of windows.
            padding: Whether to count zeros of the padding too.
        """
        counts = []
        for dim, (size, length) in enumerate(zip(sizes, lengths, strict=True)):
            start, pad = self.starts(dim, length), self.padding[dim] if padding else 0
            stop = np.minimum(start + self.kernel[dim], size + pad)
            counts.append(stop - np.maximum(start, -pad))
        return counts

    def spans(self, lengths: Sequence[int]) -> tuple[Spans, ...]:
        """Returns these numbers of windows, for their maxima."""
        return tuple(
            Spans(tuple(self.starts(dim, n).tolist()), (self.kernel[dim],) * n, self.dilation[dim])
            for dim, n in enumerate(lengths)
        )

    def sums(self, values: jax.Array, lengths: Sequence[int]) -> jax.Array:
        """Returns the sum of each window of the last dimensions; the padding counts as zeros.

        Args:
            values: Shape [..., *sizes].
            lengths: The number of windows along each dimension.
        """
        lead = values.ndim - len(lengths)
        padding = [(0, 0)] * lead
        for dim, (size, length) in enumerate(zip(values.shape[lead:], lengths, strict=True)):
            stop = int(self.starts(dim, length)[-1]) + self.kernel[dim]
            padding.append((self.padding[dim], max(stop - size, 0)))
        sizes, strides = ((1,) * lead + each for each in (self.kernel, self.stride))
        zero = np.zeros((), values.dtype)
        total: jax.Array = jax.lax.reduce_window(values, zero, jax.lax.add, sizes, strides, padding)
        return total

    def _length(self, dim: int, size: int) -> int:
        """Returns the number of windows along a dimension."""
        pad, step = self.padding[dim], self.stride[dim]
        reach = self.dilation[dim] * (self.kernel[dim] - 1) + 1
        room = size + 2 * pad - reach
        if not self.ceil_mode:
            return room // step + 1
        length = -(-room // step) + 1
        # The last window must not begin in the padding after the input.
        return length - 1 if (length - 1) * step >= size + pad else length


def adaptive(
    function: str, sizes: Sequence[int], output_size: Any, *, none_allowed: bool
) -> tuple[WindowTable, ...]:
    """Returns tables of windows that divide each dimension as evenly as possible.

    Args:
        function: The name of the op, for messages.
        sizes: The sizes of the input.
        output_size: The number of windows: an int for all dimensions, or one int for each.
        none_allowed: Whether None in a sequence means the size of the input.

    Raises:
        RuntimeError: The number of ints is not the number of dimensions, or one is negative.
        TypeError: One of them is not an int.
    """
    if none_allowed and isinstance(output_size, Sequence) and len(output_size) == len(sizes):
        output_size = [n if m is None else m for m, n in zip(output_size, sizes, strict=True)]
    lengths = arguments.integers(function, "output_size", output_size, len(sizes))
    if min(lengths) < 0:
        raise RuntimeError(
            f"{function}(): elements of output_size must be greater than or equal to 0, but got "
            f"{list(lengths)}"
        )
    return tuple(
        WindowTable.intervals(size, window * size // n, -(-(window + 1) * size // n))
        for size, n in zip(sizes, lengths, strict=True)
        for window in [np.arange(n, dtype=np.int64)]
    )


def sizes_fit(function: str, input: Any, output_size: Any) -> None:
    """Checks that ``input`` has more dimensions than ``output_size`` has sizes.

    Raises:
        ValueError: It does not. PyTorch raises this exception, and makes this check first.
    """
    ndim = np.ndim(arguments.array(function, "input", input))
    if isinstance(output_size, Sequence) and len(output_size) >= ndim:
        raise ValueError(
            f"{function}(): argument 'input' should have at least {len(output_size) + 1} "
            f"dimensions for {len(output_size)} sizes in argument 'output_size', but has {ndim}"
        )


def pooled(
    function: str, dims: int, input: Any, *, channels_may_be_empty: bool = False
) -> jax.Array:
    """Returns ``input`` as a JAX array of shape [n, channels, *sizes] or [channels, *sizes].

    Args:
        function: The name of the op, for messages.
        dims: The number of dimensions to pool.
        input: The argument of the op.
        channels_may_be_empty: Whether the number of channels may be 0. A batch may always be.

    Raises:
        RuntimeError: ``input`` has another number of dimensions, or one of them is 0.
        TypeError: ``input`` is not an array.
    """
    array = arguments.array(function, "input", input)
    if array.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"{function}(): expected an input of {dims + 1} or {dims + 2} (batch mode) dimensions, "
            f"but got shape {list(array.shape)}"
        )
    if 0 in array.shape[(-dims if channels_may_be_empty else -dims - 1) :]:
        raise RuntimeError(
            f"{function}(): expected an input with non-zero size for non-batch dimensions, but got "
            f"shape {list(array.shape)}"
        )
    return array


def floats(function: str, input: jax.Array) -> None:
    """Checks that ``input`` is of floats.

    Raises:
        NotImplementedError: It is of another dtype.
    """
    if arguments.dtype_kind(input.dtype) != "floating":
        raise NotImplementedError(
            f"{function}(): not implemented for {input.dtype} in argument 'input'; it takes floats"
        )


def lanes(input: jax.Array, dims: int) -> jax.Array:
    """Reshapes [..., *spatial] to [lanes, *spatial]."""
    return input.reshape(math.prod(input.shape[:-dims]), *input.shape[-dims:])


def mean(
    total: jax.Array, divisors: Sequence[npt.NDArray[Any]], dtype: jax.typing.DTypeLike
) -> jax.Array:
    """Returns means over windows, of a dtype.

    Sums of floats are multiplied by the rounded reciprocal of the divisor. Quotients of integers
    are rounded towards zero.

    Args:
        total: The sum of each window, in the accumulator's dtype: shape [..., *outputs].
        divisors: For each dimension, one factor for each window; the divisor of a sum is the
            product of its factors. Or one array of one number, the divisor of all sums.
        dtype: The dtype of the result.
    """
    divisor = functools.reduce(np.multiply, np.ix_(*divisors))
    if divisor.size and (divisor == divisor.flat[0]).all():
        divisor = divisor.flat[0]
    divisor = np.reshape(divisor, (1,) * (total.ndim - np.ndim(divisor)) + np.shape(divisor))
    if jnp.issubdtype(total.dtype, jnp.integer):
        limits = jnp.iinfo(total.dtype)
        whole = jnp.asarray(np.clip(divisor, limits.min, limits.max), total.dtype)
        return convert(jax.lax.div(total, jnp.broadcast_to(whole, total.shape)), dtype)
    return convert(total * jnp.asarray(1 / divisor, total.dtype), dtype)


def mean_of_tables(input: jax.Array, tables: Sequence[WindowTable]) -> jax.Array:
    """Returns the mean of the elements of each window of the last dimensions."""
    total = _windows.sums(convert(input, accumulator(input.dtype)), tables)
    return mean(total, [table.counts for table in tables], input.dtype)


def max_pool(
    function: str,
    input: jax.Array,
    spans: Sequence[Spans],
    return_indices: Any,
    **facts: spec.FactValue,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Computes the maxima of a max-pooling op, and their flat indices if the caller wants them.

    ``facts`` are further facts of the call, which only the rows of some of the ops ask for.

    Raises:
        TypeError: ``return_indices`` is not a bool.
    """
    arguments.flag(function, "return_indices", return_indices)
    op = f"nn.functional.{function}"
    stated = arguments.facts(input, **facts)
    input = alert(input, decide(op, **stated))
    out, position = greatest(input, spans)
    out = alert_pullback(out, decide(op, "backward", **stated))
    return (out, position.astype(jnp.result_type(int))) if return_indices else out


def greatest(input: jax.Array, spans: Sequence[Spans]) -> tuple[jax.Array, jax.Array]:
    """Returns ``_maxima.greatest`` of the last dimensions."""
    out, position = _maxima.greatest(lanes(input, len(spans)), tuple(spans))
    shape = (*input.shape[: -len(spans)], *out.shape[1:])
    return out.reshape(shape), position.reshape(shape)


def _each(function: str, name: str, value: Any, dims: int) -> tuple[int, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1:
        value = value[0]
    return arguments.integers(function, name, value, dims)


def _by(sizes: Any) -> str:
    return "x".join(map(str, sizes))
