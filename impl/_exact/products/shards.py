"""Operands of products in a ``shard_map`` that are sharded over axes of its mesh."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from jax import lax


@dataclasses.dataclass(frozen=True)
class Cuts:
    """The mesh axes over which operands are sharded; each device has a shard.

    Attributes:
        summed: The axes over which contracted dimensions are sharded.
    """

    summed: tuple[Any, ...] = ()

    @property
    def parts(self) -> int:
        """The number of devices that have terms of one sum."""
        return math.prod(lax.axis_size(name) for name in self.summed)

    def sum(self, value: jax.Array) -> jax.Array:
        """Returns the sum over the devices that share contracted dimensions."""
        return lax.psum(value, self.summed) if self.summed else value

    def on_one(self, value: jax.Array) -> jax.Array:
        """Returns a value on one of these devices, and zeros on the other ones."""
        if not self.summed:
            return value
        is_first = lax.eq(lax.axis_index(self.summed), np.int32(0))
        return lax.select(is_first, value, lax.full_like(value, 0))

    def max(self, value: jax.Array) -> jax.Array:
        """Returns the maximum over the devices that share contracted dimensions."""
        return lax.pmax(value, self.summed) if self.summed else value

    def min(self, value: jax.Array) -> jax.Array:
        """Returns the minimum over the devices that share contracted dimensions."""
        return lax.pmin(value, self.summed) if self.summed else value
