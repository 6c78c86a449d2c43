"""Mesh axes inside ``shard_map``: those that a sum names, and those over which a value varies.

With ``check_vma=True`` JAX tracks these axes in types. Its own operations bring their operands to
the same axes by themselves; for primitives of this project, initial values of loops and operands of
kernels, the functions here do so. ``Devices`` share the
terms of sums.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np
from jax import lax

from impl import _jax


def split(axes: Sequence[Any]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Returns the dimensions among the axes of a sum, and the names of mesh axes among them.

    JAX also passes integers of NumPy as dimensions: ``jax.nn.dot_product_attention`` does.
    """
    dimensions = tuple(int(axis) for axis in axes if isinstance(axis, Integral))
    return dimensions, tuple(axis for axis in axes if not isinstance(axis, Integral))


def varying(*values: jax.Array) -> frozenset[str]:
    """Returns the axes over which at least one of ``values`` varies."""
    return frozenset[str]().union(*map(_jax.varying_axes, values))


def vary(value: jax.Array, axes: frozenset[str]) -> jax.Array:
    """Returns ``value`` with a type that varies over ``axes`` too."""
    missing = tuple(sorted(axes - varying(value)))
    return jax.lax.pcast(value, missing, to="varying") if missing else value


def vary_like(value: jax.Array, *others: jax.Array) -> jax.Array:
    """Returns ``value`` with a type that varies over every axis that ``others`` vary over."""
    return vary(value, varying(*others))


def aligned(*values: jax.Array) -> list[jax.Array]:
    """Returns ``values``, whose types all vary over the same axes."""
    axes = varying(*values)
    return [vary(value, axes) for value in values]


#: Groups of indices along a named axis; each group has a sum of its own.
Groups: TypeAlias = Sequence[Sequence[int]] | None

_Arrays = TypeVar("_Arrays", jax.Array, tuple[jax.Array, ...])


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices along mesh axes, none for one device, that have terms of one sum, in groups."""

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
