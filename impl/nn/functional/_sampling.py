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
import numpy as np
import numpy.typing as npt
from jax import lax

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.axes import elements_at, index_dtype
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, in_memory
from impl._mode.alert import alert, alert_pullback
from impl._mode.decide import Decision, decide
from impl.ops._indexing import gather
from impl.ops._op import op

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


@op("torch.nn.functional.grid_sample")
def grid_sample(
    input: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> jax.Array:
    """Samples ``input`` at the coordinates of ``grid``.

    A sample is the sum of weighted elements, added in row-major order of their indices. The
    gradient of an element of ``input`` adds the cotangents of samples in row-major order. The
    gradient of a coordinate adds channels first, and then the elements that its sample reads.
    float16 and bfloat16 are computed in float32 and rounded once.

    Args:
        input: Shape [N, C, H, W] or [N, C, D, H, W], floats.
        grid: Shape [N, out H, out W, 2] or [N, out D, out H, out W, 3], in the dtype of ``input``.
            The last dimension holds the coordinates x, y (and z). x goes along the last dimension
            of ``input``, from -1 at one end to 1 at the other. As PyTorch documents, NaN means -1;
            it has no derivative. (PyTorch's code may return NaN, or crash.)
        mode: ``"bilinear"`` (of 4 elements, or of 8 in three dimensions); ``"nearest"`` (the even
            index, if two elements are equally near); or ``"bicubic"`` (two dimensions only).
        padding_mode: The elements outside ``input``: ``"zeros"``; ``"border"``, the outermost
            elements; or ``"reflection"``, the elements mirrored at the edges.
        align_corners: True if -1 and 1 are the centers of the outermost elements, False if they
            are the outer edges of these. None means False. (PyTorch warns of None, because it
            meant True before release 1.3.)

    Returns:
        An array of shape [N, C, out H, out W] or [N, C, out D, out H, out W], in the dtype of
        ``input``. For the mode ``"nearest"``, the gradient of ``grid`` is 0.

    Raises:
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or dtypes do not fit; or ``mode`` is ``"bicubic"`` in three dimensions.
        ValueError: ``mode`` or ``padding_mode`` is unknown.
    """
    _check_choices(mode, padding_mode, align_corners)
    input = arguments.array("grid_sample", "input", input)
    grid = arguments.array("grid_sample", "grid", grid)
    _check_shapes(input, grid, mode)
    decision = decide("nn.functional.grid_sample", "backward", **arguments.facts(input))
    sizes, samples = input.shape[2:], grid.shape[1:-1]
    sampling = Sampling(sizes, mode, padding_mode, bool(align_corners))  # type: ignore[arg-type]
    wide = accumulator(input.dtype)
    # With channels last, a sample reads rows, and so does the sum of the gradient.
    rows = jnp.moveaxis(convert(input, wide).reshape(*input.shape[:2], math.prod(sizes)), 1, 2)
    coordinates = convert(grid, wide).reshape(grid.shape[0], math.prod(samples), len(sizes))
    # XLA would compute them again for each channel.
    indices, weights = in_memory(_indices_and_weights(coordinates, sampling))
    out = jnp.moveaxis(_blended(rows, weights, indices), 2, 1)
    out = convert(out.reshape(*input.shape[:2], *samples), input.dtype)
    return alert_pullback(out, decision)


@jax.custom_jvp
def _blended(values: jax.Array, weights: jax.Array, indices: jax.Array) -> jax.Array:
    """Returns weighted sums of rows: [outer, size, inner] and [k, outer, n] to [outer, n, inner].

    A negative index stands for a row of zeros without a derivative.
    """
    terms, none = [], jnp.zeros((*indices.shape[1:], 1), indices.dtype)
    zero = jnp.zeros((), values.dtype)
    parts = [lax.split(each, (1,) * len(each), 0) for each in (weights, indices)]
    for each in zip(*parts, strict=True):
        weight, index = (lax.reshape(part, none.shape) for part in each)
        rows = elements_at(values, lax.max(index, none))
        terms.append(jnp.where(lax.lt(index, none), zero, rows) * weight)
    return jnp.stack(terms).sum(0)


@_blended.defjvp
def _jvp_of_blended(primals: Any, tangents: Any) -> Any:
    values, weights, indices = primals
    # All reads are one gather, so that the gradient of the values is one sum.
    index, weight = (jnp.moveaxis(each, 0, 2)[..., None] for each in (indices, weights))
    outer, n, taps, _ = index.shape
    rows = gather(tangents[0], index.reshape(outer, n * taps, 1), pullback=Decision())
    rows = jnp.where(index < 0, 0, rows.reshape(outer, n, taps, values.shape[2]))
    return _blended(*primals), jnp.sum(rows * weight, 2) + _blended(values, tangents[1], indices)


def _check_choices(mode: Any, padding_mode: Any, align_corners: Any) -> None:
    for name, value, allowed in (("mode", mode, _MODES), ("padding_mode", padding_mode, _PADDINGS)):
        if value not in allowed:
            raise ValueError(
                f"grid_sample(): expected {name} to be one of {', '.join(map(repr, allowed))}, but "
                f"got: {value!r}"
            )
    if align_corners is not None:
        arguments.flags("grid_sample", align_corners=align_corners)


def _check_shapes(input: jax.Array, grid: jax.Array, mode: str) -> None:
    """Checks shapes and dtypes in PyTorch's order."""
    shapes = f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.ndim not in (4, 5) or grid.ndim != input.ndim:
        raise RuntimeError(
            "grid_sample(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got {shapes}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sample(): expected grid and input to have same batch size, but got {shapes}"
        )
    dims = input.ndim - 2
    if grid.shape[-1] != dims:
        raise RuntimeError(
            f"grid_sample(): expected grid to have size {dims} in last dimension, but got grid "
            f"with sizes {list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            "grid_sample(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {list(input.shape)} with dimension {input.shape.index(0, 2)} being empty"
        )
    if mode == "bicubic" and dims == 3:
        raise RuntimeError("grid_sample(): bicubic interpolation only supports 4D input")
    arguments.check_kind("grid_sample", input.dtype, "floating", name="input")
    if input.dtype != grid.dtype:
        raise RuntimeError(
            f"grid_sample(): expected grid to have the dtype of input, but got {grid.dtype} and "
            f"{input.dtype}; convert one of them"
        )


@op("torch.nn.functional.affine_grid")
def affine_grid(theta: Array, size: Sequence[int], align_corners: bool | None = None) -> jax.Array:
    """Computes the grid with which ``grid_sample`` applies affine maps to an array.

    The grid is a product of matrices, of the coordinates x, y (and z) and 1 of each element, and of
    ``theta``. float16 and bfloat16 are computed in float32 and rounded once.

    Args:
        theta: One matrix for each element of the batch: floats, shape [N, 2, 3] or [N, 3, 4].
        size: The shape that ``grid_sample`` is to return: [N, C, H, W] or [N, C, D, H, W].
        align_corners: True if -1 and 1 are the centers of the outermost elements, False if they
            are the outer edges of these; as for ``grid_sample``. None means False. Along a
            dimension of one element, True gives 0. (PyTorch warns of both.)

    Returns:
        A grid of shape [N, H, W, 2] or [N, D, H, W, 3], in the dtype of ``theta``.

    Raises:
        NotImplementedError: ``size`` does not have 4 or 5 elements.
        RuntimeError: N differs between ``theta`` and ``size``.
        ValueError: ``theta`` is not of floats, or its shape does not fit; or an element of ``size``
            is not positive.
    """
    theta = arguments.array("affine_grid", "theta", theta)
    if align_corners is not None:
        arguments.flags("affine_grid", align_corners=align_corners)
    sizes = _sizes(theta, size)
    decision = decide("nn.functional.affine_grid", **arguments.facts(theta))
    matrix = convert(alert(theta, decision), accumulator(theta.dtype))
    # The coordinate x belongs to the last dimension.
    axes = [_coordinates(n, bool(align_corners)) for n in sizes]
    base = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], -1)
    grid = jnp.einsum(
        "...k,nik->n...i", base.astype(matrix.dtype), matrix, precision=lax.Precision.HIGHEST
    )
    return convert(grid, theta.dtype)


