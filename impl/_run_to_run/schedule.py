"""Schedules of JAX's own scatters, for tests: the same updates in another order.

A GPU adds the updates of a scatter in any order. A CPU adds them one after another, so a
permutation of the updates shows whether the result depends on their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._jax import Primitive
from impl._kernels.launch import scheduled
from impl._mode.emulation import Seed
from impl._run_to_run import ordered


def permuted(
    primitive: Primitive, seed: int | Seed, *operands: jax.Array, **params: Any
) -> jax.Array:
    """Computes an equation with its updates in the order that a seed picks.

    Args:
        primitive: One of ``impl._core.ordered_primitives.PRIMITIVES``.
        seed: An int, or a ``Seed``, which is read when the program runs.
        *operands: The operands of the equation.
        **params: The parameters of the equation.
    """
    if "dimension_numbers" not in params:
        taps = int(np.prod(params["window_dimensions"]))
        order = scheduled(seed, taps, salt=0)
        return ordered.select_and_scatter_add(*operands, **params, order=order)
    operand, indices, updates = operands
    indices, updates = _reordered(seed, indices, updates, params["dimension_numbers"])
    # The order of sorted indices is no longer known.
    params = {**params, "indices_are_sorted": False}
    result: jax.Array = primitive.bind(operand, indices, updates, **params)
    return result


def under(
    seed: int | Seed, function: Callable[..., jax.Array], numbers: Any, *operands: jax.Array
) -> jax.Array:
    """Computes a function of a scatter's operands with the updates in the order of a seed.

    Args:
        seed: An int, or a ``Seed``, which is read when the program runs.
        function: A function of the operands.
        numbers: The dimension numbers of the scatter.
        *operands: The operand, the indices and the updates.
    """
    operand, indices, updates = operands
    return function(operand, *_reordered(seed, indices, updates, numbers))


def _reordered(
    seed: int | Seed, indices: jax.Array, updates: jax.Array, numbers: Any
) -> tuple[jax.Array, jax.Array]:
    of_index = [a for a in range(updates.ndim) if a not in numbers.update_window_dims]
    for axis in range(indices.ndim - 1):
        if axis in numbers.scatter_indices_batching_dims:
            continue
        order = scheduled(seed, indices.shape[axis], salt=axis)
        indices = jnp.take(indices, order, axis=axis, mode="clip")
        updates = jnp.take(updates, order, axis=of_index[axis], mode="clip")
    return indices, updates
