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
        free: The axes over which free dimensions of the right operand are sharded.
    """

    summed: tuple[Any, ...] = ()
    free: tuple[Any, ...] = ()

    @property
    def parts(self) -> int:
        """The number of devices that have terms of one sum."""
        return math.prod(lax.axis_size(name) for name in self.summed)

    def sum(self, value: jax.Array) -> jax.Array:
        """Returns the sum over the devices that share contracted dimensions."""
        return lax.psum(value, self.summed) if self.summed else value

    def max(self, value: jax.Array) -> jax.Array:
        """Returns the maximum over the devices that share contracted dimensions."""
        return lax.pmax(value, self.summed) if self.summed else value

    def any(self, value: jax.Array) -> jax.Array:
        """Returns whether a bool is true on any of these devices."""
        if not self.summed:
            return value
        found = self.max(lax.convert_element_type(value, np.int32))
        return lax.ne(found, lax.full_like(found, 0))

    def max_of_free(self, value: jax.Array) -> jax.Array:
        """Returns the maximum over the devices that share free dimensions of the right operand."""
        return lax.pmax(value, self.free) if self.free else value
