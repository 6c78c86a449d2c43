"""Mesh axes over which values vary inside ``shard_map``.

With ``check_vma=True`` JAX tracks them in types, and its own operations bring their operands to
the same axes. A primitive of ours, a loop's initial value or a kernel has to be brought there.
"""

from __future__ import annotations

import jax


def varying(*values: jax.Array) -> frozenset[str]:
    """The axes over which at least one of ``values`` varies."""
    types = (getattr(jax.typeof(value), "mat", None) for value in values)
    return frozenset().union(*(t.varying for t in types if t is not None))


def vary(value: jax.Array, axes: frozenset[str]) -> jax.Array:
    """``value``, typed as varying over ``axes`` too."""
    missing = tuple(sorted(axes - varying(value)))
    return jax.lax.pcast(value, missing, to="varying") if missing else value


def vary_like(value: jax.Array, *others: jax.Array) -> jax.Array:
    """``value``, typed as varying over every axis that ``others`` vary over."""
    return vary(value, varying(*others))


def aligned(*values: jax.Array) -> list[jax.Array]:
    """``values``, all typed as varying over the same axes."""
    axes = varying(*values)
    return [vary(value, axes) for value in values]
