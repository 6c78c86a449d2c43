"""Mesh axes inside ``shard_map``: those that a sum names, and those over which a value varies.

With ``check_vma=True`` JAX tracks these axes in types. Its own operations bring their operands to
the same axes by themselves; for primitives of this project, initial values of loops and operands of
kernels, the functions here do so.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import jax

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
