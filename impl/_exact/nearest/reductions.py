"""Reductions of several arrays at once.

XLA for a CPU splits a reduction of one array into three kernels, or leaves it to a library. A
kernel of any size takes 40 ms to compile. A reduction of several arrays is one kernel (XLA's
``TreeReductionRewriter`` skips it), which reads its operands once. If a result is not used, XLA
drops its array, and splits the rest::

    reduced([x, abs(x)], [lax.add, lax.max], (0,))    one kernel, if both results are used

XLA's partitioner gathers the results of all devices; it would add sums of a single array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

#: The least number of floats that XLA for a CPU leaves to its library YNN, which is faster.
LIBRARY = 4096


def reduced(
    values: Sequence[jax.Array],
    steps: Sequence[Callable[[Any, Any], jax.Array]],
    axes: Sequence[int],
) -> list[jax.Array]:
    """Returns a reduction of each array, in any order.

    Args:
        values: Floats of one dtype, or integers, of one shape.
        steps: ``lax.add``, ``lax.max``, ``lax.min`` or ``lax.bitwise_or`` for each array.
        axes: The axes.
    """

    def combined(first: Sequence[jax.Array], second: Sequence[jax.Array]) -> list[jax.Array]:
        return [step(a, b) for step, a, b in zip(steps, first, second, strict=True)]

    initial = [_initial(step, value.dtype) for step, value in zip(steps, values, strict=True)]
    return list(lax.reduce(list(values), initial, combined, tuple(axes)))


def greatest_of_all(*values: jax.Array) -> list[jax.Array]:
    """Returns the greatest element of each of some arrays.

    Args:
        values: Integers, of any shapes. Arrays of one shape share a reduction.
    """
    found = list(values)
    for shape in {value.shape for value in values}:
        places = [place for place, value in enumerate(values) if value.shape == shape]
        greatest = reduced(
            [values[place] for place in places], [lax.max] * len(places), range(len(shape))
        )
        for place, value in zip(places, greatest, strict=True):
            found[place] = value
    return found


def sum_of_squares(value: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Returns the sum of squares of float64 over axes, in any order."""
    squares = lax.mul(value, value)
    size: Any = value.size
    if not isinstance(size, int) or size >= LIBRARY:
        return lax.reduce_sum(squares, tuple(axes))
    total, greatest = reduced([squares, squares], [lax.add, lax.max], axes)
    # No square is above the sum. XLA does not know that, so it keeps both results.
    return lax.max(total, greatest)


def _initial(step: Callable[[Any, Any], jax.Array], dtype: Any) -> Any:
    """Returns the number that changes no other one in a step."""
    if step in {lax.add, lax.bitwise_or}:
        return np.array(0, dtype)
    if jnp.issubdtype(dtype, np.floating):
        return np.array(-np.inf if step is lax.max else np.inf, dtype)
    ends = jnp.iinfo(dtype)
    return np.array(ends.min if step is lax.max else ends.max, dtype)
