"""The devices of a named axis, as of a ``shard_map``, that share the terms of sums."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np
from jax import lax

#: Groups of indices along a named axis; each group has a sum of its own.
Groups: TypeAlias = Sequence[Sequence[int]] | None

_Arrays = TypeVar("_Arrays", jax.Array, tuple[jax.Array, ...])


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

    def is_first(self) -> jax.Array:
        """Returns whether this is the first device of its sum, as a scalar; there is an axis."""
        own = lax.axis_index(self.names)
        firsts = [0] if self.groups is None else [group[0] for group in self.groups]
        return functools.reduce(lax.bitwise_or, (lax.eq(own, np.int32(each)) for each in firsts))

    def sum(self, value: _Arrays) -> _Arrays:
        """Returns the sum over the devices that share it, of an array or of each of a tuple."""
        return self._reduced(lax.psum, value)

    def scattered(self, value: jax.Array) -> jax.Array:
        """Returns this device's part of the first axis of the sum over devices that share it."""
        part: jax.Array = lax.psum_scatter(
            value, self.names, axis_index_groups=self.groups, tiled=True
        )
        return part

    def gathered(self, value: jax.Array) -> jax.Array:
        """Returns the arrays of the devices that share a sum, along their first axis."""
        whole: jax.Array = lax.all_gather(
            value, self.names, axis_index_groups=self.groups, tiled=True
        )
        return whole

    def exchanged(self, value: jax.Array) -> jax.Array:
        """Returns this device's element of the first axis of each array of devices."""
        elements: jax.Array = lax.all_to_all(value, self.names, 0, 0, axis_index_groups=self.groups)
        return elements

    def max(self, value: jax.Array) -> jax.Array:
        """Returns the maximum over the devices that share a sum."""
        return self._reduced(lax.pmax, value)

    def min(self, value: jax.Array) -> jax.Array:
        """Returns the minimum over the devices that share a sum."""
        return self._reduced(lax.pmin, value)

    def _reduced(self, over: Callable[..., Any], value: _Arrays) -> _Arrays:
        if not self.names:
            return value
        reduced: _Arrays = over(value, self.names, axis_index_groups=self.groups)
        return reduced