def _coordinates(length: int, align_corners: bool) -> npt.NDArray[np.float64]:
    """Returns the coordinates of the elements of a dimension."""
    half = (length - 1) / 2 if align_corners else length / 2
    distance = np.arange(length) - (length - 1) / 2
    return np.asarray(distance / half if half else distance)


def _sizes(theta: jax.Array, size: Any) -> tuple[int, ...]:
    """Checks ``theta`` and ``size``, and returns the spatial sizes."""
    if arguments.dtype_kind(theta.dtype) != "floating":
        raise ValueError(
            f"affine_grid(): expected theta to have floating point type, but got {theta.dtype}"
        )
    if not isinstance(size, Sequence) or isinstance(size, str):
        raise arguments.wrong_type("affine_grid", "size", "a tuple of ints", size)
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid(): only 4D and 5D sizes are supported, for 2D and 3D affine transforms, "
            f"but got size {list(size)}"
        )
    dims = len(size) - 2
    if theta.ndim != 3 or theta.shape[1:] != (dims, dims + 1):
        raise ValueError(
            f"affine_grid(): expected a batch of {dims}D affine matrices of shape "
            f"Nx{dims}x{dims + 1} for size {list(size)}, but got {list(theta.shape)}"
        )
    sizes = arguments.integers("affine_grid", "size", size, len(size))
    if min(sizes) <= 0:
        raise ValueError(
            f"affine_grid(): expected non-zero, positive output size, but got {list(sizes)}"
        )
    if sizes[0] != theta.shape[0]:
        raise RuntimeError(
            "affine_grid(): expected as many matrices as size has elements of a batch "
            f"({sizes[0]}), but got {theta.shape[0]}"
        )
    return sizes[2:]


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
def _indices_and_weights(coordinates: jax.Array, sampling: Sampling) -> tuple[jax.Array, jax.Array]:
    """Returns the indices of the elements that each sample reads, and their weights.

    Indices are into the flattened spatial dimensions, in row-major order, -1 for elements outside
    the input. For coordinates [n, samples, dims], both have the shape [elements, n, samples].
    """
    dims = len(sampling.sizes)
    sizes = sampling.sizes[::-1]
    of_dims = [
        _indices_along(coordinate.reshape(coordinates.shape[:2]), size, sampling)
        for coordinate, size in zip(lax.split(coordinates, (1,) * dims, axis=2), sizes, strict=True)
    ]
    indices = _flat_indices([index for index, _ in of_dims], sizes)
    if sampling.mode == "nearest":
        return indices, jnp.ones(indices.shape, coordinates.dtype)
    weights = _weights(sampling.mode, tuple(fraction for _, fraction in of_dims))
    # The choice keeps an infinite cotangent of a row of zeros from the derivative.
    return indices, where(indices < 0, 0, weights)


