"""The devices of a ``shard_map`` that share the terms of sums."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
from jax import lax

#: Groups of indices along a named axis; each group has a sum of its own.
Groups: TypeAlias = Sequence[Sequence[int]] | None


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices that have terms of one sum.

    Attributes:
        names: The mesh axes over which the terms are sharded; none for one device.
        groups: As ``lax.psum`` takes them.
    """

    names: tuple[Any, ...] = ()
    groups: Groups = None

    @property
    def number(self) -> int:
        """The number of devices that share a sum."""
        if self.groups is not None:
            return max(map(len, self.groups))
        return math.prod(lax.axis_size(name) for name in self.names)

    def sum(self, value: jax.Array) -> jax.Array:
        """Returns the sum over the devices that share it."""
        return self._reduced(lax.psum, value)

    def max(self, value: jax.Array) -> jax.Array:
        """Returns the maximum over the devices that share a sum."""
        return self._reduced(lax.pmax, value)

    def min(self, value: jax.Array) -> jax.Array:
        """Returns the minimum over the devices that share a sum."""
        return self._reduced(lax.pmin, value)

    def _reduced(self, over: Callable[..., jax.Array], value: jax.Array) -> jax.Array:
        return over(value, self.names, axis_index_groups=self.groups) if self.names else value
