"""Where a grid samples an input: which elements each sample reads, and their weights.

Coordinates and weights are made of sums and rounded products, so that they have the same bits on
every device. What is written for one dimension is done for each, in the order of the elements of a
grid's last dimension: x, y and z, of which x goes along the last dimension of the input.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl.decide import Action, Decision
from impl.layout import countable
from impl.primitives.arithmetic import multiply
from impl.primitives.windows import window_sum
from impl.taps import Taps

Mode: TypeAlias = Literal["bilinear", "nearest", "bicubic"]
Padding: TypeAlias = Literal["zeros", "border", "reflection"]

#: The parameter of the cubic convolution.
_A = -0.75
#: Of sums whose order costs nothing to keep.
_ORDERED = Decision(elsewhere=Action(path="ordered"))


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How to sample; hashable, so that it can be static.

    Attributes:
        sizes: Lengths of the input's spatial dimensions.
        mode: How elements are weighted.
        padding: What lies beyond the input.
        align_corners: Whether -1 and 1 are the centers of the outermost elements, not their edges.
    """

    sizes: tuple[int, ...]
    mode: Mode
    padding: Padding
    align_corners: bool


@functools.partial(jax.jit, static_argnames="sampling")
def taps(grid: jax.Array, sampling: Sampling) -> tuple[jax.Array, jax.Array]:
    """The elements that each sample reads, and their weights.

    Args:
        grid: float32 or float64, shape [n, samples, dims].
        sampling: How to sample.

    Returns:
        Positions in the flattened spatial dimensions, -1 for those beyond the input, in row-major
        order; and weights. Shape [n, samples, taps].
    """
    dims = len(sampling.sizes)
    along = [
        _along(coordinate.reshape(grid.shape[:2]), size, sampling)
        for coordinate, size in zip(
            jax.lax.split(grid, (1,) * dims, axis=2), reversed(sampling.sizes), strict=True
        )
    ]
    counter = countable(int(np.prod(sampling.sizes)))
    strides = np.cumprod([1, *sampling.sizes[:0:-1]])
    indices = []
    for place in _places(sampling.mode, dims):
        index, inside = jnp.zeros(grid.shape[:2], counter), jnp.ones(grid.shape[:2], bool)
        for (positions, _), tap, stride, size in zip(
            along, place, strides, reversed(sampling.sizes), strict=True
        ):
            position = positions[tap]
            own = (position >= 0) & (position <= size - 1)
            index += jnp.where(own, position, 0).astype(counter) * int(stride)
            inside &= own
        indices.append(jnp.where(inside, index, -1))
    if sampling.mode == "nearest":
        return jnp.stack(indices, axis=2), jnp.ones((*grid.shape[:2], 1), grid.dtype)
    fractions = tuple(fraction for _, fraction in along)
    return jnp.stack(indices, axis=2), _weights(sampling.mode, fractions)


def _places(mode: Mode, dims: int) -> list[tuple[int, ...]]:
    """The taps of a sample in row-major order: which one of each dimension, x first."""
    count = {"nearest": 1, "bilinear": 2, "bicubic": 4}[mode]
    return [place[::-1] for place in itertools.product(range(count), repeat=dims)]


def _along(
    coordinate: jax.Array, size: int, sampling: Sampling
) -> tuple[list[jax.Array], jax.Array]:
    """The positions that are read along one dimension, and how far beyond its element x lies.

    Positions are whole numbers, not integers; those beyond the input are read as zeros.
    """
    x = _in_elements(coordinate, size, sampling.align_corners)
    # A NaN stands for -1, as PyTorch's documents have it. An infinity has no reflection either.
    known = jnp.isfinite(x) if sampling.padding == "reflection" else ~jnp.isnan(x)
    x = jnp.where(known, x, _edge(sampling))
    pad = functools.partial(_padded, size=size, sampling=sampling)
    if sampling.mode == "bicubic":
        low, high = -1, 2
        if sampling.padding != "reflection":
            # Beyond that all taps are alike.
            x = _clipped(x, -4, size + 3)
    else:
        low, high = 0, 1
        # Two steps beyond the input nothing is read; further away no number is to be infinite.
        x = _clipped(x, -2, size + 1) if sampling.padding == "zeros" else pad(x)
    if sampling.mode == "nearest":
        return [jax.lax.round(x, jax.lax.RoundingMethod.TO_NEAREST_EVEN)], x
    whole = jax.lax.stop_gradient(jnp.floor(x))
    positions = [whole + step for step in range(low, high + 1)]
    if sampling.mode == "bicubic":
        positions = [pad(position) for position in positions]
    return positions, x - whole


def _in_elements(coordinate: jax.Array, size: int, align_corners: bool) -> jax.Array:
    """From -1 to 1, to a position that counts elements."""
    if align_corners:
        return _times(coordinate + 1, (size - 1) / 2)
    return _times(_times(coordinate + 1, size) - 1, 0.5)


def _edge(sampling: Sampling) -> float:
    """The position of -1."""
    return 0.0 if sampling.align_corners else -0.5


