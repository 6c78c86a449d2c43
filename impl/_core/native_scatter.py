"""Twins of JAX's own scatters, which are lowered as JAX lowers them, whatever the mode is.

``impl._run_to_run`` gives JAX's scatters lowering rules that call the primitives of this package. A
lowering of such a primitive that needs a scatter of XLA computes it inside ``natively``, since the
lowering would otherwise call itself. For example, ``natively`` turns

    out = scatter_add(operand, rows, updates)   into   out = samebits_native_scatter-add(...)
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.interpreters import mlir, xla

from impl._core import contexts, jax_internals
from impl._core.jax_internals import ClosedJaxpr, Primitive, jaxpr_as_fun

#: The twin of each primitive; empty if JAX's own rules stand.
twins: dict[Primitive, Primitive] = {}


def holds() -> bool:
    """Returns whether the mode holds for JAX's own primitives."""
    return bool(twins) and bool(contexts.switch.value)


def how_to_enable() -> str:
    """Returns advice where the mode does not hold for JAX's own primitives."""
    if twins:
        return "Call `impl.programs.enable()`: the rules for JAX's primitives are disabled."
    if os.environ.get("SAMEBITS_PROGRAMS", "1") == "0":
        return (
            "Start Python without SAMEBITS_PROGRAMS=0, which keeps the mode from JAX's primitives."
        )
    return "Install a samebits that knows this release of JAX: its primitives have no rules."


def replaced_primitives() -> tuple[Primitive, ...]:
    """Returns the primitives of JAX that the mode orders."""
    return (
        lax.scatter_p,
        lax.scatter_add_p,
        lax.scatter_sub_p,
        lax.scatter_mul_p,
        lax.select_and_scatter_add_p,
    )


def add_twin(primitive: Primitive) -> None:
    """Makes the twin of a primitive, with JAX's own rules.

    Raises:
        LookupError: JAX's rules were not found.
    """
    twin = Primitive(f"samebits_native_{primitive.name}")
    twin.def_impl(functools.partial(xla.apply_primitive, twin))
    twin.abstract_eval = primitive.abstract_eval  # type: ignore[method-assign]
    for platform, (rule, inline) in jax_internals.lowering_rules(primitive).items():
        mlir.register_lowering(twin, rule, platform=platform, inline=inline)
    twins[primitive] = twin


def natively(function: Callable[..., Any], *arrays: jax.Array) -> Any:
    """Computes ``function(*arrays)`` with JAX's own scatters, whatever the mode is.

    This replaces the scatters of the function itself, not scatters within its loops.
    """
    if not twins:
        return function(*arrays)
    traced = jax.make_jaxpr(function)(*arrays)
    equations = [
        equation.replace(primitive=twins.get(equation.primitive, equation.primitive))
        for equation in traced.jaxpr.eqns
    ]
    (result,) = jaxpr_as_fun(ClosedJaxpr(traced.jaxpr.replace(eqns=equations), traced.consts))(
        *arrays
    )
    return result
