"""What running folds combine by: associative operations on several arrays at once.

The arrays of one operand, its parts, are all real and of one shape: a complex number is a real and
an imaginary part. An operation takes the parts of what came earlier and of what comes later, and
the product that it is to use: one that is rounded before a sum takes it up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

import jax
import jax.numpy as jnp

Parts: TypeAlias = tuple[jax.Array, ...]
Product: TypeAlias = Callable[[jax.Array, jax.Array], jax.Array]
Running: TypeAlias = Literal["add", "mul", "logaddexp", "affine"]


class Combine(Protocol):
    """An associative operation on parts."""

    def __call__(self, earlier: Parts, later: Parts, product: Product) -> Parts:
        """Combines what came earlier with what comes later."""


def split(value: jax.Array) -> Parts:
    """The parts of a number."""
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        return value.real, value.imag
    return (value,)


def joined(parts: Parts) -> jax.Array:
    """The number that has these parts."""
    return parts[0] if len(parts) == 1 else jax.lax.complex(*parts)


def _add(earlier: Parts, later: Parts, product: Product) -> Parts:
    del product
    return tuple(a + b for a, b in zip(earlier, later, strict=True))


def _multiply(earlier: Parts, later: Parts, product: Product) -> Parts:
    if len(earlier) == 1:
        return (product(earlier[0], later[0]),)
    (a, b), (c, d) = earlier, later
    return product(a, c) - product(b, d), product(a, d) + product(b, c)


def _affine(earlier: Parts, later: Parts, product: Product) -> Parts:
    """Maps x -> factor * x + term, one after the other: the first half of the parts is factors."""
    half = len(earlier) // 2
    factor = _multiply(earlier[:half], later[:half], product)
    carried = _multiply(earlier[half:], later[:half], product)
    return (*factor, *_add(carried, later[half:], product))


def _logaddexp(earlier: Parts, later: Parts, product: Product) -> Parts:
    """The logarithm of the sum of exponentials."""
    del product
    if len(earlier) == 2:
        return _complex_logaddexp(earlier, later)
    (a,), (b,) = earlier, later
    least, most = jnp.minimum(a, b), jnp.maximum(a, b)
    # The difference of two equal infinities is NaN, and their sum is either.
    infinite = (least == most) & (jnp.abs(most) == jnp.inf)
    return (jnp.where(infinite, most, most + jnp.log1p(jnp.exp(least - most))),)


def _complex_logaddexp(earlier: Parts, later: Parts) -> Parts:
    swap = earlier[0] < later[0]
    most = [jnp.where(swap, b, a) for a, b in zip(earlier, later, strict=True)]
    least = [jnp.where(swap, a, b) for a, b in zip(earlier, later, strict=True)]
    size = jnp.exp(least[0] - most[0])
    angle = least[1] - most[1]
    # What is added to 1; of no exponential the angle is nothing either.
    none = least[0] == -jnp.inf
    re = jnp.where(none, 0, size * jnp.cos(angle))
    im = jnp.where(none, 0, size * jnp.sin(angle))
    # Near 1 the logarithm of the modulus cancels, and far from it the other form does.
    near = 0.5 * jnp.log1p(re * (2 + re) + im * im)
    far = 0.5 * jnp.log((1 + re) * (1 + re) + im * im)
    grown = jnp.where(size < 0.5, near, far)
    turned = jnp.arctan2(im, 1 + re)
    return (
        most[0] + jnp.where(none, 0, grown),
        most[1] + jnp.where(none, 0, turned),
    )


COMBINES: Mapping[Running, Combine] = MappingProxyType(
    {"add": _add, "mul": _multiply, "logaddexp": _logaddexp, "affine": _affine}
)


def later_extreme(earlier: Parts, later: Parts, product: Product) -> Parts:
    """Those with the greater key, which is the first part; of equal ones the later."""
    del product
    wins = later[0] >= earlier[0]
    return tuple(jnp.where(wins, b, a) for a, b in zip(earlier, later, strict=True))
