"""The contributions of a scatter, divided among the instances of a kernel."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from impl._kernels import pallas as pl
from impl._kernels.launch import Launch

#: The number of contributions that one kernel instance takes.
_BLOCK = 256


@dataclasses.dataclass(frozen=True)
class Contributions:
    """Contributions to elements along the middle axis of [outer, size, inner].

    Attributes:
        launch: How the kernel runs.
        shape: Shape of the contributions, [outer, n, inner].
        indices: Shape of their indices. Contributions share an index along an axis of length 1.
        size: Number of elements along the middle axis.
    """

    launch: Launch
    shape: tuple[int, int, int]
    indices: tuple[int, ...]
    size: int

    @property
    def programs(self) -> int:
        """Number of instances of the kernel."""
        return pl.cdiv(math.prod(self.shape), _BLOCK)

    def lanes(self) -> jax.Array:
        """Returns the flat offsets of the contributions that the running instance takes."""
        block = jnp.arange(_BLOCK, dtype=jnp.int32)
        return self.launch.program_id(0, self.programs) * _BLOCK + block

    def destinations(self, indices_ref: Any, lanes: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Finds the destinations of contributions.

        Args:
            indices_ref: The indices, flat.
            lanes: Flat offsets of the contributions.

        Returns:
            Flat offsets into [outer, size, inner], and whether each contribution has a destination.
        """
        outer, n, inner = self.shape
        inside = lanes < outer * n * inner
        a, t, b = lanes // (n * inner), lanes // inner % n, lanes % inner
        position = t if self.indices[0] == 1 else a * n + t
        position = position if self.indices[2] == 1 else position * inner + b
        index = self.launch.load(indices_ref.at[position], mask=inside, other=-1)
        inside = inside & (index >= 0) & (index < self.size)
        return (a * self.size + index.astype(jnp.int32)) * inner + b, inside
