"""Products of matrices in the spec's order ``exact_product``, exact in every order of additions.

The function rounds both operands to integers (``levels``: Ozaki splitting), adds the products of
the integers without error (``engines``), and rounds once. NaNs and infinities have no integers.
They come from a second product, of signs, infinities and NaNs, which a CPU computes if it must::

    operands        1.5 inf, 2.0 -1.0
    finite part     1.5 * 2.0                      the exact sum of integers
    special part    1 * 1 + inf * -1 = -inf        not finite, so it is the result
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
from impl._exact.products import engines
from impl._exact.products import levels as grids
from impl._exact.products.shards import Cuts

#: The contracted dimensions of both operands, and the batch dimensions, as ``jax.lax`` has them.
DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def dot_general(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    dimension_numbers: DimensionNumbers,
    precision: Any = None,
    preferred_element_type: jax.typing.DTypeLike | None = None,
    engine: str | None = None,
    axis_names: Sequence[Any] = (),
    free_names: Sequence[Any] = (),
    platforms: Sequence[str] | None = None,
) -> jax.Array:
    """Returns what ``jax.lax.dot_general`` does, in the order ``exact_product``.

    Products of integers are left to ``jax.lax``. Call this inside ``arithmetic.wide()``.

    Args:
        lhs: Any shape: a float of 32 bits or fewer, an integer of 16 bits or fewer, or bool.
        rhs: As ``lhs``, with batch and contracted dimensions of the same sizes.
        dimension_numbers: As in ``jax.lax``.
        precision: As in ``jax.lax``. The highest gives the finer grid.
        preferred_element_type: The dtype of the result; float16, bfloat16, float32 or float64.
        engine: A name of ``engines.ENGINES``; by default the one of the platform.
        axis_names: The mesh axes of a ``shard_map`` over which contracted dimensions are sharded.
            The result is the product of the whole operands.
        free_names: The mesh axes over which free dimensions of ``rhs`` are sharded. The result has
            the bits that the whole ``rhs`` gives.
        platforms: The platforms that the program is for; None for any.

    Returns:
        The batch dimensions, then the free dimensions of ``lhs``, then the free ones of ``rhs``.

    Raises:
        TypeError: A dtype has no exact product.
    """
    plain = functools.partial(
        lax.dot_general, dimension_numbers=dimension_numbers, precision=precision
    )
    if not any(jnp.issubdtype(value.dtype, jnp.inexact) for value in (lhs, rhs)):
        of_integers: jax.Array = plain(lhs, rhs, preferred_element_type=preferred_element_type)
        return of_integers
    dtype = result_dtype(lhs, rhs, preferred_element_type)
    cuts = Cuts(tuple(axis_names), tuple(free_names))
    layout = _Layout.of(lhs.shape, rhs.shape, dimension_numbers, cuts)
    if layout.terms == 0 or 0 in layout.shape:
        return lax.full(layout.shape, 0, dtype)
    lhs, rhs = _of_one_kind(lhs, rhs)
    dtypes = (lhs.dtype, rhs.dtype, dtype)
    lhs, rhs = grids.factor(lhs), grids.factor(rhs)
    if layout.terms == 1:
        return _single(lhs, rhs, layout, dtype)
    level = grids.level_of(layout.terms, dtypes, precision)
    left, right, unit = _on_grid(lhs, rhs, level, layout)
    return _sums(left, right, unit, level, layout, dtypes, engine, platforms)


def _of_one_kind(lhs: jax.Array, rhs: jax.Array) -> list[jax.Array]:
    """Returns the operands, with integers of more than 16 bits as floats of the common dtype.

    JAX does the same with an integer and a float, and so rounds the integer.
    """
    common = jnp.promote_types(lhs.dtype, rhs.dtype)
    is_long = [jnp.issubdtype(x.dtype, jnp.integer) and x.dtype.itemsize > 2 for x in (lhs, rhs)]
    return [
        lax.convert_element_type(x, common) if long else x
        for x, long in zip((lhs, rhs), is_long, strict=True)
    ]


def unless_finite(
    repair: Callable[..., jax.Array], result: jax.Array, lhs: jax.Array, rhs: jax.Array
) -> jax.Array:
    """Returns ``result``, or ``repair`` of it if an operand has an infinity or a NaN."""
    repaired: jax.Array = lax.cond(
        grids.has_special(lhs, rhs), repair, lambda result, *_: result, result, lhs, rhs
    )
    return repaired


def result_dtype(lhs: jax.Array, rhs: jax.Array, preferred: Any) -> np.dtype[Any]:
    """Returns the dtype of a product, as ``jax.lax`` has it.

    Raises:
        TypeError: The dtype is not float16, bfloat16, float32 or float64.
    """
    dtype = jnp.promote_types(lhs.dtype, rhs.dtype) if preferred is None else preferred
    result = jnp.dtype(dtype)
    if result not in (jnp.dtype(jnp.bfloat16), np.float16, np.float32, np.float64):
        raise TypeError(f"an exact product of floats is rounded to a float, not to {result}")
    return result


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The dimensions of a product.

    Attributes:
        numbers: The dimension numbers of ``jax.lax``.
        lhs_shape: The shape of the left operand.
        rhs_shape: The shape of the right operand.
        lhs_free: The free dimensions of ``lhs``: neither contracted nor batch dimensions.
        rhs_free: The free dimensions of ``rhs``.
        cuts: The mesh axes over which the operands are sharded.
    """

    numbers: DimensionNumbers
    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    lhs_free: tuple[int, ...]
    rhs_free: tuple[int, ...]
    cuts: Cuts

    @classmethod
    def of(
        cls, lhs: Sequence[int], rhs: Sequence[int], numbers: DimensionNumbers, cuts: Cuts
    ) -> _Layout:
        (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = numbers
        lhs_free = tuple(d for d in range(len(lhs)) if d not in {*lhs_sum, *lhs_batch})
        rhs_free = tuple(d for d in range(len(rhs)) if d not in {*rhs_sum, *rhs_batch})
        return cls(numbers, tuple(lhs), tuple(rhs), lhs_free, rhs_free, cuts)

    @property
    def terms(self) -> int:
        """The number of terms of each sum, on all devices that share it."""
        return math.prod(self.lhs_shape[d] for d in self.numbers[0][0]) * self.cuts.parts

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        (_, _), (batch, _) = self.numbers
        lhs = [self.lhs_shape[d] for d in (*batch, *self.lhs_free)]
        return (*lhs, *(self.rhs_shape[d] for d in self.rhs_free))

    @property
    def from_rhs(self) -> dict[int, int]:
        """The dimension of ``lhs`` for each of ``kept_rhs``, by its position there."""
        (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = self.numbers
        where = dict(zip((*rhs_sum, *rhs_batch), (*lhs_sum, *lhs_batch), strict=True))
        return {i: where[d] for i, d in enumerate(sorted(where))}

    @property
    def kept_lhs(self) -> list[int]:
        """The dimensions of ``lhs`` that are not contracted."""
        return [d for d in range(len(self.lhs_shape)) if d not in self.numbers[0][0]]

    @property
    def kept_rhs(self) -> list[int]:
        """The dimensions of ``rhs`` that are not free."""
        return [d for d in range(len(self.rhs_shape)) if d not in self.rhs_free]

    def in_result(self, lhs: jax.Array) -> jax.Array:
        """Broadcasts an array with the dimensions ``kept_lhs`` to the shape of the result."""
        order = [*self.numbers[1][0], *self.lhs_free]
        where = {i: order.index(d) for i, d in enumerate(self.kept_lhs)}
        return grids.spread(lhs, self.shape, where)


def _on_grid(
    lhs: jax.Array, rhs: jax.Array, level: grids.Level, layout: _Layout
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns both operands as integers, and the unit of each element of their product."""
    summed, in_rhs = layout.numbers[0][0], dict(enumerate(layout.kept_rhs))
    in_lhs = functools.partial(
        grids.spread, shape=lhs.shape, where=dict(enumerate(layout.kept_lhs))
    )
    column_power = layout.cuts.max_of_free(grids.power_below(rhs, layout.rhs_free))
    moved = grids.spread(column_power, lhs.shape, layout.from_rhs)
    row_power = layout.cuts.max(grids.power_below(lhs, summed, moved))

    def sums() -> jax.Array:
        magnitudes = grids.magnitudes(lhs, moved, in_lhs(row_power))
        return layout.cuts.sum(lax.reduce_sum(magnitudes, tuple(summed)))

    row_unit = grids.row_unit(row_power, sums, level)
    left = grids.integers(lhs, moved, in_lhs(row_unit))
    right = grids.integers(
        rhs, grids.spread(grids.column_unit(column_power, level), rhs.shape, in_rhs)
    )
    return left, right, layout.in_result(grids.product_unit(row_unit, level))


def _sums(
    left: jax.Array,
    right: jax.Array,
    unit: jax.Array,
    level: grids.Level,
    layout: _Layout,
    dtypes: Sequence[Any],
    engine: str | None,
    platforms: Sequence[str] | None,
) -> jax.Array:
    """Adds the products of integers by an engine; None takes the platform's engine."""
    by_engine = {
        name: functools.partial(_sums_by, name, level, layout, dtypes[-1])
        for name in engines.ENGINES
    }
    if engine is not None:
        return by_engine[engine](left, right, unit)
    is_wide = any(jnp.dtype(dtype).itemsize > 2 for dtype in dtypes)
    default = by_engine["float64"]
    others = {
        platform: by_engine[choice[is_wide]]
        for platform, choice in engines.CHOICE.items()
        if choice[is_wide] != "float64" and (platforms is None or platform in platforms)
    }
    if not others:
        return default(left, right, unit)
    result: jax.Array = lax.platform_dependent(left, right, unit, default=default, **others)
    return result


def _sums_by(
    name: str,
    level: grids.Level,
    layout: _Layout,
    dtype: Any,
    left: jax.Array,
    right: jax.Array,
    unit: jax.Array,
) -> jax.Array:
    total = engines.ENGINES[name](left, right, level, _Blocks(layout))
    result = engines.rounded(total, unit, dtype)
    if total.high.dtype == np.float64:
        return result
    # A device with units for digits adds signs faster than it branches. Devices that share a sum
    # have to take the same branch, so they do not branch.
    has_digits = name != "float64"
    # XLA for a CPU does not compile some products of bfloat16 (UNIMPLEMENTED: DotThunk).
    signs = jnp.bfloat16 if has_digits else jnp.float32
    repair = functools.partial(_repaired, layout, signs)
    if has_digits or layout.cuts.summed:
        return repair(result, left, right)
    return unless_finite(repair, result, left, right)


@dataclasses.dataclass(frozen=True)
class _Blocks:
    """A product of matrices whose sums are computed in blocks if they are too long."""

    layout: _Layout

    can_cut = True

    @property
    def terms(self) -> int:
        return self.layout.terms

    def __call__(self, lhs: jax.Array, rhs: jax.Array, dtype: Any, limit: int) -> jax.Array:
        return self.layout.cuts.sum(self._local(lhs, rhs, dtype, limit))

    def _local(self, lhs: jax.Array, rhs: jax.Array, dtype: Any, limit: int) -> jax.Array:
        layout = self.layout
        if layout.terms <= limit:
            return engines.plain_product(lhs, rhs, layout.numbers, dtype)
        (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = layout.numbers
        lhs = _in_blocks(lhs, [*lhs_batch, *layout.lhs_free], lhs_sum, limit)
        rhs = _in_blocks(rhs, [*rhs_batch, *layout.rhs_free], rhs_sum, limit)
        batch = tuple(range(len(lhs_batch)))
        both = (*batch, lhs.ndim - 2), (*batch, rhs.ndim - 2)
        numbers = (((lhs.ndim - 1,), (rhs.ndim - 1,)), both)
        sums = engines.plain_product(lhs, rhs, numbers, dtype)
        return lax.reduce_sum(lax.convert_element_type(sums, np.int64), (len(batch),))


def _in_blocks(
    value: jax.Array, kept: Sequence[int], summed: Sequence[int], limit: int
) -> jax.Array:
    """Returns an array of kept dimensions, blocks, and the terms of a block, padded with zeros."""
    value = lax.transpose(value, (*kept, *summed))
    shape = value.shape[: len(kept)]
    terms = math.prod(value.shape[len(kept) :])
    blocks = -(-terms // limit)
    length = -(-terms // blocks)
    value = lax.reshape(value, (*shape, terms))
    padding = [(0, 0, 0)] * len(kept) + [(0, blocks * length - terms, 0)]
    value = lax.pad(value, lax.full((), 0, value.dtype), padding)
    return lax.reshape(value, (*shape, blocks, length))


def _single(lhs: jax.Array, rhs: jax.Array, layout: _Layout, dtype: Any) -> jax.Array:
    """Returns sums of one term each: the product, rounded once."""
    batch, shape = len(layout.numbers[1][0]), layout.shape
    left = layout.in_result(lax.squeeze(arithmetic.widen(lhs), layout.numbers[0][0]))
    right = lax.squeeze(arithmetic.widen(rhs), layout.numbers[0][1])
    order = [*layout.numbers[1][1], *layout.rhs_free]
    kept = [d for d in range(rhs.ndim) if d in order]
    first_free = len(shape) - len(layout.rhs_free)
    places = [*range(batch), *range(first_free, len(shape))]
    where = {i: places[order.index(d)] for i, d in enumerate(kept)}
    value = lax.mul(left, grids.spread(right, shape, where))
    return engines.rounded(engines.Total(value), None, dtype)


def _repaired(
    layout: _Layout, dtype: Any, result: jax.Array, lhs: jax.Array, rhs: jax.Array
) -> jax.Array:
    """Returns a result with the NaNs and infinities of its sums; any ``dtype`` has signs."""
    left, right = (
        lax.convert_element_type(grids.special_factor(value), dtype) for value in (lhs, rhs)
    )
    signs = layout.cuts.sum(engines.plain_product(left, right, layout.numbers, np.float32))
    return grids.with_specials(result, signs)
