"""Scatters of any form, drawn at random: axes, windows, batches, modes, dtypes."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

MODES = ("clip", "drop", "promise_in_bounds")
INDEX_DTYPES = ("int8", "uint8", "int16", "int32", "uint32")


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One scatter: its operands, and its parameters."""

    name: str
    operand: Any
    indices: Any
    updates: Any
    numbers: Any
    mode: str

    def __call__(self, operand, indices, updates):
        function = getattr(lax, self.name)
        return function(operand, indices, updates, self.numbers, mode=self.mode)


def draw(rng, dtype="float32", name="scatter_add"):
    """Returns a scatter whose sums and products are exact, so that every order gives its bits."""
    ndim = int(rng.integers(1, 5))
    shape = [int(size) for size in rng.integers(1, 5, ndim)]
    axes = rng.permutation(ndim).tolist()
    batch = sorted(axes[: int(rng.integers(0, min(2, ndim)))])
    left = [axis for axis in axes if axis not in batch]
    indexed = left[: int(rng.integers(1, len(left) + 1))]
    inserted = sorted(axis for axis in left if rng.random() < 0.5)
    windowed = [axis for axis in range(ndim) if axis not in inserted and axis not in batch]
    extents = [int(rng.integers(1, shape[axis] + 1)) for axis in windowed]
    rest = [int(size) for size in rng.integers(0, 7, int(rng.integers(0, 3)))]
    # The axes of the batch stand anywhere among the axes of the indices.
    index_axes = [("batch", axis) for axis in batch] + [("rest", size) for size in rest]
    index_axes = [index_axes[k] for k in rng.permutation(len(index_axes))]
    index_shape = [shape[n] if kind == "batch" else n for kind, n in index_axes]
    index_batch = [index_axes.index(("batch", axis)) for axis in batch]
    update_ndim = len(index_shape) + len(extents)
    window_axes = sorted(rng.permutation(update_ndim)[: len(extents)].tolist())
    update_shape = list(index_shape)
    for axis, extent in zip(window_axes, extents, strict=True):
        update_shape.insert(axis, extent)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(window_axes),
        inserted_window_dims=tuple(inserted),
        scatter_dims_to_operand_dims=tuple(indexed),
        operand_batching_dims=tuple(batch),
        scatter_indices_batching_dims=tuple(index_batch),
    )
    mode = str(rng.choice(MODES))
    index_dtype = str(rng.choice(INDEX_DTYPES))
    low, high = (0, 1) if mode == "promise_in_bounds" else (-2, 6)
    indices = rng.integers(max(low, np.iinfo(index_dtype).min), high, (*index_shape, len(indexed)))
    return Drawn(
        name,
        _numbers(rng, shape, dtype),
        indices.astype(index_dtype),
        _numbers(rng, update_shape, dtype),
        numbers,
        mode,
    )


def _numbers(rng, shape, dtype):
    values = rng.integers(-1, 3, shape)
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * rng.integers(-1, 3, shape)
    # Of NumPy: JAX would compile a conversion for each shape.
    return values.astype(jnp.dtype(dtype))
