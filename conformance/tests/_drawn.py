"""Drawn arrays of calls with many contributions to one destination, and their oracle.

Every op combines contributions into destinations, lane by lane, so one oracle serves all ops.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from spec import oracles

FLOATS = [np.float32, np.float32, np.float16, bfloat16]


@dataclasses.dataclass
class Drawn:
    """A call, its arrays, the bits of its ordered path, and the same call of PyTorch.

    Attributes:
        call: ``call(namespace, *arrays)``.
        arrays: Its arrays.
        expected: The bits of its ordered path.
        peer: The call of PyTorch, if it is written differently.
        cotangent: The cotangent, if the test is of the gradient of the first array; else None.
        racy: Whether several writes meet, of which a path other than the ordered one may keep any.
    """

    call: Callable[..., Any]
    arrays: tuple[Any, ...]
    expected: Any
    peer: Callable[..., Any] | None = None
    cotangent: Any = None
    racy: bool = False

    def __repr__(self):
        return f"Drawn({[(np.asarray(a).dtype.name, np.shape(a)) for a in self.arrays]})"


# The oracle.


def fold(initial, dim, index, updates, combine="add"):
    """Combines ``updates`` into ``initial`` along a dimension. ``index`` has their shape."""
    out = np.moveaxis(np.atleast_1d(initial), dim, -1).copy()
    index = np.moveaxis(np.atleast_1d(index), dim, -1)
    updates = np.moveaxis(np.atleast_1d(updates), dim, -1)
    for lane in np.ndindex(index.shape[:-1]):
        out[lane] = _lane(out[lane], index[lane], updates[lane], combine)
    return np.moveaxis(out, -1, dim).reshape(np.shape(initial))


def _lane(initial, index, updates, combine):
    if combine == "assign":
        return oracles.last_write(initial, index, updates)
    if combine == "add":
        return oracles.nearest_scatter(initial, index, updates)
    if combine == "mul":
        return oracles.source(initial, index, updates, np.multiply)
    out = initial.copy()
    (np.maximum if combine == "max" else np.minimum).at(out, index, updates)
    return out


# Drawn arrays.


def numbers(seed, shape, dtype, combine="add"):
    rng = np.random.default_rng(seed)
    value = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "i":
        return np.asarray(rng.integers(-3, 4, shape), dtype)
    return np.asarray(1 + value / 64 if combine == "mul" else value, np.float64).astype(dtype)


@st.composite
def indices(draw, *, most=5, wrap=False):
    """Draws a shape, a dimension, the shape of the source, an index with duplicates, and a seed."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=most))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    shape[dim] = draw(st.integers(1, 6))
    count = draw(st.sampled_from([1030, 2, 0, 1100] if np.prod(shape) < 40 else [3, 1]))
    source_shape = list(shape)
    source_shape[dim] = count
    seed = draw(st.integers(0, 1000))
    destinations = draw(st.integers(1, shape[dim]))
    low = -shape[dim] if wrap else 0
    index = np.random.default_rng(seed).integers(
        low, shape[dim] if wrap else destinations, source_shape
    )
    return tuple(shape), dim % len(shape), tuple(source_shape), index, seed


def in_lane(index, dim):
    """Returns the first lane of an index, for ops that have one index for all lanes."""
    return index[tuple(slice(None) if axis == dim else 0 for axis in range(index.ndim))]


def over_lanes(vector, dim, shape):
    return np.broadcast_to(
        vector.reshape([-1 if a == dim else 1 for a in range(len(shape))]), shape
    )


REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


def reduced(x, dim, index, s, reduce, include_self):
    combine = REDUCTIONS[reduce]
    wide = np.float32 if x.dtype.itemsize < 4 and x.dtype.kind in "fV" else x.dtype
    count = fold(np.zeros(x.shape, int), dim, index, np.ones(index.shape, int))
    start = x.astype(wide)
    if not include_self:
        limits = np.iinfo(wide) if np.dtype(wide).kind == "i" else np.array([-np.inf, np.inf], wide)
        low, high = (limits.min, limits.max) if np.dtype(wide).kind == "i" else limits
        identity = {"add": -0.0, "mul": 1, "max": low, "min": high}[combine]
        start = np.where(count > 0, np.asarray(identity).astype(wide), start)
    total = fold(start, dim, index, s.astype(wide), combine)
    if reduce == "mean":
        divisor = np.maximum(count + include_self, 1).astype(wide)
        total = total // divisor if np.dtype(wide).kind == "i" else total / divisor
    return np.where(count > 0, total.astype(x.dtype), x)
