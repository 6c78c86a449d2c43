"""Windows of pools and of interpolation, and the sums and means over them.

``Windows`` have a fixed size; XLA adds their elements. A ``WindowTable`` lists the elements of the
windows of adaptive pools and of interpolation, and is known when a program is traced. Its inverse
lists, for each element, the windows that read it: the contributions to its gradient. For windows of
3 elements, 2 apart, over 5 elements with a padding of 1 (-1 stands for no tap)::

    operand           [3., 7., 2., 5., 1.]
    windows           [0, 3., 7.]  [7., 2., 5.]  [5., 1., 0]
    means             [10 / 3, 14 / 3, 6 / 3]                 divisors count the padding,
                      [10 / 2, 14 / 3, 6 / 2]                 or the elements alone
    adaptive, to 2    [0, 1, 2]  [2, 3, 4]                    windows as even as possible
    index             [[0, 1, -1], [1, 2, 3], [3, 4, -1]]     of WindowTable.of(5, ...)
    inverse.index     [[0, -1], [0, 1], [1, -1], [1, 2], [2, -1]]
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from impl._core import arguments
from impl._core.axes import rows_at, three_axes
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, fence, in_memory
from impl._jax.linear import with_transpose
from impl.nn.functional._maxima import Spans

#: The greatest number of taps that are read by an operation each. For a CPU, XLA reads faster by
#: these than by one for all taps.
_UNROLLED = 32
#: The greatest number of neighbours whose sum is slower on a CPU than a sum of such reads.
_FEW = 4


@dataclasses.dataclass(frozen=True, eq=False)
class WindowTable:
    """A table of windows.

    ``WindowTable.of`` and ``WindowTable.intervals`` make one.

    Attributes:
        inputs: Length of the dimension that is read.
        index: The position that each tap reads, in the order of taps, then -1 for each tap that a
            window lacks: int32, shape [windows, taps].
        weight: The factor of each tap, float64, of the same shape; None if every factor is 1.
    """

    inputs: int
    index: npt.NDArray[np.int32]
    weight: npt.NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls, inputs: int, index: npt.ArrayLike, weight: npt.ArrayLike | None = None
    ) -> WindowTable:
        """Makes a table from the positions that taps read.

        Args:
            inputs: Length of the dimension that is read.
            index: Integers, shape [windows, taps]; one outside [0, inputs) is not a tap.
            weight: Factors, floats of the shape of ``index``; None for 1.
        """
        index = np.asarray(index, np.int64)
        outside = (index < 0) | (index >= inputs)
        order = np.argsort(outside, axis=1, kind="stable")
        most = max(1, int((~outside).sum(axis=1).max(initial=0)))
        index = np.take_along_axis(np.where(outside, -1, index), order, 1)[:, :most]
        if index.shape[1] < most:
            index = np.full((index.shape[0], most), -1)
        if weight is not None:
            weight = np.take_along_axis(np.asarray(weight, np.float64), order, 1)[:, :most]
        return cls(inputs, index.astype(np.int32), weight)

    @classmethod
    def intervals(cls, inputs: int, start: npt.ArrayLike, stop: npt.ArrayLike) -> WindowTable:
        """Makes a table of windows ``range(start, stop)``, cut off at the array's ends."""
        start, stop = np.asarray(start, np.int64), np.asarray(stop, np.int64)
        index = start[:, None] + np.arange(max(1, int((stop - start).max(initial=1))))
        return cls.of(inputs, np.where(index < stop[:, None], index, -1))

    @property
    def outputs(self) -> int:
        """Returns the number of windows along each dimension; none at all raises a RuntimeError."""
        return len(self.index)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of taps of each window, shape [windows]."""
        return np.asarray((self.index >= 0).sum(axis=1))

    @property
    def only_reads(self) -> bool:
        """True if each window copies one element, or has no tap."""
        return self.index.shape[1] == 1 and self.weight is None

    @property
    def divided(self) -> int:
        """The length that the windows divide into equal parts, of factor 1; -1 if they do not."""
        flat = self.index.reshape(-1)
        even = self.weight is None and np.array_equal(flat, np.arange(flat.size))
        return int(flat.size) if even else -1

    @property
    def overlapping(self) -> bool:
        """True if two taps read one position."""
        read = self.index[self.index >= 0]
        return bool(np.bincount(read).max(initial=0) > 1)

    @functools.cached_property
    def inverse(self) -> WindowTable:
        """The table that lists, for each position, the windows that read it, in ascending order."""
        flat = self.index.reshape(-1)
        taps = np.flatnonzero(flat >= 0)
        taps = taps[np.argsort(flat[taps], kind="stable")]
        count = np.bincount(flat[taps], minlength=self.inputs)
        column = np.arange(taps.size) - np.repeat(np.cumsum(count) - count, count)
        index = np.full((self.inputs, max(1, int(count.max(initial=0)))), -1)
        index[flat[taps], column] = taps // self.index.shape[1]
        weight = None
        if self.weight is not None:
            weight = np.zeros(index.shape)
            weight[flat[taps], column] = self.weight.reshape(-1)[taps]
        return WindowTable.of(self.outputs, index, weight)


def sums(values: jax.Array, tables: Sequence[WindowTable]) -> jax.Array:
    """Returns the weighted sum of each window, of the dtype of ``values``.

    Dimensions are added one after another, from the last to the first, and in a gradient from the
    first to the last. float16 and bfloat16 are added in float32, and rounded after all dimensions.
    A sum reads the elements of its window alone: matrices of weights would multiply all others by
    0, and an infinity of those would give NaN.

    Args:
        values: Shape [..., *inputs].
        tables: The table of windows of each of the last dimensions.
    """
    axes = [*enumerate(tables, values.ndim - len(tables))]
    inverses = [(axis, table.inverse) for axis, table in axes]
    return with_transpose(
        lambda x: _sums_along(x, reversed(axes)), lambda ct: _sums_along(ct, inverses), values
    )


def _sums_along(values: jax.Array, axes: Iterable[tuple[int, WindowTable]]) -> jax.Array:
    """Returns sums along each of some axes, one after another."""
    axes, dtype = list(axes), values.dtype
    only_reads = all(table.only_reads for _, table in axes)
    if not only_reads:
        values = convert(values, accumulator(dtype))
    for number, (axis, table) in enumerate(axes):
        if number and not only_reads:
            # Otherwise XLA computes the sums along an axis again for each tap of the next one.
            values = fence(values) if table.weight is None else in_memory(values)
        values = _sums_along_axis(values, axis, table)
    return convert(values, dtype)


def _sums_along_axis(values: jax.Array, axis: int, table: WindowTable) -> jax.Array:
    shape = (*values.shape[:axis], table.outputs, *values.shape[axis + 1 :])
    if 0 in values.shape:
        return jnp.zeros(shape, values.dtype)
    if table.divided == table.inputs == table.outputs:
        return values
    rows, taps = three_axes(values, axis), table.index.shape[1]
    outer, _, inner = rows.shape
    if table.divided == table.inputs and taps > _FEW:
        total = rows.reshape(outer, table.outputs, -1, inner).sum(2)
    elif table.only_reads and table.inverse.divided == table.outputs:
        total = jnp.repeat(rows, table.outputs // table.inputs, axis=1)
    elif taps == 1:
        total = _terms(rows, table, 0)
    elif taps <= _UNROLLED:
        total = jnp.stack([_terms(rows, table, tap) for tap in range(taps)]).sum(0)
    else:
        total = _terms(rows, table, slice(None)).sum(2)
    return total.reshape(shape)


def _terms(rows: jax.Array, table: WindowTable, taps: int | slice) -> jax.Array:
    """Returns the terms of one tap, or the terms of all taps along an axis after the windows."""
    index = table.index[:, taps]
    terms = rows_at(rows, np.maximum(index, 0))
    if table.weight is not None:
        terms = terms * table.weight[:, taps].astype(terms.dtype)[None, ..., None]
    if (index < 0).any():
        terms = where((index >= 0)[None, ..., None], terms, 0)
    return terms


def each(function: str, name: str, value: Any, dims: int) -> tuple[int, ...]:
    """Returns one int for each dimension; one int, also in a sequence, stands for all."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1:
        value = value[0]
    return arguments.integers(function, name, value, dims)


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
        kernel = each(function, "kernel_size", kernel_size, dims)
        omitted = stride is None or (isinstance(stride, Sequence) and len(stride) == 0)
        step = kernel if omitted else each(function, "stride", stride, dims)
        pad = each(function, "padding", padding, dims)
        distance = each(function, "dilation", dilation, dims)
        arguments.flags(function, ceil_mode=ceil_mode)
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

    ``output_size`` is the number of windows, for all dimensions or for each. ``none_allowed`` is
    whether None in a sequence means the size of the input.
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

    Only the batch may be empty, and with ``channels_may_be_empty`` the channels too.
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
    total = sums(convert(input, accumulator(input.dtype)), tables)
    return mean(total, [table.counts for table in tables], input.dtype)


def _by(sizes: Any) -> str:
    return "x".join(map(str, sizes))
