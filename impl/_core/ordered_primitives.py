"""The primitives of JAX that the mode orders, and whether their rules are registered."""

from __future__ import annotations

import os

from jax import lax

from impl._core import contexts
from impl._jax import Primitive, rules

#: The scatters that race on some device, and the gradient of a max pool.
PRIMITIVES: tuple[Primitive, ...] = (
    lax.scatter_p,
    lax.scatter_add_p,
    lax.scatter_sub_p,
    lax.scatter_mul_p,
    lax.select_and_scatter_add_p,
)


def are_registered() -> bool:
    """Returns whether JAX finds the rules of this project."""
    return bool(rules.replacements)


def holds() -> bool:
    """Returns whether the mode holds for JAX's own primitives."""
    return are_registered() and bool(contexts.switch.value)


def how_to_enable() -> str:
    """Returns advice where the mode does not hold for JAX's own primitives."""
    if are_registered():
        return "Call `impl.programs.enable()`: the rules for JAX's primitives are disabled."
    if os.environ.get("SAMEBITS_PROGRAMS", "1") == "0":
        return (
            "Start Python without SAMEBITS_PROGRAMS=0, which keeps the mode from JAX's primitives."
        )
    return "Install a samebits that knows this release of JAX: its primitives have no rules."
