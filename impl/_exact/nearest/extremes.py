"""The greatest elements of several arrays, by one reduction.

XLA for a CPU computes the maximum of one array in three kernels, each of which takes as long to
compile as any other kernel. It leaves a reduction of several arrays whole (its
``TreeReductionRewriter`` skips one), so ``greatest_of_all`` gives it all arrays at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def greatest_of_all(*values: jax.Array) -> list[jax.Array]:
    """Returns the greatest element of each of some arrays.

    Args:
        values: Floats or integers, of any shapes. Arrays of one shape share a reduction. If a float
            is NaN, so is the greatest one.
    """
    shapes = {value.shape for value in values}
    found = list(values)
    for shape in shapes:
        places = [place for place, value in enumerate(values) if value.shape == shape]
        greatest = _greatest([values[place] for place in places])
        for place, value in zip(places, greatest, strict=True):
            found[place] = value
    return found


def _greatest(values: Sequence[jax.Array]) -> Sequence[jax.Array]:
    axes = tuple(range(values[0].ndim))
    if values[0].size == 1:
        return [lax.reshape(value, ()) for value in values]
    if len(values) == 1:
        return [lax.reduce_max(values[0], axes)]

    def greater(first: Sequence[jax.Array], second: Sequence[jax.Array]) -> list[jax.Array]:
        return [lax.max(a, b) for a, b in zip(first, second, strict=True)]

    initial = [_least_of(value.dtype) for value in values]
    found: Sequence[jax.Array] = lax.reduce(list(values), initial, greater, axes)
    return found


def _least_of(dtype: Any) -> Any:
    """Returns the least value of a dtype."""
    if jnp.issubdtype(dtype, np.floating):
        return np.array(-np.inf, dtype)
    return np.array(jnp.iinfo(dtype).min, dtype)
