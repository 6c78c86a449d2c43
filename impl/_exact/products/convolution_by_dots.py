"""Convolutions as sums of products of matrices, for devices whose library may transform them.

A library may compute a convolution by a Fourier transform or by Winograd's algorithm, whose errors
exceed the bound of sums of products. cuDNN has such an algorithm for float64 and kernels
of one dimension, and XLA has no option against it. No library transforms a product of matrices.

A *tap* is an element of the kernel's window. There is a product for each tap, or for each result
position, whichever are fewer. In the gradient for a kernel, result positions are fewer::

    images x0 x1 x2 x3, kernel k0 k1        results x0 k0 + x1 k1, x1 k0 + x2 k1, x2 k0 + x3 k1
    by taps          k0 * [x0 x1 x2] + k1 * [x1 x2 x3]
    by positions     [k0 k1] . [x0 x1], [k0 k1] . [x1 x2], [k0 k1] . [x2 x3]

Each x is a matrix of images and channels, and each k a matrix of channels and outputs.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from impl._core.spread import spread_with_zeros
from impl._exact import arithmetic
from impl._exact.products import dot_general
from impl._exact.products.dot_general import Approximation, Bits

#: The greatest number of products that are written one after another; more are a loop.
_UNROLLED = 32


def convolve(
    lhs: jax.Array,
    rhs: jax.Array,
    window: Window,
    numbers: lax.ConvDimensionNumbers,
    groups: tuple[int, int],
    parts: int,
    bits: Bits | None,
) -> Approximation:
    """Returns a convolution, as the engine adds it.

    Args:
        lhs: The images, float64.
        rhs: The kernel, float64.
        window: The movement of the kernel.
        numbers: The dimension numbers.
        groups: The number of feature groups, and of batch groups; one of the two is 1.
        parts: The number of equal parts of the channels of a group that products by positions add
            separately.
        bits: The bits that it asks for; None for all bits of float64.

    Returns:
        The images, the features, and the spatial dimensions of the result.
    """
    images, kernel = grouped(lhs, rhs, numbers, groups)
    images = window.prepared(images)
    taps = kernel.shape[3:]
    positions = window.positions(images.shape[3:], taps)
    call = _Call(window, positions, taps, parts, bits)
    are_taps_few = math.prod(taps) <= math.prod(positions)
    found = (call.by_taps if are_taps_few else call.by_positions)(images, kernel)

    def joined(result: jax.Array) -> jax.Array:
        result = lax.transpose(result, (1, 0, 2, *range(3, result.ndim)))
        batch, number, outputs, *_ = result.shape
        return lax.reshape(result, (batch, number * outputs, *positions))

    return found.each(joined)


@dataclasses.dataclass(frozen=True)
class Window:
    """The movement of a kernel over images; each field has a value for each spatial dimension.

    Attributes:
        strides: The steps of the kernel.
        padding: The low and the high padding; negative ones crop.
        lhs_dilation: The distance of neighbouring elements of the image.
        rhs_dilation: The distance of neighbouring elements of the kernel.
    """

    strides: Sequence[int]
    padding: Sequence[tuple[int, int]]
    lhs_dilation: Sequence[int]
    rhs_dilation: Sequence[int]

    def prepared(self, images: jax.Array) -> jax.Array:
        """Returns images dilated and padded, along their last dimensions, which are spatial."""
        others = images.ndim - len(self.padding)
        return spread_with_zeros(
            images, [(0, 0)] * others + [*self.padding], [1] * others + [*self.lhs_dilation]
        )

    def spread(self, sizes: Iterable[int]) -> tuple[int, ...]:
        """Returns the spatial shape of images that are dilated and padded."""
        return tuple(
            max((size - 1) * apart + 1, 0) + low + high
            for size, apart, (low, high) in zip(sizes, self.lhs_dilation, self.padding, strict=True)
        )

    def positions(self, sizes: Sequence[int], taps: Sequence[int]) -> tuple[int, ...]:
        """Returns the spatial shape of the result for prepared images and a kernel."""
        reach = ((tap - 1) * by + 1 for tap, by in zip(taps, self.rhs_dilation, strict=True))
        return tuple(
            (size - far) // step + 1
            for size, far, step in zip(sizes, reach, self.strides, strict=True)
        )


def grouped(
    lhs: jax.Array, rhs: jax.Array, numbers: lax.ConvDimensionNumbers, groups: tuple[int, int]
) -> tuple[jax.Array, jax.Array]:
    """Returns both operands as they are multiplied: with the groups as their first dimension.

    The other dimensions are the batch and the features, or the outputs and the features.
    """
    images = lax.transpose(lhs, numbers.lhs_spec)
    kernel = lax.transpose(rhs, numbers.rhs_spec)
    number = max(groups)
    batch, features, *sizes = images.shape
    if groups[1] > 1:
        images = lax.reshape(images, (number, batch // number, features, *sizes))
    else:
        images = lax.reshape(images, (batch, number, features // number, *sizes))
        images = lax.transpose(images, (1, 0, *range(2, images.ndim)))
    outputs, *others = kernel.shape
    return images, lax.reshape(kernel, (number, outputs // number, *others))


@dataclasses.dataclass(frozen=True)
class _Call:
    """The products of a convolution.

    Attributes:
        window: The movement of the kernel.
        positions: The spatial shape of the result.
        taps: The spatial shape of the kernel.
        parts: The number of parts of the channels that ``by_positions`` adds separately.
        bits: The bits that the products ask for; None for all bits of float64.
    """

    window: Window
    positions: tuple[int, ...]
    taps: tuple[int, ...]
    parts: int
    bits: Bits | None

    def by_taps(self, images: jax.Array, kernel: jax.Array) -> Approximation:
        """Adds the products of each element of the kernel with all the images that it meets."""

        def term(*tap: Any) -> Approximation:
            starts = [at * by for at, by in zip(tap, self.window.rhs_dilation, strict=True)]
            met = _part(images, starts, self.positions, self.window.strides)
            element = lax.reshape(
                _part(kernel, tap, (1,) * len(tap), (1,) * len(tap)), kernel.shape[:3]
            )
            numbers = (((2,), (2,)), ((0,), (0,)))
            product = dot_general.product(element, met, numbers, self.bits)
            return product.each(lambda x: lax.transpose(x, (0, 2, 1, *range(3, x.ndim))))

        def add(one: Approximation, other: Approximation) -> Approximation:
            total: Approximation = jax.tree.map(lax.add, one, other)
            return total

        count = math.prod(self.taps)
        if count <= _UNROLLED:
            found = functools.reduce(add, itertools.starmap(term, np.ndindex(self.taps)))
        else:
            first = jax.eval_shape(lambda: term(*(0 for _ in self.taps)))
            found = lax.fori_loop(
                0,
                count,
                lambda i, total: add(total, term(*_position(i, self.taps))),
                jax.tree.map(lambda x: lax.full(x.shape, 0, x.dtype), first),
            )
        return found.each(lambda x: x, count)

    def by_positions(self, images: jax.Array, kernel: jax.Array) -> Approximation:
        """Returns each result position: the product of the kernel and the images below it."""

        def place(*at: Any) -> Approximation:
            starts = [i * by for i, by in zip(at, self.window.strides, strict=True)]
            met = _part(images, starts, self.taps, self.window.rhs_dilation)
            return self._product(kernel, met)

        count = math.prod(self.positions)
        if count <= _UNROLLED:
            found = list(itertools.starmap(place, np.ndindex(self.positions)))
            stacked: Approximation = jax.tree.map(
                lambda *each: lax.concatenate([lax.expand_dims(x, (0,)) for x in each], 0), *found
            )
        else:
            positions = lax.iota(np.int32, count)
            stacked = lax.map(lambda i: place(*_position(i, self.positions)), positions)

        def spatial_last(value: jax.Array) -> jax.Array:
            last = lax.transpose(value, (1, 2, 3, 0))
            return lax.reshape(last, (*last.shape[:3], *self.positions))

        return stacked.each(spatial_last)

    def _product(self, kernel: jax.Array, images: jax.Array) -> Approximation:
        """Contracts the channels and the spatial dimensions, parts of the channels separately.

        Args:
            kernel: The groups, the outputs, the channels and spatial dimensions.
            images: The groups, the batch, the channels and spatial dimensions.

        Returns:
            The groups, the batch and the outputs.
        """
        parts = self.parts
        if parts > 1:
            kernel, images = (
                lax.reshape(each, (*each.shape[:2], parts, each.shape[2] // parts, *each.shape[3:]))
                for each in (kernel, images)
            )
            contracted = tuple(range(3, kernel.ndim))
            by_parts = ((contracted, contracted), ((0, 2), (0, 2)))
            found = dot_general.product(kernel, images, by_parts, self.bits)
            # The seal keeps XLA from adding all parts in one product.
            found = found.each(lambda x: lax.reduce_sum(arithmetic.seal(x), (1,)), parts)
        else:
            contracted = tuple(range(2, kernel.ndim))
            numbers = ((contracted, contracted), ((0,), (0,)))
            found = dot_general.product(kernel, images, numbers, self.bits)
        return found.each(lambda x: lax.transpose(x, (0, 2, 1)))


def _part(
    value: jax.Array, starts: Sequence[Any], sizes: Sequence[int], steps: Sequence[int]
) -> jax.Array:
    """Returns every element at ``steps`` of the spatial dimensions, which are the last ones."""
    extents = [(size - 1) * step + 1 for size, step in zip(sizes, steps, strict=True)]
    others = list(value.shape[:3])
    if all(isinstance(start, int) for start in starts):
        ends = [start + extent for start, extent in zip(starts, extents, strict=True)]
        return lax.slice(value, [0, 0, 0, *starts], [*others, *ends], [1, 1, 1, *steps])
    zeros = [np.int32(0)] * 3
    met = lax.dynamic_slice(value, [*zeros, *starts], [*others, *extents])
    return lax.slice(met, [0] * met.ndim, met.shape, [1, 1, 1, *steps])


def _position(index: jax.Array, sizes: Sequence[int]) -> list[jax.Array]:
    """Returns the indices of an element of an array of ``sizes``, from its row-major number."""
    index = lax.convert_element_type(index, np.int32)
    found: list[jax.Array] = []
    for size in reversed(sizes):
        found.append(lax.rem(index, lax.full_like(index, size)))
        index = lax.div(index, lax.full_like(index, size))
    return found[::-1]
