"""Twins of JAX's own scatters, which are lowered as JAX lowers them, whatever the mode is.

``impl.programs`` gives JAX's scatters lowering rules that call the core primitives of this package.
Lowerings of core primitives that need a scatter of XLA compute it inside ``natively``, since they
would otherwise call themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.interpreters import mlir, xla

from impl._core import jax_internals
from impl._core.jax_internals import ClosedJaxpr, Primitive, jaxpr_as_fun

#: The twin of each primitive; empty if JAX's own rules stand.
twins: dict[Primitive, Primitive] = {}


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
    """Computes ``function(*arrays)``, whose scatters are JAX's own whatever the mode is.

    Only scatters that the function makes itself are meant, not those within its loops.
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
