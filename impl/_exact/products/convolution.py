"""Convolutions in the spec's order ``nearest``: exact real sums, rounded once.

As in ``dot_general``, a library adds exact products in float64, in any order, and a bound tells
whether the exact sum may be rounded otherwise. If no term goes through more than n roundings, the
error of a sum is at most n u / (1 - n u) sum(abs(a b)) with u = 2**-53 (Higham, *Accuracy and
Stability of Numerical Algorithms*, 2002, section 4.2). By Cauchy and Schwarz, sum(abs(a b)) is at
most the norm of the part of the image under the kernel, its *window*, times the norm of the kernel
of the feature. The squares of an image are added over its channels once, and these sums serve the
windows of all features. For one channel::

    image, kernel         [2**30, 1, -2**30, 1], [1, 1, 1]
    sums of squares       [2**61 + 1, 2**61 + 2] of windows, 3 of the kernel
    bounds                2**-20, about
    float64               [1, -2**30 + 2]
    float32               in doubt, since its neighbours are 2**-23 apart; -2**30

Two convolutions give the approximation, and ``_approximate`` chooses:

- ``_by_library``: XLA's own convolution, with channels last, which is fast on a CPU;
- ``convolution_by_dots``: products of matrices, for libraries that transform convolutions, and for
  groups, where XLA would multiply NaNs by zeros of other groups.

Both add long sums in parts, as the gradient for a kernel has them: one chain of n additions puts
about n**1.5 times as many elements in doubt as a chain of one, and each of them has n terms.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.devices import Devices
from impl._core.numerics import in_any_order
from impl._core.spread import spread_with_zeros
from impl._exact import arithmetic
from impl._exact.nearest import interval, last_bits, repair
from impl._exact.products import convolution_by_dots as taps
from impl._exact.products import dot_general
from impl._exact.products.dot_general import Approximation, Bits
from impl._native import products as native
from impl._native.scope import or_native

#: The greatest number of terms that are added in one chain, if a channel has no more.
_BLOCK = 1024


@or_native(native.conv_general_dilated)
def conv_general_dilated(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: lax.ConvDimensionNumbers,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: jax.typing.DTypeLike | None = None,
    axis_names: Sequence[Any] = (),
    by_products: bool = False,
    is_partitioned: bool = False,
) -> jax.Array:
    """Returns what ``jax.lax.conv_general_dilated`` does, in the order ``nearest``.

    If the kernel of an output has a NaN or an infinity, the output is NaN. Convolutions of integers
    are left to ``jax.lax``. Call this inside ``arithmetic.wide()``.
    ``jax.lax.conv_general_dilated`` has the parameters up to ``preferred_element_type`` too.

    Args:
        lhs: The images: a float of 32 bits or fewer, an integer of 16 bits or fewer, or bool.
        rhs: The kernel, of such a dtype.
        window_strides: As in ``jax.lax``.
        padding: The low and the high padding of each spatial dimension; negative ones crop.
        lhs_dilation: As in ``jax.lax``.
        rhs_dilation: As in ``jax.lax``.
        dimension_numbers: The dimensions of the images, the kernel and the result, as an equation
            has them.
        feature_group_count: As in ``jax.lax``.
        batch_group_count: As in ``jax.lax``.
        precision: As in ``jax.lax``. The bits do not depend on it.
        preferred_element_type: The dtype of the result; float16, bfloat16, float32 or float64.
        axis_names: The mesh axes of a ``shard_map`` over which the features that are added are
            sharded. The result is the convolution of the whole operands.
        by_products: Whether to compute products of matrices, for devices whose library may
            transform a convolution. The bits are the same.
        is_partitioned: Whether XLA may partition the convolution. The bits are the same.

    Raises:
        TypeError: A dtype has no exact product.
    """
    del precision
    if lhs.ndim == 2:  # A convolution without positions is one with a single position.
        result = conv_general_dilated(
            lax.expand_dims(lhs, (2,)),
            lax.expand_dims(rhs, (2,)),
            window_strides=(1,),
            padding=((0, 0),),
            dimension_numbers=lax.ConvDimensionNumbers(*((*s, 2) for s in dimension_numbers)),
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
            preferred_element_type=preferred_element_type,
            axis_names=axis_names,
            by_products=by_products,
            is_partitioned=is_partitioned,
        )
        return lax.squeeze(result, (2,))
    spatial = (1,) * (lhs.ndim - 2)
    call = _Call(
        dimension_numbers,
        (feature_group_count, batch_group_count),
        taps.Window(
            window_strides, tuple(padding), lhs_dilation or spatial, rhs_dilation or spatial
        ),
        lhs.shape,
        rhs.shape,
        Devices(tuple(axis_names)),
    )
    if not any(jnp.issubdtype(value.dtype, jnp.inexact) for value in (lhs, rhs)):
        return call.in_order(_by_library(lhs, rhs, call, preferred_element_type))
    dtype = dot_general.result_dtype(lhs, rhs, preferred_element_type)
    bits = Bits.of(lhs.dtype, rhs.dtype, dtype)
    lhs, rhs = dot_general.factor(lhs), dot_general.factor(rhs)
    if call.terms == 0 or 0 in call.shape:
        return call.in_order(lax.full(call.shape, 0, dtype))
    chosen = {"by_products": by_products, "is_partitioned": is_partitioned}
    return call.in_order(_rounded(lhs, rhs, call, dtype, bits, **chosen))


def _rounded(
    lhs: jax.Array,
    rhs: jax.Array,
    call: _Call,
    dtype: Any,
    bits: Bits,
    *,
    by_products: bool,
    is_partitioned: bool,
) -> jax.Array:
    """Convolves float32, and rounds once."""
    # Some libraries multiply a kernel by the zeros of a padding, and others do not.
    kernel = arithmetic.finite_or_zero(rhs)
    left, right = arithmetic.widen(lhs), arithmetic.widen(rhs)
    axes = tuple(d for d in range(rhs.ndim) if d != call.numbers.rhs_spec[0])
    with in_any_order():
        found = _approximate(lhs, kernel, call, bits, by_products=by_products)
        found = found.each(call.devices.sum, call.devices.number - 1)
        of_kernels = call.devices.sum(lax.reduce_sum(lax.mul(right, right), axes))

        def error_of(chain: Any) -> jax.Array:
            error = _error(left, of_kernels, call, chain)
            return last_bits.error_of_products(
                error, chain, (lhs, kernel), call.terms, call.devices, is_partitioned=is_partitioned
            )

        error = found.error(error_of)
    is_number = call.of_features(lax.is_finite(of_kernels))
    total = lax.select(is_number, found.total, lax.full_like(found.total, np.nan))
    if call.terms == 1:
        return interval.positive_zero(arithmetic.narrow(total, dtype))
    coded = interval.rounded(total, error, dtype)

    def terms(position: jax.Array) -> jax.Array:
        return _terms(lhs, kernel, call, position)

    return repair.repaired_sums(coded, dtype, call.local_terms, terms, call.devices)


@dataclasses.dataclass(frozen=True)
class _Call:
    """A convolution. Its result has the images first, and the features last.

    Attributes:
        numbers: The dimension numbers.
        groups: The number of feature groups, and of batch groups; one of the two is 1.
        window: The movement of the kernel.
        lhs_shape: The shape of the images.
        rhs_shape: The shape of the kernel.
        devices: The devices that share the sums.
    """

    numbers: lax.ConvDimensionNumbers
    groups: tuple[int, int]
    window: taps.Window
    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    devices: Devices

    @property
    def taps(self) -> tuple[int, ...]:
        """The spatial shape of the kernel."""
        return tuple(self.rhs_shape[d] for d in self.numbers.rhs_spec[2:])

    @property
    def channels(self) -> int:
        """The number of channels of a group, on a device."""
        return self.rhs_shape[self.numbers.rhs_spec[1]]

    @property
    def local_terms(self) -> int:
        """The number of terms on a device of a sum whose window has no padding."""
        return self.channels * math.prod(self.taps)

    @property
    def terms(self) -> int:
        """The number of terms of such a sum on all devices that share it."""
        return self.local_terms * self.devices.number

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        spread = self.window.spread(self.lhs_shape[d] for d in self.numbers.lhs_spec[2:])
        images = self.lhs_shape[self.numbers.lhs_spec[0]] // self.groups[1]
        features = self.rhs_shape[self.numbers.rhs_spec[0]]
        return (images, *self.window.positions(spread, self.taps), features)

    def in_order(self, result: jax.Array) -> jax.Array:
        """Returns a result with the dimensions that the caller wants."""
        last = result.ndim - 1
        order = self.numbers.out_spec
        here = {order[0]: 0, order[1]: last}
        here.update({dimension: 1 + i for i, dimension in enumerate(order[2:])})
        return lax.transpose(result, tuple(here[d] for d in range(result.ndim)))

    def of_features(self, value: jax.Array) -> jax.Array:
        """Broadcasts a value of each feature to the shape of the result."""
        return lax.broadcast_in_dim(value, self.shape, (len(self.shape) - 1,))


def _by_library(lhs: jax.Array, rhs: jax.Array, call: _Call, dtype: Any) -> jax.Array:
    """Returns XLA's own convolution.

    The channels are last, the one layout for which XLA has a fast convolution on a CPU. XLA brings
    other layouts to this one, but not inside a loop or a called function. Images of one dimension
    get a second one, of one row: the library of XLA for a CPU takes float64 of two dimensions.
    """
    numbers, window = call.numbers, call.window
    lhs = lax.transpose(lhs, (numbers.lhs_spec[0], *numbers.lhs_spec[2:], numbers.lhs_spec[1]))
    rhs = lax.transpose(rhs, (*numbers.rhs_spec[2:], numbers.rhs_spec[1], numbers.rhs_spec[0]))
    row = () if lhs.ndim != 3 else (1,)
    if row:
        lhs, rhs = lax.expand_dims(lhs, (1,)), lax.expand_dims(rhs, (0,))
    last = lhs.ndim - 1
    images = (0, last, *range(1, last))
    kernel = (last, last - 1, *range(last - 1))
    result: jax.Array = lax.conv_general_dilated(
        lhs,
        rhs,
        (*row, *window.strides),
        (*((0, 0) for _ in row), *window.padding),
        (*row, *window.lhs_dilation),
        (*row, *window.rhs_dilation),
        lax.ConvDimensionNumbers(images, kernel, images),
        *call.groups,
        lax.Precision.HIGHEST,
        dtype,
    )
    return lax.squeeze(result, (1,)) if row else result


def _approximate(
    lhs: jax.Array, rhs: jax.Array, call: _Call, bits: Bits, *, by_products: bool
) -> Approximation:
    """Returns the sums of a device as the engine adds them.

    Args:
        lhs: The images, float32.
        rhs: The kernel, float32.
        call: The convolution.
        bits: The bits that it asks for.
        by_products: Whether XLA's own convolution must not be used.
    """
    parts = _parts(call.channels, call.local_terms)
    # For groups of one feature, XLA makes a kernel with zeros for the features of other groups, and
    # multiplies these zeros by NaNs and infinities. Products of matrices have no such zeros.
    if by_products or max(call.groups) > 1:
        left, right = arithmetic.widen(lhs), arithmetic.widen(rhs)
        found = taps.convolve(left, right, call.window, call.numbers, call.groups, parts, bits)
        return found.each(lambda x: lax.transpose(x, (0, *range(2, x.ndim), 1)))
    size = call.channels // parts

    def part(index: Any) -> jax.Array:
        at = lax.mul(lax.convert_element_type(index, np.int32), np.int32(size))
        left = lax.dynamic_slice_in_dim(lhs, at, size, call.numbers.lhs_spec[1])
        right = lax.dynamic_slice_in_dim(rhs, at, size, call.numbers.rhs_spec[1])
        return _by_library(arithmetic.widen(left), arithmetic.widen(right), call, np.float64)

    if parts == 1:
        whole = _by_library(arithmetic.widen(lhs), arithmetic.widen(rhs), call, np.float64)
        return Approximation(whole, None, call.local_terms)
    result = lax.fori_loop(
        0,
        parts,
        lambda index, total: lax.add(total, part(index)),
        lax.full(call.shape, 0, np.float64),
    )
    return Approximation(result, None, call.local_terms // parts + parts)


def _parts(channels: int, terms: int) -> int:
    """Returns the least number of equal parts of channels with at most ``_BLOCK`` terms.

    A part has at least one channel.
    """
    divisors = interval.divisors(channels)
    return next((parts for parts in divisors if terms <= _BLOCK * parts), channels)


def _squares_of_windows(left: jax.Array, call: _Call) -> jax.Array:
    """Returns the sums of squares of windows, or greater ones, on all devices that share them.

    A sum over a window with a NaN or an infinity is not in doubt, so its squares may be missing.

    Returns:
        Shape [images, *positions, groups]; the positions have the length 1 if they share a sum.
    """
    number, spec = max(call.groups), call.numbers.lhs_spec
    split = spec[0] if call.groups[1] > 1 else spec[1]
    shape = list(left.shape)
    shape[split : split + 1] = number, shape[split] // number
    # The dimension of the groups stands at ``split`` now.
    batch, channel, *spatial = (d + (d >= split) for d in spec)
    squares = lax.reshape(lax.mul(left, left), shape)
    kept = [d for d in range(len(shape)) if d != channel]
    order = [kept.index(d) for d in (batch, *spatial, split)]
    sums = lax.transpose(lax.reduce_sum(squares, (channel,)), order)
    sums = arithmetic.finite_or_zero(call.devices.sum(sums))
    axes = tuple(range(1, 1 + len(spatial)))
    if 2 * math.prod(call.taps) >= math.prod(sums.shape[i] for i in axes):
        # In the gradient for a kernel, the window is most of the image.
        return lax.expand_dims(lax.reduce_sum(sums, axes), axes)
    # Dilation and padding are applied first: XLA's partitioner fails at windows that have them.
    window = call.window
    spread = spread_with_zeros(
        sums, [(0, 0), *window.padding, (0, 0)], [1, *window.lhs_dilation, 1]
    )
    found: jax.Array = lax.reduce_window(
        spread,
        np.float64(0),
        lax.add,
        (1, *call.taps, 1),
        (1, *window.strides, 1),
        [(0, 0)] * spread.ndim,
        None,
        (1, *window.rhs_dilation, 1),
    )
    return found


def _error(left: jax.Array, of_kernels: jax.Array, call: _Call, chain: float) -> jax.Array:
    """Returns a bound of the error of each sum: n u / (1 - n u) times the norms of both factors.

    Args:
        left: The images, float64.
        of_kernels: The sum of squares of the kernel of each feature.
        call: The convolution.
        chain: This factor (``interval.of_chain``).
    """
    norm = lax.sqrt(of_kernels)
    norm = call.of_features(lax.mul(norm, lax.full_like(norm, chain)))
    each = lax.sqrt(_squares_of_windows(left, call))
    groups, features = each.shape[-1], call.shape[-1]
    each = lax.broadcast_in_dim(each, (*each.shape, features // groups), tuple(range(each.ndim)))
    each = lax.reshape(each, (*each.shape[:-2], features))
    return lax.mul(jnp.broadcast_to(each, call.shape), norm)


def _terms(lhs: jax.Array, rhs: jax.Array, call: _Call, position: jax.Array) -> jax.Array:
    """Returns the terms of elements of the result, float64, shape [elements, terms].

    Args:
        lhs: The images, float32.
        rhs: The kernel, float32.
        call: The convolution.
        position: The positions of the elements in the flat result, int32.
    """
    numbers = call.numbers
    index = dot_general.unravelled(position, call.shape)
    image, feature = index[:, :1], index[:, -1:]
    start: dict[int, jax.Array] = {numbers.lhs_spec[0]: image}
    if max(call.groups) > 1:
        group = lax.div(feature, lax.full_like(feature, call.shape[-1] // max(call.groups)))
        if call.groups[1] > 1:
            first = lax.mul(group, lax.full_like(group, call.shape[0]))
            start[numbers.lhs_spec[0]] = lax.add(image, first)
        else:
            first = lax.mul(group, lax.full_like(group, call.channels))
            start[numbers.lhs_spec[1]] = first
    met = _window(lhs, call, start, index[:, 1:-1])
    kernel = dot_general.rows(
        rhs, [numbers.rhs_spec[0]], feature, [*numbers.rhs_spec[2:], numbers.rhs_spec[1]]
    )
    return dot_general.products(lax.reshape(met, kernel.shape), kernel)


def _window(
    lhs: jax.Array, call: _Call, start: Mapping[int, jax.Array], at: jax.Array
) -> jax.Array:
    """Returns what the taps of a kernel read for elements of the result; zeros outside of it.

    Args:
        lhs: The images, float32.
        call: The convolution.
        start: The image of each element, and the first channel if it is not 0, by their dimension;
            shape [elements, 1].
        at: The spatial indices of each element, shape [elements, dimensions].

    Returns:
        Shape [elements, taps, channels].
    """
    _, channel, *spatial = call.numbers.lhs_spec
    window, offsets = call.window, [d for d in range(lhs.ndim) if d in {channel, *spatial}]
    padding: list[Any] = [(0, 0)] * lhs.ndim
    dilation, sizes, steps = ([1] * lhs.ndim for _ in range(3))
    sizes[channel] = call.channels
    for i, d in enumerate(spatial):
        padding[d], dilation[d] = window.padding[i], window.lhs_dilation[i]
        sizes[d], steps[d] = (call.taps[i] - 1) * window.rhs_dilation[i] + 1, window.rhs_dilation[i]
    strides = lax.broadcast_in_dim(np.array(window.strides, np.int32), at.shape, (1,))
    met = lax.gather(
        spread_with_zeros(lhs, padding, dilation),
        lax.concatenate([*start.values(), lax.mul(at, strides)], 1),
        lax.GatherDimensionNumbers(
            offset_dims=tuple(range(1, 1 + len(offsets))),
            collapsed_slice_dims=tuple(d for d in range(lhs.ndim) if d not in offsets),
            start_index_map=(*start, *spatial),
        ),
        sizes,
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )
    apart = [1, *(steps[d] for d in offsets)]
    met = lax.slice(met, [0] * met.ndim, met.shape, apart)
    order = (0, *(1 + offsets.index(d) for d in (*spatial, channel)))
    return lax.reshape(
        lax.transpose(met, order), (at.shape[0], math.prod(call.taps), call.channels)
    )
