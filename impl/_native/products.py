"""Products of matrices and convolutions of the engine ``native``.

A call reads both operands in place, of any dimension numbers, and writes the result in place. Its
attributes have a size and the strides of the arrays for each axis::

    lhs f32[2, 5, 7], rhs f32[2, 9, 7], contracting 2 with 2, batch 0 with 0
    batch     2, 35, 63, 45    size, strides of lhs, rhs and the result
    lines     5, 7, 9          size, strides of lhs and the result
    columns   9, 7, 1          size, strides of rhs and the result
    terms     7, 1, 1          size, strides of both operands

A convolution has a window for each spatial dimension too. Padding and dilation are not made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._jax.shardings import Names
from impl._native.call import Found, computes
from impl._native.operation import DTYPES, Summing, are_ascending, longs, strides, takes

#: The contracted dimensions of both operands, and the batch dimensions, as ``jax.lax`` has them.
DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]

#: The most spatial dimensions of a convolution: ``kEdges`` of ``src/products.h``.
_MOST_SPATIAL = 4


def product(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    dimension_numbers: DimensionNumbers,
    preferred_element_type: jax.typing.DTypeLike | None = None,
    **_: Any,
) -> Found | None:
    """Returns the operation of ``lax.dot_general``; None if the engine has no call for it."""
    factors = _factors(lhs, rhs, preferred_element_type)
    if factors is None:
        return None
    lhs, rhs, dtype = factors
    return Product.of(lhs.ndim, rhs.ndim, dimension_numbers, dtype), (lhs, rhs)


def convolution(
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
    preferred_element_type: jax.typing.DTypeLike | None = None,
    **_: Any,
) -> Found | None:
    """Returns the operation of ``lax.conv_general_dilated``; None if the engine has no call."""
    factors = _factors(lhs, rhs, preferred_element_type)
    if factors is None or lhs.ndim - 2 > _MOST_SPATIAL:
        return None
    lhs, rhs, dtype = factors
    spatial = (1,) * (lhs.ndim - 2)
    numbers = dimension_numbers
    operation = Convolution(
        (tuple(numbers.lhs_spec), tuple(numbers.rhs_spec), tuple(numbers.out_spec)),
        tuple(window_strides),
        tuple((low, high) for low, high in padding),
        tuple(lhs_dilation or spatial),
        tuple(rhs_dilation or spatial),
        (feature_group_count, batch_group_count),
        dtype,
    )
    return operation, (lhs, rhs)


#: Returns what ``impl._exact.products.dot_general.dot_general`` does; None without a call.
dot_general = computes(product)
#: Returns what ``impl._exact.products.convolution.conv_general_dilated`` does; None without a call.
conv_general_dilated = computes(convolution)


def _factors(
    lhs: jax.Array, rhs: jax.Array, preferred: Any
) -> tuple[jax.Array, jax.Array, np.dtype[Any]] | None:
    """Returns operands of dtypes that the engine takes, and the dtype of the result."""
    if not any(jnp.issubdtype(value.dtype, jnp.inexact) for value in (lhs, rhs)):
        return None
    common = jnp.promote_types(lhs.dtype, rhs.dtype)
    dtype = jnp.dtype(common if preferred is None else preferred)
    found = [_factor(value, common) for value in (lhs, rhs)]
    are_known = all(takes([each], each.dtype) for each in found)
    # A product of float64 is rounded to one.
    if not are_known or not (dtype == np.float64 or takes(found, dtype)):
        return None
    return found[0], found[1], dtype


def _factor(value: jax.Array, common: Any) -> jax.Array:
    """Returns a factor in a dtype of the engine, if one holds its values.

    JAX rounds an integer of more than 16 bits to the dtype of the other factor.
    """
    dtype = value.dtype
    if dtype in DTYPES:
        return value
    if jnp.issubdtype(dtype, jnp.integer) and dtype.itemsize > 2:
        return lax.convert_element_type(value, common)
    is_short = jnp.issubdtype(dtype, jnp.integer) or dtype == np.bool_ or dtype.itemsize == 1
    return lax.convert_element_type(value, np.float32) if is_short else value


@dataclasses.dataclass(frozen=True)
class Product(Summing):
    """A product of arrays.

    Attributes:
        numbers: The dimension numbers of ``jax.lax``.
        operands: The names of the axes of both operands.
        result: The names of the axes of the result.
        dtype: The dtype of the result.
    """

    numbers: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    operands: tuple[Names, ...]
    result: Names
    dtype: np.dtype[Any]
    _name = "samebits_product"
    reads_sources = True

    @classmethod
    def of(
        cls, lhs_ndim: int, rhs_ndim: int, numbers: DimensionNumbers, dtype: np.dtype[Any]
    ) -> Product:
        """Returns a product of arrays with a number of dimensions."""
        (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = numbers
        lhs = {d: f"term{i}" for i, d in enumerate(lhs_sum)}
        rhs = {d: f"term{i}" for i, d in enumerate(rhs_sum)}
        lhs.update({d: f"batch{i}" for i, d in enumerate(lhs_batch)})
        rhs.update({d: f"batch{i}" for i, d in enumerate(rhs_batch)})
        lines = [d for d in range(lhs_ndim) if d not in lhs]
        columns = [d for d in range(rhs_ndim) if d not in rhs]
        lhs.update({d: f"line{i}" for i, d in enumerate(lines)})
        rhs.update({d: f"column{i}" for i, d in enumerate(columns)})
        names = [lhs[d] for d in (*lhs_batch, *lines)]
        return cls(
            ((tuple(lhs_sum), tuple(rhs_sum)), (tuple(lhs_batch), tuple(rhs_batch))),
            (tuple(lhs[d] for d in range(lhs_ndim)), tuple(rhs[d] for d in range(rhs_ndim))),
            (*names, *(rhs[d] for d in columns)),
            dtype,
        )

    def reading(self, *axes: Sequence[int]) -> Product | None:
        (lhs, rhs), (sums, batch) = axes, self.numbers
        own_sums = tuple(lhs[d] for d in sums[0]), tuple(rhs[d] for d in sums[1])
        own_batch = tuple(lhs[d] for d in batch[0]), tuple(rhs[d] for d in batch[1])
        for own, *taken in ((lhs, own_sums[0], own_batch[0]), (rhs, own_sums[1], own_batch[1])):
            # The axes of a result are in the order of the axes of the operands.
            if not are_ascending([d for d in own if d not in {*taken[0], *taken[1]}]):
                return None
        return Product.of(len(lhs), len(rhs), (own_sums, own_batch), self.dtype)

    def layout(self, *operands: Sequence[int]) -> tuple[tuple[int, ...], dict[str, Any]]:
        lhs, rhs = operands
        (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = self.numbers
        lines = [d for d in range(len(lhs)) if d not in {*lhs_sum, *lhs_batch}]
        columns = [d for d in range(len(rhs)) if d not in {*rhs_sum, *rhs_batch}]
        shape = (*(lhs[d] for d in (*lhs_batch, *lines)), *(rhs[d] for d in columns))
        of_lhs, of_rhs, of_result = strides(lhs), strides(rhs), strides(shape)
        of_lines, of_columns = of_result[len(lhs_batch) :], of_result[len(lhs_batch) + len(lines) :]
        batch = zip(lhs_batch, rhs_batch, of_result, strict=False)
        terms = zip(lhs_sum, rhs_sum, strict=True)
        return shape, {
            "batch": longs([(lhs[i], of_lhs[i], of_rhs[j], k) for i, j, k in batch]),
            "lines": longs([(lhs[d], of_lhs[d], k) for d, k in zip(lines, of_lines, strict=False)]),
            "columns": longs(
                [(rhs[d], of_rhs[d], k) for d, k in zip(columns, of_columns, strict=True)]
            ),
            "terms": longs([(lhs[i], of_lhs[i], of_rhs[j]) for i, j in terms]),
            "window": longs([]),
            "is_convolution": False,
        }


@dataclasses.dataclass(frozen=True)
class Convolution(Summing):
    """A convolution.

    Attributes:
        specs: The dimensions of the image, the kernel and the result, as ``jax.lax`` has them.
        window_strides, padding, lhs_dilation, rhs_dilation: As in ``jax.lax``.
        groups: The number of feature groups, and of batch groups.
        dtype: The dtype of the result.
    """

    specs: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: tuple[int, int]
    dtype: np.dtype[Any]
    _name = "samebits_product"

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        """The names of the axes of the image and the kernel: groups and windows need them whole."""
        (image, channel, *_), (feature, of_kernel, *_), _ = self.specs
        names = {"image": image, "channel": channel}, {"feature": feature, "channel": of_kernel}
        return tuple(self._named(each, len(self.specs[0])) for each in names)

    @property
    def result(self) -> Names:  # type: ignore[override]
        """The names of the axes of the result."""
        image, feature = self.specs[2][:2]
        return self._named({"image": image, "feature": feature}, len(self.specs[0]))

    def _named(self, axes: dict[str, int], ndim: int) -> Names:
        batches = self.groups[1]
        has = {"image": batches == 1, "channel": self.groups == (1, 1)}
        has["feature"] = has["channel"]
        names: list[str | None] = [None] * ndim
        for name, axis in axes.items():
            names[axis] = name if has[name] else None
        return tuple(names)

    def layout(self, *operands: Sequence[int]) -> tuple[tuple[int, ...], dict[str, Any]]:
        lhs, rhs = operands
        (image, channel, *spatial), (feature, of_kernel, *taps), out = self.specs
        number, batches = max(self.groups), self.groups[1]
        images, features, channels = lhs[image] // batches, rhs[feature] // number, rhs[of_kernel]
        moves = self.window_strides, self.padding, self.lhs_dilation, self.rhs_dilation
        sizes = lax.reduce_window_shape_tuple(
            [lhs[d] for d in spatial], [rhs[t] for t in taps], *moves
        )
        shape = [0] * len(lhs)
        for d, size in zip(out, (images, rhs[feature], *sizes), strict=True):
            shape[d] = size
        of_lhs, of_rhs, of_result = strides(lhs), strides(rhs), strides(shape)
        groups = of_lhs[image] * images if batches > 1 else of_lhs[channel] * channels
        window: list[int] = []
        for d, t, o, *move in zip(spatial, taps, out[2:], *moves, strict=True):
            stride, (low, _), dilation, of_kernels = move
            window += [lhs[d], of_lhs[d], rhs[t], of_rhs[t], shape[o], of_result[o]]
            window += [stride, low, dilation, of_kernels]
        of_feature = of_result[out[1]]
        return tuple(shape), {
            "batch": longs([number, groups, of_rhs[feature] * features, of_feature * features]),
            "lines": longs([images, of_lhs[image], of_result[out[0]]]),
            "columns": longs([features, of_rhs[feature], of_feature]),
            "terms": longs([channels, of_lhs[channel], of_rhs[of_kernel]]),
            "window": longs(window),
            "is_convolution": True,
        }
