"""Where a grid samples an input: which elements each sample reads, and their weights.

Coordinates and weights are made of sums and rounded products, so that they have the same bits on
every device. What is written for one dimension is done for each, in the order of the elements of a
grid's last dimension: x, y and z, of which x goes along the last dimension of the input.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.axes import index_dtype
from impl._core.window_table import WindowTable
from impl._mode.decide import Action, Decision
from impl._primitives.arithmetic import multiply
from impl._primitives.windows import window_sum

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
    sizes = sampling.sizes[::-1]
    along = [
        _along(coordinate.reshape(grid.shape[:2]), size, sampling)
        for coordinate, size in zip(jax.lax.split(grid, (1,) * dims, axis=2), sizes, strict=True)
    ]
    indices = _indices([positions for positions, _ in along], sizes)
    if sampling.mode == "nearest":
        return indices, jnp.ones(indices.shape, grid.dtype)
    return indices, _weights(sampling.mode, tuple(fraction for _, fraction in along))


def _indices(positions: Sequence[jax.Array], sizes: Sequence[int]) -> jax.Array:
    """Positions in the flattened input, of those along each dimension."""
    counter = index_dtype(math.prod(sizes))
    index, inside = jnp.zeros((), counter), jnp.ones((), bool)
    for dim, (position, size) in enumerate(zip(positions, sizes, strict=True)):
        own = (position >= 0) & (position <= size - 1)
        steps = jnp.where(own, position, 0).astype(counter) * math.prod(sizes[:dim])
        index = index + _by_dim(steps, dim, len(sizes))
        inside = inside & _by_dim(own, dim, len(sizes))
    return _flat(jnp.where(inside, index, -1))


def _by_dim(value: jax.Array, dim: int, dims: int) -> jax.Array:
    """[n, samples, taps] of one dimension, with an axis for the taps of each, x last."""
    taps = [1] * dims
    taps[dims - 1 - dim] = value.shape[2]
    return value.reshape(*value.shape[:2], *taps)


def _flat(value: jax.Array) -> jax.Array:
    """The inverse: [n, samples, taps], in row-major order of all dimensions."""
    return value.reshape(*value.shape[:2], math.prod(value.shape[2:]))


def _along(coordinate: jax.Array, size: int, sampling: Sampling) -> tuple[jax.Array, jax.Array]:
    """The positions that are read along one dimension, and how far beyond its element x lies.

    Positions are whole numbers, not integers; those beyond the input are read as zeros. Their
    shape is [n, samples, taps] for coordinates of shape [n, samples].
    """
    x = _in_elements(coordinate, size, sampling.align_corners)
    # A NaN stands for -1, as PyTorch's documents have it. An infinity has no reflection either.
    known = jnp.isfinite(x) if sampling.padding == "reflection" else ~jnp.isnan(x)
    x = jnp.where(known, x, _edge(sampling))
    if sampling.mode == "bicubic":
        if sampling.padding != "reflection":
            # Beyond that all taps are alike.
            x = _clipped(x, -4, size + 3)
    elif sampling.padding == "zeros":
        # Two steps beyond the input nothing is read; further away no number is to be infinite.
        x = _clipped(x, -2, size + 1)
    else:
        x = _padded(x, size, sampling)
    if sampling.mode == "nearest":
        return jax.lax.round(x, jax.lax.RoundingMethod.TO_NEAREST_EVEN)[..., None], x
    whole = jax.lax.stop_gradient(jnp.floor(x))
    first, taps = (-1, 4) if sampling.mode == "bicubic" else (0, 2)
    positions = whole[..., None] + (first + jnp.arange(taps, dtype=x.dtype))
    if sampling.mode == "bicubic":
        positions = _padded(positions, size, sampling)
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
    return _products([_factors(mode, t) for t in fractions])


@_weights.defjvp
def _jvp(mode: Mode, primals: Any, tangents: Any) -> Any:
    (fractions,), (dots,) = primals, tangents
    factors = [_factors(mode, t) for t in fractions]
    parts = []
    for dim, (t, dot) in enumerate(zip(fractions, dots, strict=True)):
        slopes = _products([*factors[:dim], _slopes(mode, t), *factors[dim + 1 :]])
        parts.append(multiply(_again(dot, slopes.shape[2]), slopes))
    return _weights(mode, fractions), functools.reduce(jnp.add, parts)


def _products(factors: Sequence[jax.Array]) -> jax.Array:
    """Of the factors of each dimension, for each tap; that of x first."""
    every = [_by_dim(own, dim, len(factors)) for dim, own in enumerate(factors)]
    return _flat(functools.reduce(multiply, jnp.broadcast_arrays(*every)))


def _again(value: jax.Array, count: int) -> jax.Array:
    """[n, samples] as [n, samples, count]; its transpose adds from the first to the last."""
    same = (WindowTable.of(1, np.zeros((count, 1))),)
    out = window_sum(value.reshape(value.size, 1), same, decision=_ORDERED)
    return out.reshape(*value.shape, count)


def _factors(mode: Mode, t: jax.Array) -> jax.Array:
    """The weights of the taps along one dimension, at a distance of ``t`` beyond an element."""
    if mode == "bilinear":
        return jnp.stack([1 - t, t], axis=-1)
    far = _polynomial(jnp.stack([t + 1, 2 - t], axis=-1), (_A, -5 * _A, 8 * _A, -4 * _A))
    near = _polynomial(jnp.stack([t, 1 - t], axis=-1), (_A + 2, -(_A + 3), 0, 1))
    return _around(far, near)


def _slopes(mode: Mode, t: jax.Array) -> jax.Array:
    """The derivatives of the weights by ``t``."""
    if mode == "bilinear":
        one = jnp.ones_like(t)
        return jnp.stack([-one, one], axis=-1)
    far = _polynomial(jnp.stack([t + 1, 2 - t], axis=-1), (3 * _A, -10 * _A, 8 * _A))
    near = _polynomial(jnp.stack([t, 1 - t], axis=-1), (3 * (_A + 2), -2 * (_A + 3), 0))
    # Of the second of each the distance falls as t grows.
    sign = jnp.array([1, -1], t.dtype)
    return _around(far * sign, near * sign)


def _around(far: jax.Array, near: jax.Array) -> jax.Array:
    """The four taps of a cubic convolution, of the two far ones and the two near ones."""
    return jnp.concatenate([far[..., :1], near, far[..., 1:]], axis=-1)


def _polynomial(x: jax.Array, coefficients: tuple[float, ...]) -> jax.Array:
    """By Horner's rule, from the coefficient of the highest power on."""
    first, *rest = coefficients
    total = _times(x, first)
    for place, coefficient in enumerate(rest):
        total = multiply(total, x) if place else total
        total = total + coefficient if coefficient else total
    return total
