"""impl.nn.functional.affine_grid."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments
from impl._core.arguments import Array
from impl._core.numerics import accumulator, convert
from impl._core.window_table import WindowTable
from impl._mode.decide import Action, Decision, decide
from impl._primitives.alert import alert
from impl._primitives.windows import window_sum

_NAME = "affine_grid"
_OP = f"nn.functional.{_NAME}"


def affine_grid(theta: Array, size: Sequence[int], align_corners: bool | None = None) -> jax.Array:
    """The grid that samples an input through affine maps, for ``grid_sample``.

    Each coordinate is a rounded product for x, plus one for y (and one for z), plus a constant.
    Where a gradient adds up, it adds the first dimension first. float16 and bfloat16 are computed
    in float32 and rounded once.

    Args:
        theta: A matrix for each element of a batch: floats, shape [N, 2, 3] or [N, 3, 4].
        size: The shape of what is to be sampled: [N, C, H, W] or [N, C, D, H, W].
        align_corners: Whether -1 and 1 are the centers of the outermost elements, and not their
            outer edges; as for ``grid_sample``. None is False, and along a dimension of one
            element True gives 0; PyTorch warns of both.

    Returns:
        Shape [N, H, W, 2] or [N, D, H, W, 3], dtype of ``theta``.

    Raises:
        NotImplementedError: ``size`` has another number of dimensions.
        RuntimeError: ``size`` has another N; or the mode is on and the profile has no
            deterministic implementation for the device.
        TypeError: An argument is of the wrong type.
        ValueError: ``theta`` is not of floats, or its shape does not fit; or ``size`` has an
            element that is not positive.

    Source: ``torch.nn.functional.affine_grid``. What the mode does, and the guarantee, are in the
    spec's rows.
    """
    theta = arguments.array(_NAME, "theta", theta)
    if align_corners is not None:
        arguments.flag(_NAME, "align_corners", align_corners)
    sizes = _sizes(theta, size)
    decision = decide(_OP, **arguments.facts(theta))
    matrix = convert(alert(theta, decision), accumulator(theta.dtype))
    dims, batch = len(sizes), theta.shape[0]
    # Whatever the mode: its order costs no more than another would, and atomics would cost more.
    kept = Decision(elsewhere=Action(path="ordered"))
    same = [WindowTable.of(1, np.zeros((length, 1))) for length in sizes]
    terms = []
    for column, entries in enumerate(jax.lax.split(matrix, (1,) * (dims + 1), axis=2)):
        tables = list(same)
        if column < dims:  # x goes along the last dimension
            at = dims - 1 - column
            tables[at] = _scaled(sizes[at], bool(align_corners))
        values = entries.reshape(batch * dims, *(1,) * dims)
        terms.append(window_sum(values, tuple(tables), decision=kept))
    out = functools.reduce(jnp.add, terms).reshape(batch, dims, *sizes)
    return convert(jnp.moveaxis(out, 1, -1), theta.dtype)


def _scaled(length: int, align_corners: bool) -> WindowTable:
    """A table that multiplies one element by each coordinate of a dimension."""
    half = (length - 1) / 2 if align_corners else length / 2
    place = np.arange(length) - (length - 1) / 2
    return WindowTable.of(1, np.zeros((length, 1)), (place / half if half else place)[:, None])


def _sizes(theta: jax.Array, size: Any) -> tuple[int, ...]:
    """The spatial ones of ``size``.

    Raises:
        As ``affine_grid``.
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
