"""impl.nn.functional.grid_sample."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._mode.decide import decide
from impl._primitives.alert import alert_pullback
from impl._primitives.blend import blend
from impl.nn.functional._sampling import Sampling, taps

_NAME = "grid_sample"
_OP = f"nn.functional.{_NAME}"

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sample(
    input: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> jax.Array:
    """Samples of ``input`` at the places that ``grid`` gives.

    A sample adds the weighted elements that it reads in row-major order of their positions. The
    gradient of an element of ``input`` adds up the samples that read it in row-major order; that
    of an element of ``grid`` adds up channels first, and then the elements that its sample read.
    float16 and bfloat16 are computed in float32 and rounded once.

    Args:
        input: Floats, shape [N, C, H, W] or [N, C, D, H, W].
        grid: Of the same dtype, shape [N, out H, out W, 2] or [N, out D, out H, out W, 3]. The
            last dimension has the coordinates x, y and z, of which x goes along the last dimension
            of ``input``: -1 is its one end and 1 the other. A NaN counts as -1 and has no
            derivative, as PyTorch's documents have it; PyTorch's code may give NaN, or crash.
        mode: ``bilinear`` (of 8 elements where there are three dimensions), ``nearest`` (the even
            one of two that are equally near) or ``bicubic`` (for two dimensions).
        padding_mode: What lies beyond ``input``: ``zeros``; its outermost elements (``border``);
            or ``reflection``.
        align_corners: Whether -1 and 1 are the centers of the outermost elements, and not their
            outer edges. None is False; PyTorch warns of it, since it was True before 1.3.

    Returns:
        Shape [N, C, out H, out W] or [N, C, out D, out H, out W], dtype of ``input``. Where
        ``mode`` is ``nearest``, the gradient of ``grid`` is 0.

    Raises:
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or dtypes do not fit, or ``mode`` is ``bicubic`` in three dimensions;
            or, when differentiated, by ``grid`` alone as well, the mode was on and the profile has
            no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: ``mode`` or ``padding_mode`` is another one.

    Source: ``torch.nn.functional.grid_sample``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    _check_choices(mode, padding_mode, align_corners)
    input = arguments.array(_NAME, "input", input)
    grid = arguments.array(_NAME, "grid", grid)
    _check_shapes(input, grid, mode)
    decision = decide(_OP, "backward", **arguments.facts(input))
    sizes, samples = input.shape[2:], grid.shape[1:-1]
    sampling = Sampling(sizes, mode, padding_mode, bool(align_corners))  # type: ignore[arg-type]
    wide = accumulator(input.dtype)
    # Channels last: what is read and added up is then rows.
    rows = jnp.moveaxis(convert(input, wide).reshape(*input.shape[:2], math.prod(sizes)), 1, 2)
    places = convert(grid, wide).reshape(grid.shape[0], math.prod(samples), len(sizes))
    indices, weights = taps(places, sampling)
    out = jnp.moveaxis(blend(rows, weights, indices, pullback=decision), 2, 1)
    out = convert(out.reshape(*input.shape[:2], *samples), input.dtype)
    return alert_pullback(out, decision)


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
    """Refuses what does not fit, in PyTorch's order."""
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
