"""Convolutions in the spec's order ``exact_product``, exact in every order of additions.

As in ``dot_general``, images and kernel become integers on grids (``levels``: Ozaki splitting). An
input channel has the scale of a contracted index, and an image, or a group of its channels, has the
unit of a row. S of a row is the greatest sum over the window of one result. For one channel::

    image, kernel      [2**25, 1, -2**25, 1], [1, 1, 1]
    integers           [2**28, 8, -2**28, 8], [2**22, 2**22, 2**22]        in units of 2**-25
    result             [1, -2**25 + 2]            float32 from left to right gives [0, -2**25]

Three convolutions of the same integers give the same bits, and ``conv_general_dilated`` chooses:

- ``plain``: XLA's own convolution, with channels last, which is fast on a CPU;
- ``products``: products of matrices (``convolution_by_dots``), for libraries that transform
  convolutions, and for groups, where XLA would multiply NaNs by zeros of other groups;
- ``specials``: the one of the two that adds signs, infinities and NaNs. If it is not ``plain``, the
  finite part is computed from operands without special numbers, and repaired afterwards.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._exact import arithmetic
from impl._exact.products import convolution_by_dots as taps
from impl._exact.products import engines
from impl._exact.products import levels as grids
from impl._exact.products.convolution_by_dots import spread_with_zeros
from impl._exact.products.dot_general import result_dtype
from impl._exact.products.shards import Cuts

#: Maps the operands and the dtype of the result to the convolution.
Convolve = Callable[[jax.Array, jax.Array, Any], jax.Array]


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
    engine: str = "float64",
    axis_names: Sequence[Any] = (),
    free_names: Sequence[Any] = (),
    by_products: bool = False,
) -> jax.Array:
    """Returns what ``jax.lax.conv_general_dilated`` does, in the order ``exact_product``.

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
        precision: As in ``jax.lax``. The highest gives the finer grid.
        preferred_element_type: The dtype of the result; float16, bfloat16, float32 or float64.
        engine: A name of ``engines.ENGINES``. Engines of digits give way to float64 where a sum
            has more terms than they hold.
        axis_names: The mesh axes of a ``shard_map`` over which the features that are added are
            sharded. The result is the convolution of the whole operands.
        free_names: The mesh axes over which the features of the result are sharded. The result has
            the bits that the whole kernel gives.
        by_products: Whether to compute products of matrices, for devices whose library may
            transform a convolution. The bits are the same.

    Raises:
        TypeError: A dtype has no exact product.
        NotImplementedError: A sum has more than 2**22 terms.
    """

    def plain(lhs: jax.Array, rhs: jax.Array, dtype: Any) -> jax.Array:
        lhs, rhs, numbers, back = _channels_last(lhs, rhs, dimension_numbers)
        result = lax.conv_general_dilated(
            lhs,
            rhs,
            window_strides,
            tuple(padding),
            lhs_dilation,
            rhs_dilation,
            numbers,
            feature_group_count,
            batch_group_count,
            lax.Precision.HIGHEST,
            dtype,
        )
        return lax.transpose(result, back)

    if not any(jnp.issubdtype(value.dtype, jnp.inexact) for value in (lhs, rhs)):
        return plain(lhs, rhs, preferred_element_type)
    groups = (feature_group_count, batch_group_count)
    spatial = (1,) * (lhs.ndim - 2)
    moves = taps.Window(
        window_strides, tuple(padding), lhs_dilation or spatial, rhs_dilation or spatial
    )

    def products(lhs: jax.Array, rhs: jax.Array, dtype: Any) -> jax.Array:
        return taps.convolve(lhs, rhs, moves, dimension_numbers, groups, dtype)

    window = functools.partial(
        _window_sums,
        strides=window_strides,
        padding=padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
    )
    dtype = result_dtype(lhs, rhs, preferred_element_type)
    factors = grids.factor(lhs), grids.factor(rhs)
    shape = jax.eval_shape(functools.partial(plain, dtype=None), *factors).shape
    cuts = Cuts(tuple(axis_names), tuple(free_names))
    layout = _Layout(dimension_numbers, groups, lhs.shape, rhs.shape, shape, cuts)
    if layout.terms == 0 or 0 in shape:
        return lax.full(shape, 0, dtype)
    level = grids.level_of(layout.terms, (lhs.dtype, rhs.dtype, dtype), precision)
    # For groups of one feature, XLA makes a kernel with zeros for the features of other groups, and
    # multiplies these zeros by NaNs and infinities. Products of matrices have no such zeros.
    by_group = products if max(groups) > 1 else plain
    adds = products if by_products else by_group if layout.terms == 1 else plain
    specials = products if by_products else by_group
    result = _sums(*factors, level, layout, adds, specials, window, dtype, engine)
    return _without_special_kernels(result, factors[1], layout)


def unless_finite(
    repair: Callable[..., jax.Array], result: jax.Array, lhs: jax.Array, rhs: jax.Array
) -> jax.Array:
    """Returns ``result``, or ``repair`` of it if an operand has an infinity or a NaN."""
    repaired: jax.Array = lax.cond(
        grids.has_special(lhs, rhs), repair, lambda result, *_: result, result, lhs, rhs
    )
    return repaired


def _channels_last(
    lhs: jax.Array, rhs: jax.Array, numbers: lax.ConvDimensionNumbers
) -> tuple[jax.Array, jax.Array, lax.ConvDimensionNumbers, tuple[int, ...]]:
    """Returns operands in the one layout for which XLA has a fast convolution on a CPU.

    XLA brings other layouts to this one, but not inside a loop or a called function.

    Returns:
        The images, the kernel, their dimensions, and the order of the result's dimensions.
    """
    last = lhs.ndim - 1
    of_images = (numbers.lhs_spec[0], *numbers.lhs_spec[2:], numbers.lhs_spec[1])
    of_kernel = (*numbers.rhs_spec[2:], numbers.rhs_spec[1], numbers.rhs_spec[0])
    of_result = (numbers.out_spec[0], *numbers.out_spec[2:], numbers.out_spec[1])
    images = (0, last, *range(1, last))
    kernel = (last, last - 1, *range(last - 1))
    return (
        lax.transpose(lhs, of_images),
        lax.transpose(rhs, of_kernel),
        lax.ConvDimensionNumbers(images, kernel, images),
        tuple(of_result.index(dimension) for dimension in range(lhs.ndim)),
    )


def _sums(
    lhs: jax.Array,
    rhs: jax.Array,
    level: grids.Level,
    layout: _Layout,
    plain: Convolve,
    specials: Convolve,
    window: Callable[..., jax.Array],
    dtype: Any,
    engine: str,
) -> jax.Array:
    """Convolves float32. If a kernel has a NaN or an infinity, its results are undefined."""
    if layout.terms == 1:
        left, right = arithmetic.widen(lhs), arithmetic.finite_or_zero(arithmetic.widen(rhs))
        return engines.rounded(engines.Total(plain(left, right, np.float64)), None, dtype)
    left, right, unit = _on_grid(lhs, rhs, level, layout, window)
    right = arithmetic.finite_or_zero(right)
    spread, repairs = left, specials is not plain
    left = arithmetic.finite_or_zero(left) if repairs else left
    total = engines.ENGINES[engine](left, right, level, _Whole(layout.terms, plain, layout.cuts))
    result = engines.rounded(total, unit, dtype)
    if total.high.dtype == np.float64 and not repairs:
        return result
    repair = functools.partial(_repaired, layout.cuts, specials)
    if layout.cuts.summed:  # Devices that share a sum have to take the same branch.
        return repair(result, spread, right)
    return unless_finite(repair, result, spread, right)


@dataclasses.dataclass(frozen=True)
class _Whole:
    """A convolution, whose sums cannot be computed in blocks."""

    terms: int
    plain: Convolve
    cuts: Cuts

    can_cut = False

    def __call__(self, lhs: jax.Array, rhs: jax.Array, dtype: Any, limit: int) -> jax.Array:
        del limit
        return self.cuts.sum(self.plain(lhs, rhs, dtype))


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The dimensions of a convolution. A group's dimension stands before the grouped dimension.

    Attributes:
        numbers: The dimension numbers.
        groups: The number of feature groups, and of batch groups; one of the two is 1.
        lhs_shape: The shape of the images.
        rhs_shape: The shape of the kernel.
        out_shape: The shape of the result.
        cuts: The mesh axes over which the operands are sharded.
    """

    numbers: lax.ConvDimensionNumbers
    groups: tuple[int, int]
    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    cuts: Cuts

    @property
    def terms(self) -> int:
        """The number of terms of a sum whose window has no padding."""
        terms = math.prod(self.rhs_shape[d] for d in self.numbers.rhs_spec[1:])
        return terms * self.cuts.parts

    def split(self, value: jax.Array, dimension: int) -> jax.Array:
        """Splits a dimension into one of groups and one within a group."""
        groups = max(self.groups)
        shape = value.shape
        sizes = (groups, shape[dimension] // groups)
        return lax.reshape(value, (*shape[:dimension], *sizes, *shape[dimension + 1 :]))

    @property
    def grouped_lhs(self) -> int:
        """The dimension of the images that is split: the features, or the batch."""
        return self.numbers.lhs_spec[0 if self.groups[1] > 1 else 1]


def _on_grid(
    lhs: jax.Array,
    rhs: jax.Array,
    level: grids.Level,
    layout: _Layout,
    window: Callable[..., jax.Array],
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns both operands as integers, and the unit of each element of the result."""
    numbers = layout.numbers
    of_rhs = _Split(numbers.rhs_spec, numbers.rhs_spec[0])
    of_lhs = _Split(numbers.lhs_spec, layout.grouped_lhs)
    of_out = _Split(numbers.out_spec, numbers.out_spec[1])
    wide_rhs = layout.split(rhs, of_rhs.dimension)
    wide_lhs = layout.split(lhs, of_lhs.dimension)

    column_at = sorted((of_rhs.group, of_rhs.place(1)))
    column_power = layout.cuts.max_of_free(
        grids.power_below(wide_rhs, _others(wide_rhs, column_at))
    )
    to_lhs = {of_rhs.group: of_lhs.group, of_rhs.place(1): of_lhs.place(1)}
    where = {i: to_lhs[d] for i, d in enumerate(column_at)}
    moved = grids.spread(column_power, wide_lhs.shape, where)

    row_at = sorted((of_lhs.group, of_lhs.place(0)))
    in_lhs = functools.partial(grids.spread, shape=wide_lhs.shape, where=dict(enumerate(row_at)))
    row_power = layout.cuts.max(grids.power_below(wide_lhs, _others(wide_lhs, row_at), moved))

    def sums() -> jax.Array:
        channel = of_lhs.place(1)
        added = lax.reduce_sum(grids.magnitudes(wide_lhs, moved, in_lhs(row_power)), (channel,))
        kept = [d for d in range(wide_lhs.ndim) if d != channel]
        spatial = [kept.index(of_lhs.place(i)) for i in range(2, lhs.ndim)]
        taps = [rhs.shape[d] for d in numbers.rhs_spec[2:]]
        whole = layout.cuts.sum(window(added, spatial, taps))
        return lax.reduce_max(whole, tuple(spatial))

    row_unit = grids.row_unit(row_power, sums, level)
    by_column = grids.spread(
        grids.column_unit(column_power, level), wide_rhs.shape, dict(enumerate(column_at))
    )
    left = lax.reshape(grids.integers(wide_lhs, moved, in_lhs(row_unit)), lhs.shape)
    right = lax.reshape(grids.integers(wide_rhs, by_column), rhs.shape)

    to_out = {of_lhs.group: of_out.group, of_lhs.place(0): of_out.place(0)}
    shape = list(layout.out_shape)
    shape[of_out.dimension] //= max(layout.groups)
    shape.insert(of_out.dimension, max(layout.groups))
    unit = grids.spread(
        grids.product_unit(row_unit, level), shape, {i: to_out[d] for i, d in enumerate(row_at)}
    )
    return left, right, lax.reshape(unit, layout.out_shape)


def _window_sums(
    value: jax.Array,
    spatial: Sequence[int],
    taps: Sequence[int],
    *,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
) -> jax.Array:
    """Adds float64 integers over the windows of a convolution.

    Dilation and padding are applied first: XLA's partitioner fails at windows that have them.
    """

    def all_dimensions(values: Sequence[Any] | None, default: Any) -> tuple[Any, ...]:
        known = dict(zip(spatial, values, strict=True)) if values is not None else {}
        return tuple(known.get(d, default) for d in range(value.ndim))

    spread = spread_with_zeros(
        value, all_dimensions(padding, (0, 0)), all_dimensions(lhs_dilation, 1)
    )
    sums: jax.Array = lax.reduce_window(
        spread,
        np.float64(0),
        lax.add,
        all_dimensions(taps, 1),
        all_dimensions(strides, 1),
        all_dimensions(None, (0, 0)),
        all_dimensions(None, 1),
        all_dimensions(rhs_dilation, 1),
    )
    return sums


@dataclasses.dataclass(frozen=True)
class _Split:
    """The dimensions of an array after one of them is split into groups.

    Attributes:
        spec: The dimensions before, as in ``ConvDimensionNumbers``.
        dimension: The dimension that is split.
    """

    spec: Sequence[int]
    dimension: int

    @property
    def group(self) -> int:
        """The dimension of the groups."""
        return self.dimension

    def place(self, index: int) -> int:
        """The dimension that was ``spec[index]``; of a split one, the dimension within a group."""
        return self.spec[index] + (self.spec[index] >= self.dimension)


def _others(value: jax.Array, dimensions: Sequence[int]) -> tuple[int, ...]:
    return tuple(d for d in range(value.ndim) if d not in dimensions)


def _repaired(
    cuts: Cuts, plain: Convolve, result: jax.Array, left: jax.Array, right: jax.Array
) -> jax.Array:
    """Puts the NaNs and infinities of the images into a result."""
    factors = grids.special_factor(left), grids.special_factor(right)
    return grids.with_specials(result, cuts.sum(plain(*factors, np.float32)))


def _without_special_kernels(result: jax.Array, rhs: jax.Array, layout: _Layout) -> jax.Array:
    """Returns NaN for the outputs whose kernel has a NaN or an infinity.

    Some libraries multiply such a kernel by the zeros of a padding, and others do not.
    """
    numbers = layout.numbers
    axes = tuple(d for d in range(rhs.ndim) if d != numbers.rhs_spec[0])
    special = layout.cuts.any(grids.special_along(rhs, axes))
    special = grids.spread(special, result.shape, {0: numbers.out_spec[1]})
    return lax.select(special, lax.full_like(result, np.nan), result)
