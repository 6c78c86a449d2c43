"""Reductions of several arrays at once, which XLA computes in one kernel that reads them once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def reduced(
    values: Sequence[jax.Array],
    steps: Sequence[Callable[[Any, Any], jax.Array]],
    axes: Sequence[int],
) -> list[jax.Array]:
    """Returns a reduction of each array, in any order.

    Args:
        values: Integers of one shape.
        steps: ``lax.max``, ``lax.min`` or ``lax.bitwise_or`` for each array.
        axes: The axes.
    """

    def combined(first: Sequence[jax.Array], second: Sequence[jax.Array]) -> list[jax.Array]:
        return [step(a, b) for step, a, b in zip(steps, first, second, strict=True)]

    initial = [_initial(step, value.dtype) for step, value in zip(steps, values, strict=True)]
    return list(lax.reduce(list(values), initial, combined, tuple(axes)))


def _initial(step: Callable[[Any, Any], jax.Array], dtype: Any) -> Any:
    """Returns the integer that changes no other one in a step."""
    if step is lax.bitwise_or:
        return np.array(0, dtype)
    ends = jnp.iinfo(dtype)
    return np.array(ends.min if step is lax.max else ends.max, dtype)
