"""Samples of affine_grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from ml_dtypes import bfloat16

from conformance.cases._data import Array, values
from conformance.suite.sample import Sample
from spec import oracles

#: Sizes so large that the order of additions changes bits.
_SIZES = {"plane": (2, 3, 30, 40), "volume": (2, 1, 9, 11, 10), "narrow": (1, 1, 12, 20)}


def samples() -> Mapping[str, Sequence[Sample]]:
    return {"nn.functional.affine_grid": tuple(_affine_grid())}


def _affine_grid() -> Iterator[Sample]:
    """Yields two and three dimensions, with both meanings of the corners, and bfloat16."""
    for name, size in _SIZES.items():
        dims = len(size) - 2
        align = name == "volume"
        dtype = bfloat16 if name == "narrow" else np.float32
        yield Sample(
            name=name,
            facts={"dtype": "floating", "input_ndim": 3},
            call=lambda ns, t, size=size, align=align: ns.nn.functional.affine_grid(t, size, align),
            arrays=(values((size[0], dims, dims + 1), dtype),),
            expected=lambda t, size=size, align=align: np.einsum(
                "nij,...j->n...i", t.astype(np.float64), _points(size, align)
            ),
            ordered=lambda t, size=size, align=align: _ordered(t, size, align),
            wrt=0,
            expected_gradient=lambda ct, t, size=size, align=align: np.einsum(
                "npi,pj->nij",
                ct.astype(np.float64).reshape(len(ct), -1, ct.shape[-1]),
                _points(size, align).reshape(-1, t.shape[-1]),
            ),
            ordered_gradient=lambda ct, t, size=size, align=align: _gradient(ct, size, align),
        )


def _coordinates(length: int, align: bool) -> Array:
    edges = np.linspace(-1, 1, 2 * length + 1)  # the edges and the centres of elements
    return np.linspace(-1, 1, length) if align else edges[1::2]


def _points(size: tuple[int, ...], align: bool) -> Array:
    """Returns x, y, z (in three dimensions) and 1 for every element, in the last dimension."""
    along = [_coordinates(length, align) for length in size[2:]]
    mesh = np.meshgrid(*along, indexing="ij")
    return np.stack([*mesh[::-1], np.ones(size[2:])], axis=-1)


def _ordered(theta: Array, size: tuple[int, ...], align: bool) -> Array:
    points = _points(size, align).astype(np.float32)
    columns = np.swapaxes(theta.astype(np.float32), 1, 2)
    grid = oracles.nearest_product(points.reshape(-1, len(columns[0])), columns, np.float32)
    return grid.reshape(len(theta), *size[2:], -1).astype(theta.dtype)


def _gradient(ct: Array, size: tuple[int, ...], align: bool) -> Array:
    points = _points(size, align).astype(np.float32)
    rows = np.swapaxes(ct.astype(np.float32).reshape(size[0], -1, ct.shape[-1]), 1, 2)
    flat = points.reshape(-1, points.shape[-1])
    return oracles.nearest_product(rows, flat, np.float32).astype(ct.dtype)