def _flat_indices(indices: Sequence[jax.Array], sizes: Sequence[int]) -> jax.Array:
    """Combines the indices along each dimension to indices into the flattened input."""
    integer = index_dtype(math.prod(sizes))
    # An index outside may wrap around before it is replaced.
    on_axes, insides = [], []
    for dim, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        on_axes.append(_on_axis(index.astype(integer), dim, len(sizes)))
        insides.append(_on_axis((index >= 0) & (index <= size - 1), dim, len(sizes)))
    *others, flat = on_axes
    for size, index in zip(sizes[-2::-1], others[::-1], strict=True):
        flat = flat * size + index
    return _flattened(where(functools.reduce(jnp.logical_and, insides), flat, -1))


def _on_axis(values: jax.Array, dim: int, dims: int) -> jax.Array:
    """Reshapes [elements, n, samples] to one axis for each dimension, the axis of x last.

    The elements are on the axis of ``dim``; the other axes have length 1.
    """
    shape = [1] * dims
    shape[dims - 1 - dim] = values.shape[0]
    return values.reshape(*shape, *values.shape[1:])


def _flattened(values: jax.Array) -> jax.Array:
    """Reshapes one axis for each dimension to one axis of all elements, in row-major order."""
    return values.reshape(math.prod(values.shape[:-2]), *values.shape[-2:])


