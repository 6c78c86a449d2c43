"""What pools share: where their windows lie, and the checks of the arguments that say so."""

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

from impl._core import arguments
from impl._core.axes import index_dtype, three_axes
from impl._core.numerics import accumulator, convert, lowest
from impl._core.window_table import WindowTable
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert, alert_pullback
from impl._primitives.arithmetic import multiply
from impl._primitives.windows import argmax, pick, window_sum


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows of a fixed size; each of the tuples has an element per dimension.

    Attributes:
        kernel: How many elements a window has.
        stride: How far apart windows begin.
        padding: How far before the input the first one begins, and after it the last one may end.
        dilation: How far apart the elements of one window are.
        ceil_mode: Whether a last window may end beyond that, if it begins within the input or
            the padding before it.
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
        """From the arguments of a pool, each an int for all dimensions or one for each.

        Raises:
            RuntimeError: There are not as many of them as dimensions; a kernel, a stride or a
                dilation is not positive; or a padding is negative or exceeds half the kernel.
            TypeError: One is not an int, or ``ceil_mode`` is not a bool.
        """
        kernel = _each(function, "kernel_size", kernel_size, dims)
        omitted = stride is None or (isinstance(stride, Sequence) and len(stride) == 0)
        step = kernel if omitted else _each(function, "stride", stride, dims)
        pad = _each(function, "padding", padding, dims)
        apart = _each(function, "dilation", dilation, dims)
        arguments.flag(function, "ceil_mode", ceil_mode)
        for name, values in (("kernel_size", kernel), ("stride", step), ("dilation", apart)):
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
        return cls(kernel, step, pad, apart, ceil_mode)

    def tables(self, function: str, sizes: Sequence[int]) -> tuple[WindowTable, ...]:
        """The table of each dimension of an input of these ``sizes``.

        With a dilation a window may have no taps at all.

        Raises:
            RuntimeError: There is no room for a window.
        """
        lengths = [self._length(dim, size) for dim, size in enumerate(sizes)]
        if min(lengths) < 1:
            raise RuntimeError(
                f"{function}(): an input of size {_by(sizes)} gives an output of size "
                f"{_by(max(n, 0) for n in lengths)}, which is too small; use a smaller kernel_size"
                " or more padding"
            )
        return tuple(
            WindowTable.of(
                size, self.starts(dim, n)[:, None] + self.dilation[dim] * np.arange(k, dtype=int)
            )
            for dim, (size, n, k) in enumerate(zip(sizes, lengths, self.kernel, strict=True))
        )

    def starts(self, dim: int, length: int) -> npt.NDArray[np.int64]:
        """Where the first ``length`` windows begin along a dimension, in the padding or not."""
        return np.arange(length, dtype=np.int64) * self.stride[dim] - self.padding[dim]

    def _length(self, dim: int, size: int) -> int:
        """How many windows there are along a dimension."""
        pad, step = self.padding[dim], self.stride[dim]
        reach = self.dilation[dim] * (self.kernel[dim] - 1) + 1
        room = size + 2 * pad - reach
        if not self.ceil_mode:
            return room // step + 1
        length = -(-room // step) + 1
        # The last one is not to begin in the padding after the input.
        return length - 1 if (length - 1) * step >= size + pad else length


def adaptive(
    function: str, sizes: Sequence[int], output_size: Any, *, none_allowed: bool
) -> tuple[WindowTable, ...]:
    """Windows that divide each dimension of an input of these ``sizes`` as evenly as can be.

    Args:
        function: Who asks.
        sizes: Those of the input.
        output_size: How many windows there are: an int for all dimensions, or one for each.
        none_allowed: Whether one of several may be None, for that of the input.

    Raises:
        RuntimeError: There are not as many as dimensions, or one is negative.
        TypeError: One is not an int.
    """
    if none_allowed and isinstance(output_size, Sequence) and len(output_size) == len(sizes):
        output_size = [n if o is None else o for o, n in zip(output_size, sizes, strict=True)]
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


def pooled(
    function: str, dims: int, input: Any, *, channels_may_be_empty: bool = False
) -> jax.Array:
    """``input`` as a JAX array with ``dims`` dimensions to pool, after a channel and maybe a batch.

    Raises:
        RuntimeError: It has another number of dimensions, or no elements and yet a batch that is
            not empty.
        TypeError: It is not an array.
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
    """Refuses what is not of floats.

    Raises:
        NotImplementedError: It is not.
    """
    if arguments.dtype_kind(input.dtype) != "floating":
        raise NotImplementedError(
            f"{function}(): not implemented for {input.dtype} in argument 'input'; it takes floats"
        )


def lanes(input: jax.Array, dims: int) -> jax.Array:
    """[..., *spatial] as [lanes, *spatial]."""
    return input.reshape(math.prod(input.shape[:-dims]), *input.shape[-dims:])


def mean(
    input: jax.Array,
    tables: Sequence[WindowTable],
    divisors: Sequence[npt.NDArray[Any]],
    *,
    decision: Decision,
) -> jax.Array:
    """Sums over windows of the last dimensions, divided; integers towards zero.

    Floats are multiplied by the rounded reciprocal.

    Args:
        input: Shape [..., *sizes].
        tables: The windows of each dimension.
        divisors: What each sum is divided by: a factor for each window of each dimension, or one
            for all.
        decision: How the pullback is computed; the alert is the caller's business.
    """
    dims, wide = len(tables), accumulator(input.dtype)
    values = convert(lanes(input, dims), wide)
    total = window_sum(values, tuple(tables), decision=decision)
    divisor = functools.reduce(np.multiply, np.ix_(*divisors))
    if divisor.size and (divisor == divisor.flat[0]).all():
        divisor = divisor.flat[:1].reshape((1,) * dims)
    if jnp.issubdtype(wide, jnp.integer):
        limits = jnp.iinfo(wide)
        whole = jnp.asarray(np.clip(divisor, limits.min, limits.max), wide)
        out = jax.lax.div(total, jnp.broadcast_to(whole, total.shape))
    else:
        out = multiply(total, jnp.asarray(1 / divisor, wide))
    return convert(out, input.dtype).reshape(*input.shape[:-dims], *total.shape[1:])


def max_pool(
    function: str, input: jax.Array, tables: Sequence[WindowTable], return_indices: Any
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """A max-pool of that name: ``greatest``, beside it the flat positions if they are asked for.

    Raises:
        TypeError: ``return_indices`` is not a bool.
    """
    arguments.flag(function, "return_indices", return_indices)
    op = f"nn.functional.{function}"
    facts = arguments.facts(input, overlapping=overlapping(tables))
    input = alert(input, decide(op, **facts))
    decision = decide(op, "backward", **facts)
    out, places = _greatest(input, tables, decision)
    out = alert_pullback(out, decision)
    if not return_indices:
        return out
    position = flat_position(places, [table.inputs for table in tables])
    return out, _where_read(tables, position, -1)


def greatest(input: jax.Array, tables: Sequence[WindowTable], *, decision: Decision) -> jax.Array:
    """The greatest element of each window of the last dimensions; of equal ones the first.

    It is minus infinity, or the least integer, where a window reads nothing.

    Args:
        input: Shape [..., *sizes].
        tables: The windows of each dimension.
        decision: How the pullback is computed; the alert is the caller's business.
    """
    return _greatest(input, tables, decision)[0]


def flat_position(places: Sequence[jax.Array], sizes: Sequence[int]) -> jax.Array:
    """The position in dimensions of ``sizes`` of what was taken along one after the other.

    Args:
        places: The last dimension first: from where in it each element was taken, in arrays of
            which the dimensions after it, and it, are those that were taken.
        sizes: Lengths of the dimensions, in their order.
    """
    dims = len(sizes)
    position = places[0].astype(index_dtype(math.prod(sizes)))
    for done, place in enumerate(places[1:], 1):
        dim = dims - 1 - done
        before = jnp.take_along_axis(position, place, axis=dim - dims, mode="promise_in_bounds")
        position = place.astype(position.dtype) * math.prod(sizes[dim + 1 :]) + before
    return position.astype(jnp.result_type(int))


def _greatest(
    input: jax.Array, tables: Sequence[WindowTable], decision: Decision
) -> tuple[jax.Array, list[jax.Array]]:
    """The greatest elements, and as in ``flat_position`` where they were."""
    places = []
    # Narrow floats are to be rounded once, when a gradient has gone through all dimensions.
    floating = jnp.issubdtype(input.dtype, jnp.floating)
    out = convert(input, accumulator(input.dtype)) if floating else input
    for axis, taps in reversed(list(enumerate(tables, input.ndim - len(tables)))):
        three = three_axes(out, axis)
        place = jnp.maximum(argmax(three, taps), 0)
        shape = (*out.shape[:axis], taps.outputs, *out.shape[axis + 1 :])
        out = pick(three, place, taps, decision=decision).reshape(shape)
        places.append(place.reshape(shape))
    return convert(_where_read(tables, out, lowest(out.dtype)), input.dtype), places


def _where_read(tables: Sequence[WindowTable], value: jax.Array, otherwise: Any) -> jax.Array:
    """``value`` where a window reads anything, and elsewhere ``mode_off``."""
    if all(table.counts.all() for table in tables):
        return value
    reads = functools.reduce(np.multiply, np.ix_(*(np.minimum(t.counts, 1) for t in tables)))
    return jnp.where(reads > 0, value, otherwise)


def overlapping(tables: Sequence[WindowTable]) -> bool:
    """The fact: whether two windows share an element."""
    return any(table.overlapping for table in tables)


def _each(function: str, name: str, value: Any, dims: int) -> tuple[int, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1:
        value = value[0]
    return arguments.integers(function, name, value, dims)


def _by(sizes: Any) -> str:
    return "x".join(map(str, sizes))
