"""Approximate products of matrices of float64, whose error is known.

``product`` is a library's product of float64. An engine may compute it in another way, with as few
bits as the rounding asks for (``replaced``). A sum of terms a b then differs from the exact one by
at most ::

    n u / (1 - n u) norm(a) norm(b) + excess        u = 2**-53

Here n is the number of ``roundings`` of a term, as for float64 (Higham, *Accuracy and Stability of
Numerical Algorithms*, 2002, section 4.2), and the ``excess`` is what an engine knows itself, such
as the size of what it left out. Where the excess is 0, an engine adds without error what float64
adds without error (``nearest.last_bits``).
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
from impl._exact.nearest import interval
from impl._jax.shardings import cut_as_the_operands

#: The contracted dimensions of both operands, and the batch dimensions, as ``jax.lax`` has them.
DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


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

        Args:
            function: Moves or adds elements.
            more: The number of its additions that a sum goes through.
        """
        changed: Approximation = jax.tree.map(function, self)
        return dataclasses.replace(changed, roundings=self.roundings + more)

    def error(self, of_chain: Callable[[Any], jax.Array]) -> jax.Array:
        """Returns a bound of the error of each sum.

        Args:
            of_chain: Takes n u / (1 - n u); returns a bound of the error of the roundings.
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
    """Returns an approximate product.

    Args:
        lhs: The left operand, float64.
        rhs: The right operand, float64.
        numbers: The dimension numbers.
        bits: The bits that it asks for; None for all bits of float64, without an excess.
    """
    replacement: Product | None = contexts.replacement.value
    if bits is not None and replacement is not None:
        return replacement(lhs, rhs, numbers, bits).each(cut_as_the_operands)
    total = lax.dot_general(lhs, rhs, numbers, lax.Precision.HIGHEST, np.dtype(np.float64))
    roundings: Any = 1
    for axis in numbers[0][0]:
        roundings = roundings * lhs.shape[axis]
    return Approximation(cut_as_the_operands(total), None, roundings)