def _padded(x: jax.Array, size: int, sampling: Sampling) -> jax.Array:
    """A position within the input, if there is any padding but zeros."""
    if sampling.padding == "zeros":
        return x
    if sampling.padding == "reflection":
        x = _reflected(x, size, sampling)
    return _clipped(x, 0, size - 1)


def _reflected(x: jax.Array, size: int, sampling: Sampling) -> jax.Array:
    """A position that is not within the input, reflected by its edges until it is."""
    edge = _edge(sampling)
    period = 2 * (size - 1) if sampling.align_corners else 2 * size
    if period == 0:
        return jnp.zeros_like(x)
    beyond = x - edge
    sign = jnp.where(beyond < 0, jnp.full_like(x, -1), 1)
    distance = multiply(beyond, sign)
    periods = jax.lax.stop_gradient(jnp.floor(_times(distance, 1 / period)))
    rest = distance - _times(periods, period)
    # The product with a rounded reciprocal may be off by one period.
    rest = rest + jnp.where(rest < 0, period, jnp.where(rest >= period, -period, 0))
    back = rest >= period / 2
    folded = multiply(rest, jnp.where(back, jnp.full_like(x, -1), 1)) + jnp.where(back, period, 0)
    return folded + edge


def _clipped(x: jax.Array, least: float, most: float) -> jax.Array:
    """``x``, or the bound that it is not within; at a bound it has no derivative."""
    return jnp.where(x > least, jnp.where(x < most, x, most), least)


def _times(x: jax.Array, factor: float) -> jax.Array:
    return multiply(x, jnp.asarray(factor, x.dtype))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _weights(mode: Mode, fractions: tuple[jax.Array, ...]) -> jax.Array:
    """The weight of each tap, the product of those along each dimension.

    Its derivative is written out, so that a gradient adds up taps in their order.

    Args:
        mode: ``bilinear`` or ``bicubic``.
        fractions: How far beyond its element a sample lies, in each dimension: [n, samples].

    Returns:
        Shape [n, samples, taps].
    """
    return _products(mode, [_factors(mode, t) for t in fractions])


@_weights.defjvp
def _jvp(mode: Mode, primals: Any, tangents: Any) -> Any:
    (fractions,), (dots,) = primals, tangents
    factors = [_factors(mode, t) for t in fractions]
    parts = []
    for dim, (t, dot) in enumerate(zip(fractions, dots, strict=True)):
        slopes = _products(mode, [*factors[:dim], _slopes(mode, t), *factors[dim + 1 :]])
        parts.append(multiply(_again(dot, slopes.shape[2]), slopes))
    return _weights(mode, fractions), functools.reduce(jnp.add, parts)


def _products(mode: Mode, factors: Sequence[Sequence[jax.Array]]) -> jax.Array:
    """Of the factors of each dimension, for each tap."""
    return jnp.stack(
        [
            functools.reduce(multiply, [own[tap] for own, tap in zip(factors, place, strict=True)])
            for place in _places(mode, len(factors))
        ],
        axis=2,
    )


def _again(value: jax.Array, count: int) -> jax.Array:
    """[n, samples] as [n, samples, count]; its transpose adds from the first to the last."""
    same = (Taps.of(1, np.zeros((count, 1))),)
    out = window_sum(value.reshape(-1, 1), same, decision=_ORDERED)
    return out.reshape(*value.shape, count)


def _factors(mode: Mode, t: jax.Array) -> list[jax.Array]:
    """The weights of the taps along one dimension, at a distance of ``t`` beyond an element."""
    if mode == "bilinear":
        return [1 - t, t]
    return [_far(t + 1), _near(t), _near(1 - t), _far(2 - t)]


def _slopes(mode: Mode, t: jax.Array) -> list[jax.Array]:
    """The derivatives of the weights by ``t``."""
    if mode == "bilinear":
        one = jnp.ones_like(t)
        return [-one, one]
    far = functools.partial(_polynomial, coefficients=(3 * _A, -10 * _A, 8 * _A))
    near = functools.partial(_polynomial, coefficients=(3 * (_A + 2), -2 * (_A + 3), 0))
    return [far(t + 1), near(t), -near(1 - t), -far(2 - t)]


def _near(x: jax.Array) -> jax.Array:
    """The cubic convolution at a distance up to 1."""
    return _polynomial(x, (_A + 2, -(_A + 3), 0, 1))


def _far(x: jax.Array) -> jax.Array:
    """The cubic convolution at a distance from 1 to 2."""
    return _polynomial(x, (_A, -5 * _A, 8 * _A, -4 * _A))


def _polynomial(x: jax.Array, coefficients: tuple[float, ...]) -> jax.Array:
    """By Horner's rule, from the coefficient of the highest power on."""
    first, *rest = coefficients
    total = _times(x, first) + rest[0] if rest[0] else _times(x, first)
    for coefficient in rest[1:]:
        total = multiply(total, x)
        total = total + coefficient if coefficient else total
    return total
