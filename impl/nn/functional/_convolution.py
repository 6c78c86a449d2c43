"""The part that ``conv`` and ``conv_transpose`` share.

It checks the arrays and the numbers of a call, convolves, and adds the bias::

    [1, 2, 3], a kernel of [1, 10], a bias of 5    [26, 37]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, products
from impl._core.numerics import accumulator, convert
from impl._core.shard_axes import vary_like
from impl._mode.decide import decide
from impl._primitives.alert import alert, alert_pullback


@dataclasses.dataclass(frozen=True)
class Operands:
    """The arrays of a call, checked, with a batch.

    Attributes:
        input: Shape [n, channels, *sizes].
        weight: Shape [channels, channels, *kernel].
        bias: Shape [channels], or None.
        batched: Whether the caller's input had a batch.
    """

    input: jax.Array
    weight: jax.Array
    bias: jax.Array | None
    batched: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """The spatial sizes of the input."""
        return self.input.shape[2:]

    @property
    def kernel(self) -> tuple[int, ...]:
        """The spatial sizes of the weight."""
        return self.weight.shape[2:]


def operands(
    function: str, dims: int, input: Any, weight: Any, bias: Any, groups: int, *, transposed: bool
) -> Operands:
    """Checks the arrays of a call, and adds a batch if there is none.

    Raises:
        NotImplementedError: The arrays are of bools.
        RuntimeError: Shapes or dtypes do not fit.
        TypeError: One of them is not an array.
    """
    x, w = arguments.array(function, "input", input), arguments.array(function, "weight", weight)
    b = None if bias is None else arguments.array(function, "bias", bias)
    if x.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"{function}(): Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input, but "
            f"got input of size: {list(x.shape)}"
        )
    if w.ndim != dims + 2:
        raise RuntimeError(
            f"{function}(): Expected {dims + 2}D weight, but got weight of size: {list(w.shape)}"
        )
    arguments.same_dtype(function, x, weight=w, **({} if b is None else {"bias": b}))
    if arguments.dtype_kind(x.dtype) == "bool":
        raise NotImplementedError(
            f"{function}(): not implemented for bool; it takes integers, floats and complex numbers"
        )
    batched = x.ndim == dims + 2
    x = x if batched else x[None]
    prefix = f"Given groups={groups}, weight of size {list(w.shape)}, expected"
    if w.shape[0] < groups or w.shape[0] % groups:
        rule = "be at least" if w.shape[0] < groups else "be divisible by"
        raise RuntimeError(f"{function}(): {prefix} weight to {rule} {groups} at dimension 0")
    channels = w.shape[0] if transposed else w.shape[1] * groups
    if x.shape[1] != channels:
        raise RuntimeError(
            f"{function}(): {prefix} input{list(x.shape)} to have {channels} channels, but got "
            f"{x.shape[1]} channels instead"
        )
    if min(w.shape[2:]) < 1:
        raise RuntimeError(f"{function}(): weight of size {list(w.shape)} has no taps")
    outputs = w.shape[1] * groups if transposed else w.shape[0]
    if b is not None and b.shape != (outputs,):
        raise RuntimeError(
            f"{function}(): Given weight of size {list(w.shape)}, expected bias to be "
            f"1-dimensional with {outputs} elements, but got bias of size {list(b.shape)} instead"
        )
    return Operands(x, w, b, batched)


def positive(function: str, name: str, value: Any) -> int:
    """Returns ``value`` as a positive int.

    Raises:
        RuntimeError: It is not positive.
        TypeError: It is not an int.
    """
    number = arguments.integer(function, name, value)
    if number < 1:
        raise RuntimeError(f"{function}(): non-positive {name} is not supported, got {number}")
    return number


def each(function: str, name: str, value: Any, dims: int, least: int) -> tuple[int, ...]:
    """Returns one int for each dimension.

    Args:
        function: The name of the op, for messages.
        name: The name of the argument, for messages.
        value: An int or a sequence of one int, for all dimensions; or a sequence of ``dims`` ints.
        dims: The number of dimensions.
        least: The least value that is allowed.

    Raises:
        RuntimeError: A value is below ``least``, or the sequence has another length.
        TypeError: A value is not an int.
    """
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1:
        value = value[0]
    numbers = arguments.integers(function, name, value, dims)
    if min(numbers) < least:
        kind = "negative" if least == 0 else "non-positive"
        raise RuntimeError(f"{function}(): {kind} {name} is not supported, got {list(numbers)}")
    return numbers


@dataclasses.dataclass(frozen=True)
class Window:
    """The movement of a kernel over an image; each tuple has an element for each dimension.

    Attributes:
        result: The sizes of the result.
        stride: The distance between the beginnings of neighbouring windows.
        padding: The numbers of zeros before and after the image, which is dilated first. Negative
            ones crop it.
        spread: The distance between neighbouring elements of the dilated image.
        dilation: The distance between neighbouring taps.
        groups: The number of groups of channels.
    """

    result: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    spread: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def convolve(self, x: jax.Array, w: jax.Array) -> jax.Array:
        """Convolves an image [n, groups * inputs, ...] and weights [outputs, inputs, ...]."""
        shape = (x.shape[0], w.shape[0], *self.result)
        if 0 in (*shape, *x.shape, *w.shape):
            return vary_like(jnp.zeros(shape, x.dtype), x, w)
        if jnp.issubdtype(x.dtype, jnp.integer):
            return self._convolve_integers(x, w).reshape(shape)
        return jax.lax.conv_general_dilated(
            x,
            w,
            self.stride,
            self.padding,
            self.spread,
            self.dilation,
            feature_group_count=self.groups,
            precision=products.precision(),
        )

    def _convolve_integers(self, x: jax.Array, w: jax.Array) -> jax.Array:
        """Multiplies all windows by the weights: cuDNN convolves no integers."""
        edges = ((*ends, s - 1) for ends, s in zip(self.padding, self.spread, strict=True))
        x = jax.lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *edges])
        x = x.reshape(x.shape[0], self.groups, w.shape[1], *x.shape[2:])
        w = w.reshape(self.groups, -1, *w.shape[1:])
        steps = zip(self.result, self.stride, w.shape[3:], self.dilation, strict=True)
        for number, (count, stride, taps, distance) in enumerate(steps):
            index = stride * np.arange(count)[:, None] + distance * np.arange(taps)
            x = jnp.take(x, index, axis=3 + 2 * number, mode="clip")
        terms = (2, *range(4, x.ndim, 2)), (2, *range(3, w.ndim))
        out = jax.lax.dot_general(x, w, (terms, ((1,), (0,))))
        # From [groups, n, *result, outputs].
        return jnp.moveaxis(out, (1, 0, -1), (0, 1, 2))


def convolved(function: str, operands: Operands, weight: jax.Array, window: Window) -> jax.Array:
    """Computes a convolution, and adds the bias of each channel, in the accumulator's dtype."""
    facts = arguments.facts(operands.input)
    name = f"nn.functional.{function}"
    decision, pullback = decide(name, **facts), decide(name, "backward", **facts)
    out = window.convolve(operands.input, weight)
    if operands.bias is not None:
        dtype = out.dtype
        wide = accumulator(dtype) if jnp.issubdtype(dtype, jnp.floating) else dtype
        bias = convert(operands.bias, wide).reshape(1, -1, *(1,) * len(window.result))
        out = convert(convert(out, wide) + bias, dtype)
    out = alert(alert_pullback(out, pullback), decision)
    return out if operands.batched else out[0]
