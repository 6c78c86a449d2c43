"""Indices and weights of the elements that each sample of a grid reads.

The functions for one dimension apply to x, y and z, in the order of the last dimension of a grid;
x goes along the last dimension of the input. For an input of 2 x 3 elements, without
``align_corners``, the coordinates x = 0 and y = 0 are the middle, column 1 and row 0.5:

    mode "bilinear"     columns 1 and 2, rows 0 and 1, fractions 0 and 0.5
    indices             [1, 2, 4, 5]             into the flattened input
    weights             [0.5, 0., 0.5, 0.]
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp

from impl._core.axes import index_dtype

Mode: TypeAlias = Literal["bilinear", "nearest", "bicubic"]
Padding: TypeAlias = Literal["zeros", "border", "reflection"]

#: The parameter of the cubic convolution.
_A = -0.75


@dataclasses.dataclass(frozen=True)
class Sampling:
    """The arguments of a sampling; hashable, so that it can be a static argument.

    Attributes:
        sizes: The sizes of the input's spatial dimensions.
        mode: The interpolation between elements.
        padding: The elements outside the input.
        align_corners: Whether -1 and 1 are the centers of the outermost elements, not their edges.
    """

    sizes: tuple[int, ...]
    mode: Mode
    padding: Padding
    align_corners: bool


@functools.partial(jax.jit, static_argnames="sampling")
def indices_and_weights(coordinates: jax.Array, sampling: Sampling) -> tuple[jax.Array, jax.Array]:
    """Returns the indices of the elements that each sample reads, and their weights.

    Args:
        coordinates: float32 or float64, shape [n, samples, dims].
        sampling: The arguments of the sampling.

    Returns:
        Indices into the flattened spatial dimensions, in row-major order, -1 for elements outside
        the input; and weights. Both have the shape [n, samples, elements].
    """
    dims = len(sampling.sizes)
    sizes = sampling.sizes[::-1]
    of_dims = [
        _indices_along(coordinate.reshape(coordinates.shape[:2]), size, sampling)
        for coordinate, size in zip(
            jax.lax.split(coordinates, (1,) * dims, axis=2), sizes, strict=True
        )
    ]
    indices = _flat_indices([index for index, _ in of_dims], sizes)
    if sampling.mode == "nearest":
        return indices, jnp.ones(indices.shape, coordinates.dtype)
    return indices, _weights(sampling.mode, tuple(fraction for _, fraction in of_dims))


def _flat_indices(indices: Sequence[jax.Array], sizes: Sequence[int]) -> jax.Array:
    """Combines the indices along each dimension to indices into the flattened input."""
    integer = index_dtype(math.prod(sizes))
    flat, inside = jnp.zeros((), integer), jnp.ones((), bool)
    for dim, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        inside_dim = (index >= 0) & (index <= size - 1)
        offset = jnp.where(inside_dim, index, 0).astype(integer) * math.prod(sizes[:dim])
        flat = flat + _on_axis(offset, dim, len(sizes))
        inside = inside & _on_axis(inside_dim, dim, len(sizes))
    return _flattened(jnp.where(inside, flat, -1))


def _on_axis(values: jax.Array, dim: int, dims: int) -> jax.Array:
    """Reshapes [n, samples, elements] to one axis for each dimension, the axis of x last.

    The elements are on the axis of ``dim``; the other axes have length 1.
    """
    shape = [1] * dims
    shape[dims - 1 - dim] = values.shape[2]
    return values.reshape(*values.shape[:2], *shape)


def _flattened(values: jax.Array) -> jax.Array:
    """Reshapes one axis for each dimension to one axis of all elements, in row-major order."""
    return values.reshape(*values.shape[:2], math.prod(values.shape[2:]))


def _indices_along(
    coordinate: jax.Array, size: int, sampling: Sampling
) -> tuple[jax.Array, jax.Array]:
    """Returns the indices that samples read along one dimension, and the fractions beyond them.

    Indices are whole numbers in a dtype of floats, and may be outside the input. They have the
    shape [n, samples, elements], for coordinates of shape [n, samples].
    """
    x = _in_elements(coordinate, size, sampling.align_corners)
    # As PyTorch documents, NaN means -1. So does an infinity, which has no reflection.
    valid = jnp.isfinite(x) if sampling.padding == "reflection" else ~jnp.isnan(x)
    x = jnp.where(valid, x, _first_edge(sampling))
    if sampling.mode == "bicubic":
        if sampling.padding != "reflection":
            # Further outside, all four elements are of the padding anyway.
            x = _clipped(x, -4, size + 3)
    elif sampling.padding == "zeros":
        # Two elements outside the input, a sample reads only zeros. Further outside, an infinite
        # coordinate would give an infinite weight.
        x = _clipped(x, -2, size + 1)
    else:
        x = _padded(x, size, sampling)
    if sampling.mode == "nearest":
        return jax.lax.round(x, jax.lax.RoundingMethod.TO_NEAREST_EVEN)[..., None], x
    below = jax.lax.stop_gradient(jnp.floor(x))
    first, count = (-1, 4) if sampling.mode == "bicubic" else (0, 2)
    indices = below[..., None] + (first + jnp.arange(count, dtype=x.dtype))[None, None]
    if sampling.mode == "bicubic":
        indices = _padded(indices, size, sampling)
    return indices, x - below


def _in_elements(coordinate: jax.Array, size: int, align_corners: bool) -> jax.Array:
    """Converts a coordinate in [-1, 1] to a position measured in elements."""
    if align_corners:
        return _times(coordinate + 1, (size - 1) / 2)
    return _times(_times(coordinate + 1, size) - 1, 0.5)


def _first_edge(sampling: Sampling) -> float:
    """Returns the position of the coordinate -1."""
    return 0.0 if sampling.align_corners else -0.5


def _padded(x: jax.Array, size: int, sampling: Sampling) -> jax.Array:
    """Moves positions into the input, unless the padding is zeros."""
    if sampling.padding == "zeros":
        return x
    if sampling.padding == "reflection":
        x = _reflected(x, size, sampling)
    return _clipped(x, 0, size - 1)


def _reflected(x: jax.Array, size: int, sampling: Sampling) -> jax.Array:
    """Reflects positions at the edges of the input until they are inside."""
    edge = _first_edge(sampling)
    period = 2 * (size - 1) if sampling.align_corners else 2 * size
    if period == 0:
        return jnp.zeros_like(x)
    beyond = x - edge
    sign = jnp.where(beyond < 0, jnp.full_like(x, -1), 1)
    distance = beyond * sign
    periods = jax.lax.stop_gradient(jnp.floor(_times(distance, 1 / period)))
    rest = distance - _times(periods, period)
    # The product with a rounded reciprocal may be one period too small or too large.
    rest = rest + jnp.where(rest < 0, period, jnp.where(rest >= period, -period, 0))
    back = rest >= period / 2
    folded = rest * jnp.where(back, jnp.full_like(x, -1), 1) + jnp.where(back, period, 0)
    return folded + edge


def _clipped(x: jax.Array, least: float, most: float) -> jax.Array:
    """Limits ``x`` to the bounds. At a bound, the derivative is 0."""
    return jnp.where(x > least, jnp.where(x < most, x, most), least)


def _times(x: jax.Array, factor: float) -> jax.Array:
    return x * jnp.asarray(factor, x.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _weights(mode: Mode, fractions: tuple[jax.Array, ...]) -> jax.Array:
    """Returns the weight of each element, the product of its weights along each dimension.

    Its derivative is written by hand, so that a gradient adds the elements in their order.

    Args:
        mode: ``bilinear`` or ``bicubic``.
        fractions: For each dimension, the fraction of each sample: shape [n, samples].

    Returns:
        An array of shape [n, samples, elements].
    """
    return _products([_factors(mode, t) for t in fractions])


@_weights.defjvp
def _jvp(mode: Mode, primals: Any, tangents: Any) -> Any:
    (fractions,), (of_fractions,) = primals, tangents
    factors = [_factors(mode, t) for t in fractions]
    terms = []
    for dim, (t, tangent) in enumerate(zip(fractions, of_fractions, strict=True)):
        slopes = _products([*factors[:dim], _slopes(mode, t), *factors[dim + 1 :]])
        terms.append(tangent[..., None] * slopes)
    return _weights(mode, fractions), functools.reduce(jnp.add, terms)


def _products(factors: Sequence[jax.Array]) -> jax.Array:
    """Multiplies the factors of each element along each dimension, beginning with x."""
    on_axes = [_on_axis(factor, dim, len(factors)) for dim, factor in enumerate(factors)]
    return _flattened(functools.reduce(jnp.multiply, jnp.broadcast_arrays(*on_axes)))


def _factors(mode: Mode, t: jax.Array) -> jax.Array:
    """Returns the weights of the elements along one dimension, for the fraction ``t``."""
    if mode == "bilinear":
        return jnp.stack([1 - t, t], axis=-1)
    far = _polynomial(jnp.stack([t + 1, 2 - t], axis=-1), (_A, -5 * _A, 8 * _A, -4 * _A))
    near = _polynomial(jnp.stack([t, 1 - t], axis=-1), (_A + 2, -(_A + 3), 0, 1))
    return _around(far, near)


def _slopes(mode: Mode, t: jax.Array) -> jax.Array:
    """Returns the derivatives of the weights by ``t``."""
    if mode == "bilinear":
        one = jnp.ones_like(t)
        return jnp.stack([-one, one], axis=-1)
    far = _polynomial(jnp.stack([t + 1, 2 - t], axis=-1), (3 * _A, -10 * _A, 8 * _A))
    near = _polynomial(jnp.stack([t, 1 - t], axis=-1), (3 * (_A + 2), -2 * (_A + 3), 0))
    # The distance to the second element of each pair decreases as t increases.
    sign = jnp.broadcast_to(jnp.array([1, -1], t.dtype), far.shape)
    return _around(far * sign, near * sign)


def _around(far: jax.Array, near: jax.Array) -> jax.Array:
    """Orders the values of the two far and the two near elements by their index."""
    return jnp.concatenate([far[..., :1], near, far[..., 1:]], axis=-1)


def _polynomial(x: jax.Array, coefficients: tuple[float, ...]) -> jax.Array:
    """Evaluates a polynomial by Horner's rule; the coefficient of the highest power is first."""
    first, *others = coefficients
    total = _times(x, first)
    for number, coefficient in enumerate(others):
        total = total * x if number else total
        total = total + coefficient if coefficient else total
    return total
