"""The op ``grid_sample``: samples of an array at the coordinates of a grid.

``_sampling`` turns coordinates into indices and weights. The primitive ``blend`` adds the weighted
elements.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._mode.decide import Decision, decide
from impl._primitives.alert import alert_pullback
from impl.nn.functional._sampling import Sampling, indices_and_weights
from impl.ops._indexing import gather

_NAME = "grid_sample"
_OP = f"nn.functional.{_NAME}"

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


@eager.compiled
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
        RuntimeError: Shapes or dtypes do not fit; ``mode`` is ``"bicubic"`` in three dimensions; or
            the call is differentiated, by ``input`` or by ``grid``, the mode was on and the profile
            has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: ``mode`` or ``padding_mode`` is unknown.

    Source: ``torch.nn.functional.grid_sample``. The spec's rows state what the mode does, and the
    guarantee.
    """
    _check_choices(mode, padding_mode, align_corners)
    input = arguments.array(_NAME, "input", input)
    grid = arguments.array(_NAME, "grid", grid)
    _check_shapes(input, grid, mode)
    decision = decide(_OP, "backward", **arguments.facts(input))
    sizes, samples = input.shape[2:], grid.shape[1:-1]
    sampling = Sampling(sizes, mode, padding_mode, bool(align_corners))  # type: ignore[arg-type]
    wide = accumulator(input.dtype)
    # With channels last, a sample reads rows, and so does the sum of the gradient.
    rows = jnp.moveaxis(convert(input, wide).reshape(*input.shape[:2], math.prod(sizes)), 1, 2)
    coordinates = convert(grid, wide).reshape(grid.shape[0], math.prod(samples), len(sizes))
    indices, weights = indices_and_weights(coordinates, sampling)
    out = jnp.moveaxis(_blended(rows, weights, indices), 2, 1)
    out = convert(out.reshape(*input.shape[:2], *samples), input.dtype)
    return alert_pullback(out, decision)


def _blended(values: jax.Array, weights: jax.Array, indices: jax.Array) -> jax.Array:
    """Returns weighted sums of rows: [outer, size, inner] and [outer, n, k] to [outer, n, inner].

    An index outside of [0, size) stands for a row of zeros without a derivative.
    """
    outer, n, taps = indices.shape
    rows = gather(values, indices.reshape(outer, n * taps, 1), pullback=Decision())
    rows = rows.reshape(outer, n, taps, values.shape[2])
    is_row = ((indices >= 0) & (indices < values.shape[1]))[..., None]
    # The second choice keeps an infinite cotangent from the derivative by a weight.
    terms = jnp.where(is_row, rows, 0) * weights[..., None]
    return jnp.sum(jnp.where(is_row, terms, 0), axis=2)


def _check_choices(mode: Any, padding_mode: Any, align_corners: Any) -> None:
    for name, value, allowed in (
        ("mode", mode, _MODES),
        ("padding_mode", padding_mode, _PADDINGS),
    ):
        if value not in allowed:
            raise ValueError(
                f"{_NAME}(): expected {name} to be one of {', '.join(map(repr, allowed))}, but "
                f"got: {value!r}"
            )
    if align_corners is not None:
        arguments.flag(_NAME, "align_corners", align_corners)


def _check_shapes(input: jax.Array, grid: jax.Array, mode: str) -> None:
    """Checks shapes and dtypes in PyTorch's order."""
    shapes = f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.ndim not in (4, 5) or grid.ndim != input.ndim:
        raise RuntimeError(
            f"{_NAME}(): expected 4D or 5D input and grid with same number of dimensions, but got "
            f"{shapes}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"{_NAME}(): expected grid and input to have same batch size, but got {shapes}"
        )
    dims = input.ndim - 2
    if grid.shape[-1] != dims:
        raise RuntimeError(
            f"{_NAME}(): expected grid to have size {dims} in last dimension, but got grid with "
            f"sizes {list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            f"{_NAME}(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(input.shape)} with dimension {input.shape.index(0, 2)} being empty"
        )
    if mode == "bicubic" and dims == 3:
        raise RuntimeError(f"{_NAME}(): bicubic interpolation only supports 4D input")
    if arguments.dtype_kind(input.dtype) != "floating":
        raise NotImplementedError(
            f"{_NAME}(): not implemented for {input.dtype} in argument 'input'; it takes floats"
        )
    if input.dtype != grid.dtype:
        raise RuntimeError(
            f"{_NAME}(): expected grid to have the dtype of input, but got {grid.dtype} and "
            f"{input.dtype}; convert one of them"
        )
