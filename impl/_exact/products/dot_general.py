"""Products of matrices in the spec's order ``nearest``: exact real sums, rounded once.

A library multiplies the operands in float64, where each product of two float32 is exact, and adds
the products in any order. If no term goes through more than n roundings, the error of a sum is at
most n u / (1 - n u) sum(abs(a b)) for u = 2**-53, also with fused multiply-adds (Higham, *Accuracy
and Stability of Numerical Algorithms*, 2002, section 4.2). In any order, K terms go through K - 1
additions at most, and long sums in two ``stages`` through fewer. By Cauchy and Schwarz the sum of
magnitudes is at most norm(a) norm(b), which needs no second product.

``product`` is a library's product of float64. An engine may compute it in another way, with as few
bits as the rounding asks for (``replaced``). The error is then at most ::

    n u / (1 - n u) norm(a) norm(b) + excess

for the number n of ``roundings`` of a term. The ``excess`` is what an engine knows itself, such as
the size of what it left out. Where it is 0, an engine adds without error what float64 adds without
error (``nearest.repair``). ``nearest.interval`` tests whether this bound decides the rounding.
The elements in doubt, about one in a thousand, are added again exactly (``nearest.repair``)::

    operands        2**30 + 1, 1 and 2**-30, -1        terms 1 + 2**-30 and -1
    float64         2**-30, bound 2 * 2**-53 * norms   decided
    operands        2**20, 1, 1 and 2**20, 2**16, 2**-60    terms 2**40, 2**16, 2**-60
    float64         2**40 + 2**16, a tie of float32    in doubt; 2**-60 decides
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core import contexts
from impl._core.numerics import in_any_order
from impl._core.shard_axes import Devices
from impl._exact import arithmetic
from impl._exact.nearest import interval, repair
from impl._exact.products import doubles
from impl._exact.products.layout import DimensionNumbers, Layout
from impl._jax.shardings import cut_as_the_operands
from impl._native import products as native
from impl._native.scope import or_native

#: The least number of terms that are added in two stages.
_LONG = 8192
#: The least number of terms of an element in doubt, with zeros after them.
_FEWEST = 256


@or_native(native.dot_general)
def dot_general(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    dimension_numbers: DimensionNumbers,
    precision: Any = None,
    preferred_element_type: jax.typing.DTypeLike | None = None,
    axis_names: Sequence[Any] = (),
    is_partitioned: bool = False,
) -> jax.Array:
    """Returns what ``jax.lax.dot_general`` does, in the order ``nearest``.

    Products of integers are left to ``jax.lax``. Call this inside ``arithmetic.wide()``.

    Args:
        lhs: Any shape: a float of 64 bits or fewer, an integer, or bool.
        rhs: As ``lhs``, with batch and contracted dimensions of the same sizes.
        dimension_numbers: As in ``jax.lax``.
        precision: As in ``jax.lax``. The bits of floats do not depend on it.
        preferred_element_type: The dtype of the result; float16, bfloat16, float32 or float64.
        axis_names: The mesh axes of a ``shard_map`` over which contracted dimensions are sharded.
            The result is the product of the whole operands.
        is_partitioned: Whether XLA may partition the product. The bits are the same.

    Returns:
        The batch dimensions, then the free dimensions of ``lhs``, then the free ones of ``rhs``.

    Raises:
        TypeError: A dtype has no exact product.
    """
    if not any(jnp.issubdtype(value.dtype, jnp.inexact) for value in (lhs, rhs)):
        of_integers: jax.Array = lax.dot_general(
            lhs, rhs, dimension_numbers, precision, preferred_element_type
        )
        return of_integers
    dtype = result_dtype(lhs, rhs, preferred_element_type)
    devices = Devices(tuple(axis_names))
    layout = Layout.of(lhs.shape, rhs.shape, dimension_numbers, devices)
    if layout.terms == 0 or 0 in layout.shape:
        return lax.full(layout.shape, 0, dtype)
    lhs, rhs = _of_one_kind(lhs, rhs)
    if np.float64 in (lhs.dtype, rhs.dtype):
        return doubles.dot_general(double(lhs), double(rhs), layout, dtype)
    bits = Bits.of(lhs.dtype, rhs.dtype, dtype)
    lhs, rhs = factor(lhs), factor(rhs)
    left, right = arithmetic.widen(lhs), arithmetic.widen(rhs)
    if layout.terms == 1:
        return interval.positive_zero(arithmetic.narrow(_single(left, right, layout), dtype))

    def error_of(chain: Any) -> jax.Array:
        error = _error(left, right, layout, chain)
        return repair.error_of_products(
            error, chain, (lhs, rhs), layout.terms, devices, is_partitioned=is_partitioned
        )

    with in_any_order():
        found = _approximate(left, right, layout, bits)
        error = found.error(error_of)
    coded = interval.rounded(found.total, error, dtype)

    def terms(position: jax.Array) -> jax.Array:
        return products(*layout.lines(lhs, rhs, position))

    return repair.repaired_sums(coded, dtype, layout.local_terms, terms, devices)


def _approximate(left: jax.Array, right: jax.Array, layout: Layout, bits: Bits) -> Approximation:
    """Returns the sums as the engine adds them.

    Long sums are added in two stages: of K terms, a library that may add them in one chain leaves
    about K**1.5 times as many elements in doubt as for one term, and each of them has K terms.
    """
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = layout.numbers
    sizes = [layout.lhs_shape[d] for d in lhs_sum]
    is_long = layout.local_terms >= _LONG
    two = interval.Stages.of(sizes, layout.most_parts) if is_long else None
    more = layout.devices.number - 1
    if two is None:
        found = product(left, right, layout.numbers, bits)
        return found.each(layout.devices.sum, more)
    left, lhs_first, lhs_second = two.split(left, lhs_sum, lhs_batch)
    right, rhs_first, rhs_second = two.split(right, rhs_sum, rhs_batch)
    found = product(left, right, ((lhs_first, rhs_first), (lhs_second, rhs_second)), bits)

    def second(sums: jax.Array) -> jax.Array:
        # XLA would make one sum of both stages.
        total = lax.reduce_sum(arithmetic.seal(sums), tuple(range(two.number + 1)))
        return layout.devices.sum(total)

    return found.each(second, two.second + more)


def plain_product(lhs: jax.Array, rhs: jax.Array, numbers: DimensionNumbers) -> jax.Array:
    """Returns a product with all bits of float64."""
    return product(lhs, rhs, numbers, None).total


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


def factor(value: jax.Array) -> jax.Array:
    """Returns a factor as float32, without a change of its value.

    Args:
        value: Any shape: a float of 32 bits or fewer, an integer of 16 bits or fewer, or bool.

    Raises:
        TypeError: float32 does not hold every value of the dtype.
    """
    dtype = value.dtype
    if dtype == np.float32:
        return value
    is_float = jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4
    is_integer = jnp.issubdtype(dtype, jnp.integer) and dtype.itemsize < 4
    if not is_float and not is_integer and dtype != np.bool_:
        raise TypeError(f"an exact product takes floats of 32 bits or fewer, not {dtype}")
    return lax.convert_element_type(value, np.float32)


def double(value: jax.Array) -> jax.Array:
    """Returns a factor as float64, without a change of its value."""
    return value if value.dtype == np.float64 else arithmetic.widen(factor(value))


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


def _error(left: jax.Array, right: jax.Array, layout: Layout, chain: Any) -> jax.Array:
    """Returns a bound of the error of each sum: n u / (1 - n u) times the norms of both factors.

    The factors are float64, and ``chain`` is n u / (1 - n u) (``interval.of_chain``).
    """
    (lhs_sum, rhs_sum), _ = layout.numbers

    def norm(value: jax.Array, axes: Sequence[int]) -> jax.Array:
        return lax.sqrt(layout.devices.sum(lax.reduce_sum(lax.mul(value, value), tuple(axes))))

    of_left = norm(left, lhs_sum)
    of_left = lax.mul(of_left, lax.full_like(of_left, chain))
    return lax.mul(layout.lhs_in_result(of_left), layout.rhs_in_result(norm(right, rhs_sum)))


def _single(left: jax.Array, right: jax.Array, layout: Layout) -> jax.Array:
    """Returns sums of one term each: float64 products, which are exact."""
    (lhs_sum, rhs_sum), _ = layout.numbers
    of_left = layout.lhs_in_result(lax.squeeze(left, tuple(lhs_sum)))
    return lax.mul(of_left, layout.rhs_in_result(lax.squeeze(right, tuple(rhs_sum))))


def products(left: jax.Array, right: jax.Array) -> jax.Array:
    """Returns the products of float32, float64, shape [rows, terms], with zeros after them.

    Equal shapes are compiled once, so the number of terms is one of few powers of two.
    """
    terms = left.shape[1]
    missing = max(_FEWEST, 1 << (terms - 1).bit_length()) - terms
    if missing:
        padding = [(0, 0, 0), (0, missing, 0)]
        left, right = (lax.pad(part, np.float32(0), padding) for part in (left, right))
    return lax.mul(arithmetic.widen(left), arithmetic.widen(right))


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["total", "excess"], meta_fields=["roundings"]
)
@dataclasses.dataclass(frozen=True)
class Approximation:
    """Sums of products, a tree of arrays.

    Attributes:
        total: The sums, float64.
        excess: A bound of the error beyond the error of the roundings, float64; None for no such
            error.
        roundings: The greatest number of roundings that a term goes through, without those that the
            excess has.
    """

    total: jax.Array
    excess: jax.Array | None
    roundings: Any

    def each(self, function: Callable[[jax.Array], jax.Array], more: Any = 0) -> Approximation:
        """Returns what a function makes of the sums, and of the bounds of their errors.

        It moves or adds elements; a sum goes through ``more`` of its additions.
        """
        changed: Approximation = jax.tree.map(function, self)
        return dataclasses.replace(changed, roundings=self.roundings + more)

    def error(self, of_chain: Callable[[Any], jax.Array]) -> jax.Array:
        """Returns a bound of the error of each sum.

        ``of_chain`` takes n u / (1 - n u), and returns a bound of the error of the roundings.
        """
        if self.excess is None:
            return of_chain(interval.of_chain(self.roundings))
        if self.roundings == 0:
            return self.excess
        return lax.add(of_chain(interval.of_chain(self.roundings)), self.excess)


@dataclasses.dataclass(frozen=True)
class Bits:
    """The bits that a product asks for.

    Attributes:
        factors: The bits of the significand of each factor.
        result: The bits of the significand that the result is rounded to.
    """

    factors: tuple[int, int]
    result: int

    @classmethod
    def of(cls, lhs: Any, rhs: Any, result: Any) -> Bits:
        """Returns the bits for the dtypes of the factors and of the result."""
        return cls((_bits(lhs), _bits(rhs)), _bits(result))


def _bits(dtype: Any) -> int:
    """Returns the bits of the significand of a dtype of numbers, or of bool."""
    if jnp.issubdtype(dtype, jnp.floating):
        return int(jnp.finfo(dtype).nmant) + 1
    return 1 if dtype == np.bool_ else 8 * int(jnp.dtype(dtype).itemsize)


#: Takes both operands, the dimension numbers and the bits; returns the approximation.
Product = Callable[[jax.Array, jax.Array, DimensionNumbers, Bits], Approximation]


def replaced(by: Product) -> contextlib.AbstractContextManager[Any]:
    """Returns a scope in which a function computes the products that are traced."""
    scope: contextlib.AbstractContextManager[Any] = contexts.replacement(by)
    return scope


def product(
    lhs: jax.Array, rhs: jax.Array, numbers: DimensionNumbers, bits: Bits | None
) -> Approximation:
    """Returns an approximate product of float64.

    ``bits`` are the bits that it asks for; None for all bits of float64, without an excess.
    """
    replacement: Product | None = contexts.replacement.value
    if bits is not None and replacement is not None:
        return replacement(lhs, rhs, numbers, bits).each(cut_as_the_operands)
    total = lax.dot_general(lhs, rhs, numbers, lax.Precision.HIGHEST, np.dtype(np.float64))
    roundings: Any = 1
    for axis in numbers[0][0]:
        roundings = roundings * lhs.shape[axis]
    return Approximation(cut_as_the_operands(total), None, roundings)
