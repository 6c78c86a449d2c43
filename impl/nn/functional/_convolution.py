"""The part that ``conv`` and ``conv_transpose`` share.

It checks the arrays and the numbers of a call, binds the primitive, and adds the bias.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.numerics import accumulator, convert
from impl._families.convolution_window import ConvolutionWindow
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert
from impl._primitives.convolution import Role, convolution
from impl._primitives.matmul import matmul


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


def convolved(
    function: str, operands: Operands, window: ConvolutionWindow, *, role: Role
) -> jax.Array:
    """Computes a convolution, or its transpose if ``role`` is the image, and adds the bias."""
    facts = arguments.facts(operands.input)
    name = f"nn.functional.{function}"
    decision, pullback = decide(name, **facts), decide(name, "backward", **facts)
    out = convolution(
        operands.input,
        operands.weight,
        role=role,
        window=window,
        decision=decision,
        pullback=pullback,
    )
    out = alert(out, decision)
    if operands.bias is not None:
        out = _plus(out, operands.bias, pullback)
    return out if operands.batched else out[0]


def _plus(out: jax.Array, bias: jax.Array, pullback: Decision) -> jax.Array:
    """Adds the bias of each channel, in the accumulator's dtype."""
    dtype = out.dtype
    wide = accumulator(dtype) if jnp.issubdtype(dtype, jnp.floating) else dtype
    flat = convert(out, wide).reshape(*out.shape[:2], math.prod(out.shape[2:]))
    summed = _shifted(pullback, flat, convert(bias, wide))
    return convert(summed.reshape(out.shape), dtype)


# The gradient of a plain addition would be a sum whose order XLA chooses. On a CPU, before
# jax 0.11, that order depends on the number of threads.
@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _shifted(
    pullback: Decision,  # noqa: ARG001  # The derivative uses it.
    out: jax.Array,
    bias: jax.Array,
) -> jax.Array:
    """Adds an array of shape [channels] to one of shape [images, channels, positions]."""
    return out + bias[None, :, None]


@_shifted.defjvp
def _shifted_jvp(
    pullback: Decision, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    out, bias = primals
    images, channels, positions = out.shape
    shift = tangents[1].reshape(1, 1, channels)
    ones = functools.partial(jnp.ones, dtype=bias.dtype)
    product = functools.partial(matmul, decision=pullback, pullback=pullback)
    # Broadcast by products with ones: their transpose adds over positions, then over images.
    of_images = product(ones((1, images, 1)), shift).reshape(images, channels, 1)
    tangent = product(of_images, ones((images, 1, positions)))
    return _shifted(pullback, out, bias), tangents[0] + tangent
