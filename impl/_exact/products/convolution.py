"""Convolutions in the spec's order ``nearest``: products of what windows hold, and a kernel.

The *window* of a result is what the kernel meets there. So a convolution is a product of matrices,
whose rows are windows (Chellapilla, Puri and Simard 2006, https://inria.hal.science/inria-00112631),
and ``dot_general`` computes it::

    images x0 x1 x2 x3, kernel k0 k1
    windows    x0 x1        results    x0 k0 + x1 k1
               x1 x2                   x1 k0 + x2 k1
               x2 x3                   x2 k0 + x3 k1

No convolution is left to XLA. Its libraries may compute one by a Fourier transform or by Winograd's
algorithm, whose errors exceed the bound of sums of products: cuDNN does for float64 and kernels of
one dimension, and there is no option against it. For groups, XLA multiplies NaNs by zeros of other
groups. Its partitioner gives wrong values, or aborts the process, where it cuts groups or the
spatial axes of a kernel.

Windows overlap, so they take more memory than the images. If they take too much, one part of the
images is convolved after the other.
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
from jax import lax

from impl._core.axes import spread_with_zeros
from impl._core.numerics import fence
from impl._exact.nearest import interval
from impl._exact.products import dot_general
from impl._exact.products.layout import DimensionNumbers
from impl._native import products as native
from impl._native.scope import or_native

#: The greatest number of elements of windows that one device makes at once.
_MOST = 1 << 28


@or_native(native.conv_general_dilated)
def conv_general_dilated(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    preferred_element_type: jax.typing.DTypeLike | None = None,
    axis_names: Sequence[Any] = (),
    is_partitioned: bool = False,
    **params: Any,
) -> jax.Array:
    """Returns what ``jax.lax.conv_general_dilated`` does, in the order ``nearest``.

    If the kernel of an output has a NaN or an infinity, the output is NaN: some libraries multiply
    a kernel by the zeros of a padding, and others do not. Call this inside ``arithmetic.wide()``.

    Args:
        lhs: The images: a float of 32 bits or fewer, an integer of 16 bits or fewer, or bool. One
            of the operands is a float.
        rhs: The kernel, of such a dtype.
        preferred_element_type: The dtype of the result; float16, bfloat16, float32 or float64.
        axis_names: The mesh axes of a ``shard_map`` over which the features that are added are
            sharded. The result is the convolution of the whole operands.
        is_partitioned: Whether XLA may partition the convolution. The bits are the same.
        **params: The other parameters of an equation.

    Raises:
        TypeError: A dtype has no exact product.
    """
    call = Convolution.of(params)
    images, kernel = call.grouped(lhs, rhs)
    if jnp.issubdtype(kernel.dtype, jnp.floating):
        kernel = lax.select(lax.is_finite(kernel), kernel, lax.full_like(kernel, np.nan))
    multiply = functools.partial(
        dot_general.dot_general,
        dimension_numbers=call.dimension_numbers,
        preferred_element_type=preferred_element_type,
        axis_names=axis_names,
        is_partitioned=is_partitioned,
    )

    windows, axis = call.windows(images, kernel), call.batch
    parts = 1 if is_partitioned else _parts(images.shape[axis], windows.shape)
    if parts == 1:
        return call.in_order(multiply(windows, kernel))
    each = _split(images, axis, parts)
    result = lax.map(lambda part: multiply(call.windows(part, kernel), kernel), each)
    return call.in_order(_joined(result, axis))


def _parts(images: Any, windows: Sequence[Any]) -> Any:
    """Returns the least number of equal parts of the images whose windows are few enough."""
    if not all(isinstance(size, int) for size in windows):  # A symbolic size of jax.export.
        return 1
    size = math.prod(windows)
    return next((n for n in interval.divisors(max(images, 1)) if size <= _MOST * n), images)


def _split(value: jax.Array, axis: int, parts: int) -> jax.Array:
    """Returns an array with equal parts of an axis along a new first axis."""
    shape = *value.shape[:axis], parts, value.shape[axis] // parts, *value.shape[axis + 1 :]
    return jnp.moveaxis(lax.reshape(value, shape), axis, 0)


def _joined(value: jax.Array, axis: int) -> jax.Array:
    """Returns an array whose first axis has parts of another axis, its own number after it."""
    moved = jnp.moveaxis(value, 0, axis)
    first, second = moved.shape[axis : axis + 2]
    return lax.reshape(moved, (*moved.shape[:axis], first * second, *moved.shape[axis + 2 :]))


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A convolution as a product. Where there are groups, they are the first axis of both factors.

    Attributes:
        numbers: The dimension numbers of ``jax.lax``.
        strides: The steps of the kernel.
        padding: The low and the high padding of each spatial dimension; negative ones crop.
        lhs_dilation: The distance of neighbouring elements of the images.
        rhs_dilation: The distance of neighbouring elements of the kernel.
        groups: The number of feature groups, and of batch groups; one of the two is 1.
    """

    numbers: lax.ConvDimensionNumbers
    strides: Sequence[int]
    padding: Sequence[tuple[int, int]]
    lhs_dilation: Sequence[int]
    rhs_dilation: Sequence[int]
    groups: tuple[int, int]

    @classmethod
    def of(cls, params: Any) -> Convolution:
        """Returns the convolution with the parameters of an equation."""
        spatial = (1,) * len(params["window_strides"])
        return cls(
            params["dimension_numbers"],
            params["window_strides"],
            params["padding"],
            params.get("lhs_dilation") or spatial,
            params.get("rhs_dilation") or spatial,
            (params.get("feature_group_count", 1), params.get("batch_group_count", 1)),
        )

    @property
    def batch(self) -> int:
        """The axis of the images in the factors, and the number of axes of groups before it."""
        return int(max(self.groups) > 1)

    @property
    def dimension_numbers(self) -> DimensionNumbers:
        """The dimension numbers of the product: taps and features are contracted."""
        first, rank = self.batch + 1, len(self.strides)
        taps = [first + 1 + 2 * i for i in range(rank)]
        groups = tuple(range(self.batch))
        contracted = (*taps, first + 2 * rank), tuple(range(first, first + rank + 1))
        return contracted, (groups, groups)

    def grouped(self, lhs: jax.Array, rhs: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns both operands with the features last, and with groups, if any, first."""
        (image, channel, *sizes), (output, of_kernel, *taps), _ = self.numbers
        images = lax.transpose(lhs, (image, *sizes, channel))
        kernel = lax.transpose(rhs, (output, *taps, of_kernel))
        if not self.batch:
            return images, kernel
        axis = 0 if self.groups[1] > 1 else images.ndim - 1
        number = max(self.groups)
        return _split(images, axis, number), _split(kernel, 0, number)

    def windows(self, images: jax.Array, kernel: jax.Array) -> jax.Array:
        """Returns windows: for each spatial dimension, the positions of results, and the taps.

        Images and kernel are as ``grouped`` returns them.
        """
        first, others = self.batch + 1, [(0, 0)] * (self.batch + 1)
        value = spread_with_zeros(
            images,
            [*others, *self.padding, (0, 0)],
            [*(1 for _ in others), *self.lhs_dilation, 1],
        )
        for i, (stride, apart) in enumerate(zip(self.strides, self.rhs_dilation, strict=True)):
            axis, taps = first + 2 * i, kernel.shape[first + i]
            size = value.shape[axis]
            positions = max((size - max((taps - 1) * apart + 1, 0)) // stride + 1, 0)
            at = np.arange(positions)[:, None] * stride + np.arange(taps) * apart
            if not size:  # Nothing is read, but a gather needs an element.
                value = lax.full((*value.shape[:axis], 1, *value.shape[axis + 1 :]), 0, value.dtype)
            # XLA folds a chain of gathers of constants to wrong values, unless there is a fence.
            value = jnp.take(value, fence(jnp.asarray(at, np.int32)), axis=axis, mode="clip")
        return value

    def in_order(self, product: jax.Array) -> jax.Array:
        """Returns the product with the dimensions of the convolution."""
        image, output, *sizes = self.numbers.out_spec
        if self.batch:
            product = _joined(product, product.ndim - 2)
        return lax.transpose(product, np.argsort([image, *sizes, output]).tolist())
