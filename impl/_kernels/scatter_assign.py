"""The kernel of the atomic path of scatter-assign: stores that race."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from impl._kernels._contributions import Contributions
from impl._kernels.launch import Launch


def any_writer(indices: jax.Array, size: int, *, launch: Launch) -> jax.Array:
    """Finds a writer of each element: of several, the one whose store the hardware does last.

    Args:
        indices: The element that each contribution writes to, shape [outer, n, inner]; those
            outside [0, size) write nowhere.
        size: Number of elements along the axis.
        launch: How to run.

    Returns:
        Position of the writer along the middle axis, or -1 where there is none; int32, shape
        [outer, size, inner].
    """
    outer, n, inner = indices.shape
    contributions = Contributions(launch, (outer, n, inner), indices.shape, size)

    def kernel(indices_ref: Any, _: Any, out_ref: Any) -> None:
        lanes = contributions.lanes()
        offset, inside = contributions.destinations(indices_ref, lanes)
        launch.store_any(out_ref, offset, lanes // inner % n, inside)

    flat = launch(
        kernel,
        (contributions.programs,),
        jax.ShapeDtypeStruct((outer * size * inner,), jnp.int32),
        indices.reshape(-1),
        jnp.full((outer * size * inner,), -1, jnp.int32),
        name="scatter_assign_atomic_any",
        aliases={1: 0},
    )
    return flat.reshape(outer, size, inner)
