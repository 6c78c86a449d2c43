"""The associative operations of scans: each combines an earlier and a later operand.

An operand is a tuple of real arrays of one shape, its parts: a complex number, for example, has a
real and an imaginary part. An operation also takes the function by which it multiplies, which
rounds a product before it is added to anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from impl._core.lax_functions import where
from impl._families.reductions import ReductionName

Parts: TypeAlias = tuple[jax.Array, ...]
Product: TypeAlias = Callable[[jax.Array, jax.Array], jax.Array]
Running: TypeAlias = Literal["add", "mul", "logaddexp", "affine"]


class Combine(Protocol):
    """An associative operation on parts."""

    def __call__(self, earlier: Parts, later: Parts, product: Product) -> Parts: ...


def split(value: jax.Array) -> Parts:
    """Returns the parts of an array: itself, or its real and imaginary parts."""
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        return value.real, value.imag
    return (value,)


def joined(parts: Parts) -> jax.Array:
    """Returns the array that has these parts: the inverse of ``split``."""
    return parts[0] if len(parts) == 1 else jax.lax.complex(*parts)


def _add(earlier: Parts, later: Parts, product: Product) -> Parts:
    del product
    return tuple(map(lax.add, earlier, later))


def _multiply(earlier: Parts, later: Parts, product: Product) -> Parts:
    if len(earlier) == 1:
        return (product(earlier[0], later[0]),)
    (a, b), (c, d) = earlier, later
    real = lax.sub(product(a, c), product(b, d))
    return real, lax.add(product(a, d), product(b, c))


def _affine(earlier: Parts, later: Parts, product: Product) -> Parts:
    """Composes maps x -> factor * x + term; the factor is the first half of the parts."""
    half = len(earlier) // 2
    # No sum follows a product of real factors.
    alone = lax.mul if half == 1 else product
    factor = _multiply(earlier[:half], later[:half], alone)
    carried = _multiply(earlier[half:], later[:half], product)
    return (*factor, *_add(carried, later[half:], product))


def _logaddexp(earlier: Parts, later: Parts, product: Product) -> Parts:
    """Returns the logarithm of the sum of the exponentials."""
    del product
    if len(earlier) == 2:
        return _complex_logaddexp(earlier, later)
    (a,), (b,) = earlier, later
    least, most = lax.min(a, b), lax.max(a, b)
    # The result of two equal infinities is that infinity; the formula would give NaN.
    infinity = lax.full_like(most, jnp.inf)
    infinite = lax.bitwise_and(lax.eq(least, most), lax.eq(lax.abs(most), infinity))
    grown = lax.add(most, lax.log1p(lax.exp(lax.sub(least, most))))
    return (lax.select(infinite, most, grown),)


def _complex_logaddexp(earlier: Parts, later: Parts) -> Parts:
    swap = earlier[0] < later[0]
    most = [where(swap, b, a) for a, b in zip(earlier, later, strict=True)]
    least = [where(swap, a, b) for a, b in zip(earlier, later, strict=True)]
    size = jnp.exp(least[0] - most[0])
    angle = least[1] - most[1]
    # The sum is exp(most) * (1 + re + i * im). An exponential of 0 contributes nothing, even if
    # its angle is infinite or NaN.
    none = least[0] == -jnp.inf
    re = where(none, 0, size * jnp.cos(angle))
    im = where(none, 0, size * jnp.sin(angle))
    # Each of the two forms of log|1 + re + i * im| cancels where the other is accurate.
    near = 0.5 * jnp.log1p(re * (2 + re) + im * im)
    far = 0.5 * jnp.log((1 + re) * (1 + re) + im * im)
    grown = where(size < 0.5, near, far)
    turned = jnp.arctan2(im, 1 + re)
    return (
        most[0] + where(none, 0, grown),
        most[1] + where(none, 0, turned),
    )


COMBINES: Mapping[Running, Combine] = MappingProxyType(
    {"add": _add, "mul": _multiply, "logaddexp": _logaddexp, "affine": _affine}
)


def fraction(part: jax.Array, total: jax.Array) -> jax.Array:
    """Returns ``exp(part - total)``, and 0 for a part of minus infinity, whatever the total is."""
    is_zero = part.real == -jnp.inf
    # Both operands are masked too. Otherwise the derivative of the unused branch would be NaN.
    difference = where(is_zero, 0, part) - where(is_zero, 0, total)
    return where(is_zero, 0, jnp.exp(difference))


def later_extreme(earlier: Parts, later: Parts, *, by: ReductionName) -> Parts:
    """Returns the operand whose first part is the extreme; of equal ones, the later.

    A NaN is more extreme than every number.
    """
    wins = (lax.le if by == "min" else lax.ge)(later[0], earlier[0])
    if jnp.issubdtype(later[0].dtype, jnp.floating):
        wins = lax.bitwise_or(wins, lax.ne(later[0], later[0]))
    return tuple(lax.select(wins, b, a) for a, b in zip(earlier, later, strict=True))
