"""The op ``affine_grid``: grids for ``grid_sample``, made from affine matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._mode.decide import decide
from impl._primitives.alert import alert

_NAME = "affine_grid"
_OP = f"nn.functional.{_NAME}"


@eager.compiled
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
        RuntimeError: N differs between ``theta`` and ``size``; or the mode is on and the profile
            has no deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: ``theta`` is not of floats, or its shape does not fit; or an element of
            ``size`` is not positive.

    Source: ``torch.nn.functional.affine_grid``. The spec's rows state what the mode does, and the
    guarantee.
    """
    theta = arguments.array(_NAME, "theta", theta)
    if align_corners is not None:
        arguments.flag(_NAME, "align_corners", align_corners)
    sizes = _sizes(theta, size)
    decision = decide(_OP, **arguments.facts(theta))
    matrix = convert(alert(theta, decision), accumulator(theta.dtype))
    # The coordinate x belongs to the last dimension.
    axes = [_coordinates(n, bool(align_corners)) for n in sizes]
    base = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], -1)
    grid = jnp.einsum(
        "...k,nik->n...i", base.astype(matrix.dtype), matrix, precision=jax.lax.Precision.HIGHEST
    )
    return convert(grid, theta.dtype)


def _coordinates(length: int, align_corners: bool) -> npt.NDArray[np.float64]:
    """Returns the coordinates of the elements of a dimension."""
    half = (length - 1) / 2 if align_corners else length / 2
    distance = np.arange(length) - (length - 1) / 2
    return np.asarray(distance / half if half else distance)


def _sizes(theta: jax.Array, size: Any) -> tuple[int, ...]:
    """Checks ``theta`` and ``size``, and returns the spatial sizes.

    Raises:
        Exceptions: As ``affine_grid`` does.
    """
    if arguments.dtype_kind(theta.dtype) != "floating":
        raise ValueError(
            f"{_NAME}(): expected theta to have floating point type, but got {theta.dtype}"
        )
    if not isinstance(size, Sequence) or isinstance(size, str):
        raise TypeError(
            f"{_NAME}(): argument 'size' must be a tuple of ints, not {type(size).__name__}"
        )
    if len(size) not in (4, 5):
        raise NotImplementedError(
            f"{_NAME}(): only 4D and 5D sizes are supported, for 2D and 3D affine transforms, but "
            f"got size {list(size)}"
        )
    dims = len(size) - 2
    if theta.ndim != 3 or theta.shape[1:] != (dims, dims + 1):
        raise ValueError(
            f"{_NAME}(): expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} "
            f"for size {list(size)}, but got {list(theta.shape)}"
        )
    sizes = arguments.integers(_NAME, "size", size, len(size))
    if min(sizes) <= 0:
        raise ValueError(
            f"{_NAME}(): expected non-zero, positive output size, but got {list(sizes)}"
        )
    if sizes[0] != theta.shape[0]:
        raise RuntimeError(
            f"{_NAME}(): expected as many matrices as size has elements of a batch ({sizes[0]}), "
            f"but got {theta.shape[0]}"
        )
    return sizes[2:]