def _indices_along(
    coordinate: jax.Array, size: int, sampling: Sampling
) -> tuple[jax.Array, jax.Array]:
    """Returns the indices that samples read along one dimension, and the fractions beyond them.

    Indices are whole numbers in a dtype of floats, and may be outside the input. They have the
    shape [elements, n, samples], for coordinates of shape [n, samples].
    """
    if sampling.align_corners:
        x = _times(coordinate + 1, (size - 1) / 2)
    else:
        x = _times(_times(coordinate + 1, size) - 1, 0.5)
    # As PyTorch documents, NaN means -1. So does an infinity, which has no reflection.
    invalid = ~jnp.isfinite(x) if sampling.padding == "reflection" else jnp.isnan(x)
    x = jnp.where(invalid, _first_edge(sampling), x)
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
        return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)[None], x
    below = lax.stop_gradient(jnp.floor(x))
    first, count = (-1, 4) if sampling.mode == "bicubic" else (0, 2)
    indices = below[None] + np.arange(first, first + count, dtype=x.dtype)[:, None, None]
    if sampling.mode == "bicubic":
        indices = _padded(indices, size, sampling)
    return indices, x - below


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
    periods = lax.stop_gradient(jnp.floor(_times(distance, 1 / period)))
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

    Its derivative is written by hand, so that a gradient adds the elements in their order. For the
    fraction of each sample along each dimension, [n, samples], the weights are [elements, n,
    samples].
    """
    return _products([_factors(mode, t) for t in fractions])


@_weights.defjvp
def _jvp(mode: Mode, primals: Any, tangents: Any) -> Any:
    (fractions,), (of_fractions,) = primals, tangents
    factors = [_factors(mode, t) for t in fractions]
    terms = []
    for dim, (t, tangent) in enumerate(zip(fractions, of_fractions, strict=True)):
        slopes = _products([*factors[:dim], _slopes(mode, t), *factors[dim + 1 :]])
        terms.append(tangent[None] * slopes)
    return _weights(mode, fractions), functools.reduce(jnp.add, terms)


def _products(factors: Sequence[jax.Array]) -> jax.Array:
    """Multiplies the factors of each element along each dimension, beginning with x."""
    on_axes = [_on_axis(factor, dim, len(factors)) for dim, factor in enumerate(factors)]
    return _flattened(functools.reduce(jnp.multiply, jnp.broadcast_arrays(*on_axes)))


def _factors(mode: Mode, t: jax.Array) -> jax.Array:
    """Returns the weights of the elements along one dimension, for the fraction ``t``."""
    if mode == "bilinear":
        return jnp.stack([1 - t, t])
    far = _polynomial(jnp.stack([t + 1, 2 - t]), (_A, -5 * _A, 8 * _A, -4 * _A))
    near = _polynomial(jnp.stack([t, 1 - t]), (_A + 2, -(_A + 3), 0, 1))
    return _around(far, near)


def _slopes(mode: Mode, t: jax.Array) -> jax.Array:
    """Returns the derivatives of the weights by ``t``."""
    if mode == "bilinear":
        one = jnp.ones_like(t)
        return jnp.stack([-one, one])
    far = _polynomial(jnp.stack([t + 1, 2 - t]), (3 * _A, -10 * _A, 8 * _A))
    near = _polynomial(jnp.stack([t, 1 - t]), (3 * (_A + 2), -2 * (_A + 3), 0))
    # The distance to the second element of each pair decreases as t increases.
    sign = jnp.array([1, -1], t.dtype)[:, None, None]
    return _around(far * sign, near * sign)


def _around(far: jax.Array, near: jax.Array) -> jax.Array:
    """Orders the values of the two far and the two near elements by their index."""
    return jnp.concatenate([far[:1], near, far[1:]])


def _polynomial(x: jax.Array, coefficients: tuple[float, ...]) -> jax.Array:
    """Evaluates a polynomial by Horner's rule; the coefficient of the highest power is first."""
    first, *others = coefficients
    total = _times(x, first)
    for number, coefficient in enumerate(others):
        total = total * x if number else total
        total = total + coefficient if coefficient else total
    return total
