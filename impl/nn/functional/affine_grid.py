"""The op ``affine_grid``: grids for ``grid_sample``, made from affine matrices."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._families.window_table import WindowTable
from impl._mode.decide import Action, Decision, decide
from impl._primitives.alert import alert
from impl._primitives.windows import window_sum

_NAME = "affine_grid"
_OP = f"nn.functional.{_NAME}"


@eager.compiled
def affine_grid(theta: Array, size: Sequence[int], align_corners: bool | None = None) -> jax.Array:
    """Computes the grid with which ``grid_sample`` applies affine maps to an array.

    Each coordinate is a sum of rounded products, of x, of y (and of z), and of the
    constant, added in this order. A gradient adds the elements of the grid along the first
    dimension first. float16 and bfloat16 are computed in float32 and rounded once.

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
    dims, batch = len(sizes), theta.shape[0]
    # The gradient is ordered in every mode: this order costs less than atomic additions.
    ordered = Decision(elsewhere=Action(path="ordered"))
    constant = [WindowTable.of(1, np.zeros((length, 1))) for length in sizes]
    terms = []
    for column, entries in enumerate(jax.lax.split(matrix, (1,) * (dims + 1), axis=2)):
        tables = list(constant)
        if column < dims:
            dim = dims - 1 - column  # The coordinate x belongs to the last dimension.
            tables[dim] = _coordinates(sizes[dim], bool(align_corners))
        values = entries.reshape(batch * dims, *(1,) * dims)
        terms.append(window_sum(values, tuple(tables), decision=ordered))
    out = functools.reduce(jnp.add, terms).reshape(batch, dims, *sizes)
    return convert(jnp.moveaxis(out, 1, -1), theta.dtype)


def _coordinates(length: int, align_corners: bool) -> WindowTable:
    """Returns a table that multiplies one element by each coordinate of a dimension."""
    half = (length - 1) / 2 if align_corners else length / 2
    distance = np.arange(length) - (length - 1) / 2
    coordinate = distance / half if half else distance
    return WindowTable.of(1, np.zeros((length, 1)), coordinate[:, None])


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
