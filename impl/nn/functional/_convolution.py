"""The ops ``conv1d`` to ``conv3d`` and ``conv_transpose1d`` to ``conv_transpose3d``.

The arguments of both are brought to one ``Window``, the movement of a kernel over an image, along
which XLA convolves. Then the bias is added::

    [1, 2, 3], a kernel of [1, 10], a bias of 5    [26, 37]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._core.shard_axes import vary_like
from impl._mode.alert import alert, alert_pullback
from impl._mode.decide import decide_both
from impl.nn.functional._windows import each
from impl.ops._op import for_dims
from impl.ops._products import precision


def _conv(  # noqa: D417  # The ops have no ``dims``.
    dims: int,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> jax.Array:
    """Computes a cross-correlation, which neural networks call a convolution.

    Products of float32 have full precision, unless ``jax_default_matmul_precision`` is set to a
    lower one. Products of float16 and bfloat16 are added in float32, and each sum is rounded.

    Args:
        input: Shape [N, C, L] or [C, L]; integers, floats or complex numbers.
        weight: Shape [D, C / groups, K], in the dtype of ``input``.
        bias: Shape [D], in the dtype of ``input``; or None.
        stride: The distance between the starts of two windows.
        padding: The number of zeros on each side of the input. "valid" means none. "same" pads so
            that the result has the length of the input; if the number of zeros is odd, there is
            one more after the input than before it. "same" needs a stride of 1.
        dilation: The distance between two elements of a window.
        groups: The number of groups of channels. A group of the result reads one group of the
            input.

    Returns:
        An array of shape [N, D, windows] or [D, windows], in the dtype of ``input``.

    Raises:
        NotImplementedError: The arrays are of bools.
        RuntimeError: Shapes, sizes or dtypes do not fit.
    """
    name = f"conv{dims}d"
    groups = _positive(name, "groups", groups)
    operands = _checked_operands(name, dims, input, weight, bias, groups, transposed=False)
    sizes, kernel = operands[0].shape[2:], operands[1].shape[2:]
    step = _numbers_of(name, "stride", stride, dims, least=1)
    distance = _numbers_of(name, "dilation", dilation, dims, least=1)
    reach = [d * (k - 1) + 1 for d, k in zip(distance, kernel, strict=True)]
    before, after = _padding(name, padding, step, reach)
    padded = [b + n + a for b, n, a in zip(before, sizes, after, strict=True)]
    if any(n < r for n, r in zip(padded, reach, strict=True)):
        raise RuntimeError(
            f"{name}(): Calculated padded input size per channel: {padded}. Kernel size: {reach}, "
            "dilation included. Kernel size can't be greater than actual input size"
        )
    window = Window(
        result=tuple((n - r) // s + 1 for n, r, s in zip(padded, reach, step, strict=True)),
        stride=step,
        padding=tuple(zip(before, after, strict=True)),
        spread=(1,) * dims,
        dilation=distance,
        groups=groups,
    )
    return _convolved(name, operands, window)


conv1d, conv2d, conv3d = for_dims(
    _conv,
    (1, 2, 3),
    "``stride``, ``padding`` and ``dilation`` are an int for all dimensions, or one for each.",
)


def _padding(
    name: str, padding: Any, stride: Sequence[int], reach: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the numbers of zeros before, and those after, each dimension."""
    if not isinstance(padding, str):
        both = _numbers_of(name, "padding", padding, len(reach), least=0)
        return both, both
    arguments.choice(name, "padding", padding, ("valid", "same"))
    if padding == "valid":
        return (0,) * len(reach), (0,) * len(reach)
    if max(stride) > 1:
        raise RuntimeError(
            f"{name}(): padding='same' is not supported for strided convolutions, but got stride "
            f"{list(stride)}"
        )
    return tuple((r - 1) // 2 for r in reach), tuple(r // 2 for r in reach)


def _conv_transpose(  # noqa: D417  # The ops have no ``dims``.
    dims: int,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> jax.Array:
    """Computes the transpose of a convolution, plus a bias.

    Without the bias it is the gradient of a convolution: ``input`` is the cotangent, and the
    result is the gradient for the input of the convolution. Products of float32 have full
    precision, unless ``jax_default_matmul_precision`` is set to a lower one. Products of float16
    and bfloat16 are added in float32, and each sum is rounded.

    Args:
        input: Shape [N, C, L] or [C, L]; integers, floats or complex numbers.
        weight: Shape [C, D / groups, K], in the dtype of ``input``.
        bias: Shape [D], in the dtype of ``input``; or None.
        stride: The stride of the convolution.
        padding: The padding of the convolution, which is cut off on each side of the result.
        output_padding: The number of elements that are added at the end of the result; less than
            ``stride`` or less than ``dilation``.
        groups: The groups of the convolution.
        dilation: The dilation of the convolution.

    Returns:
        An array of shape [N, D, length] or [D, length], in the dtype of ``input``. The length is
        (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1.

    Raises:
        NotImplementedError: The arrays are of bools.
        RuntimeError: Shapes, sizes or dtypes do not fit.
    """
    name = f"conv_transpose{dims}d"
    groups = _positive(name, "groups", groups)
    x, w, b, is_batched = _checked_operands(
        name, dims, input, weight, bias, groups, transposed=True
    )
    kernel = w.shape[2:]
    step = _numbers_of(name, "stride", stride, dims, least=1)
    cut = _numbers_of(name, "padding", padding, dims, least=0)
    extra = _numbers_of(name, "output_padding", output_padding, dims, least=0)
    distance = _numbers_of(name, "dilation", dilation, dims, least=1)
    if any(e >= max(s, d) for e, s, d in zip(extra, step, distance, strict=True)):
        raise RuntimeError(
            f"{name}(): output padding must be smaller than either stride or dilation, but got "
            f"output_padding {list(extra)}, stride {list(step)} and dilation {list(distance)}"
        )
    if min(x.shape[2:]) < 1:
        raise RuntimeError(
            f"{name}(): Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{list(x.shape)}"
        )
    sizes = tuple(
        (n - 1) * s - 2 * c + d * (k - 1) + e + 1
        for n, s, c, d, k, e in zip(x.shape[2:], step, cut, distance, kernel, extra, strict=True)
    )
    if min(sizes) < 1:
        raise RuntimeError(
            f"{name}(): Given input size per channel: {list(x.shape[2:])}. Calculated output "
            f"size per channel: {list(sizes)}. Output size is too small"
        )
    window = Window(
        result=sizes,
        stride=(1,) * dims,
        padding=tuple(
            (d * (k - 1) - c, d * (k - 1) - c + e)
            for d, k, c, e in zip(distance, kernel, cut, extra, strict=True)
        ),
        spread=step,
        dilation=distance,
        groups=groups,
    )
    # The weights of the convolution that computes the image of the other one from its result.
    inputs, outputs, *taps = w.shape
    w = w.reshape(groups, inputs // groups, outputs, *taps)
    w = jnp.swapaxes(w, 1, 2).reshape(groups * outputs, inputs // groups, *taps)
    w = jax.lax.rev(w, tuple(range(2, w.ndim)))
    return _convolved(name, (x, w, b, is_batched), window)


conv_transpose1d, conv_transpose2d, conv_transpose3d = for_dims(
    _conv_transpose,
    (1, 2, 3),
    """``stride``, ``padding``, ``output_padding`` and ``dilation`` are an int for all dimensions,
    or one for each.
    """,
)


#: The input with a batch, the weight, the bias or None, and whether the caller's input had a batch.
_Operands: TypeAlias = tuple[jax.Array, jax.Array, jax.Array | None, bool]


def _checked_operands(
    function: str, dims: int, input: Any, weight: Any, bias: Any, groups: int, *, transposed: bool
) -> _Operands:
    """Checks the arrays of a call, and adds a batch axis to an input without one."""
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
    arguments.check_kind(function, x.dtype, "integer", "floating", "complex")
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
    return x, w, b, batched


def _positive(function: str, name: str, value: Any) -> int:
    """Returns ``value`` as a positive int."""
    number = arguments.integer(function, name, value)
    if number < 1:
        raise RuntimeError(f"{function}(): non-positive {name} is not supported, got {number}")
    return number


def _numbers_of(function: str, name: str, value: Any, dims: int, *, least: int) -> tuple[int, ...]:
    """Returns one int for each dimension, ``least`` or more."""
    numbers = each(function, name, value, dims)
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
            precision=precision(),
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


def _convolved(function: str, operands: _Operands, window: Window) -> jax.Array:
    """Computes a convolution, and adds the bias of each channel, in the accumulator's dtype."""
    x, weight, bias, is_batched = operands
    facts = arguments.facts(x)
    name = f"nn.functional.{function}"
    decision, pullback = decide_both(name, **facts)
    out = window.convolve(x, weight)
    if bias is not None:
        dtype, wide = out.dtype, accumulator(out.dtype)
        bias = convert(bias, wide).reshape(1, -1, *(1,) * len(window.result))
        out = convert(convert(out, wide) + bias, dtype)
    out = alert(alert_pullback(out, pullback), decision)
    return out if is_batched else out[0]
