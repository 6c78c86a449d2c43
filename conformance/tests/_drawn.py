"""Drawn arrays of calls with many contributions to one destination.

Every op adds or writes to the elements that it reaches, so one oracle serves all ops.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from conformance.cases._data import written

FLOATS = [np.float32, np.float32, np.float16, bfloat16]


@dataclasses.dataclass
class Drawn:
    """A call, its arrays, and the bits of its ordered path.

    Attributes:
        call: ``call(namespace, *arrays)``.
        arrays: Its arrays.
        expected: The bits of its ordered path.
        cotangent: The cotangent, if the test is of the gradient of the first array; else None.
        racy: Whether several writes meet, of which a path other than the ordered one may keep any.
    """

    call: Callable[..., Any]
    arrays: tuple[Any, ...]
    expected: Any
    cotangent: Any = None
    racy: bool = False

    def __repr__(self):
        return f"Drawn({[(np.asarray(a).dtype.name, np.shape(a)) for a in self.arrays]})"


def read(call, x, index, seed, reach):
    """Returns the gradient of a read, which adds to each element that the read reaches."""
    ct = numbers(seed + 1, np.shape(reach(x, index)), x.dtype)
    return Drawn(call, (x, index), written(np.zeros_like(x), [index], ct, reach), cotangent=ct)


def numbers(seed, shape, dtype, *, are_factors=False):
    rng = np.random.default_rng(seed)
    value = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "i":
        return np.asarray(rng.integers(-3, 4, shape), dtype)
    return np.asarray(1 + value / 64 if are_factors else value, np.float64).astype(dtype)


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


def slices(dim):
    """Returns the reach of an index that counts slices along a dimension."""
    return lambda x, index: np.take(x, index, dim)


def elements(dim):
    """Returns the reach of an index of elements along a dimension."""
    return lambda x, index: np.take_along_axis(x, index, dim)
