"""Primitives of other libraries, in no class of ``spec/portable.toml``: lowered by their equations.

Libraries make primitives of their own, for example an identity that refuses ``vmap``. JAX lowers
most of them by a function of arrays, whose equations JAX lowers one by one: each equation then has
a known or an unknown primitive itself. This module finds such a function, in this order:

1. the function that the primitive's rule for any platform lowers (``mlir.lower_fun``);
2. only under the guarantee ``portable``: the primitive's ``impl``, by which JAX evaluates the
   primitive outside of programs. The equation is then lowered as the trace of ``impl``. With
   another guarantee JAX lowers the rule itself, which may do anything.

A primitive without such a function is refused. This module names no primitive of any library.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jax import lax

import spec
from impl._jax import Primitive, lowering, rules
from impl._mode import modes
from impl._portable import refusal
from impl._portable.rules import RULES
from impl._reading.control_flow import every_jaxpr

#: The packages whose rules the classes of the spec describe.
_PACKAGES = ("jax", "jaxlib", __name__.partition(".")[0])


def is_unknown(primitive: Primitive, rule: rules.Rule | None) -> bool:
    """Returns whether no class of the spec applies to the equations of a primitive.

    Args:
        primitive: The primitive. One of another library may have the name of one of JAX.
        rule: The rule that JAX lowers it by; None if it has none. If another library has replaced
            JAX's own rule, the class holds only where this project computes the equation itself.
    """
    classes, name = spec.load(), primitive.name
    portability = classes.class_of_primitive.get(name) or classes.class_of_complex.get(name)
    if portability is None:
        return not name.startswith("samebits_")
    if getattr(lax, f"{name.replace('-', '_')}_p", primitive) is not primitive:
        return True
    is_computed = name in RULES and RULES[name].by_jax is None
    calls_it = portability.answer == "exact" or not is_computed
    return calls_it and rule is not None and not rules.is_of(rule, _PACKAGES)


def portability(dtypes: Collection[str]) -> spec.Portability | None:
    """Returns the class of an unknown primitive without equations; None if it has no floats.

    ``dtypes`` are the names of the dtypes of its operands and results.
    """
    return spec.portability("", dtypes)


def rule(
    refused: spec.Portability | None,
    primitive: Primitive,
    original: rules.Rule,
    anywhere: rules.Rule | None,
    context: Any,
    params: Mapping[str, Any],
) -> rules.Rule:
    """Returns the rule that lowers an unknown primitive under ``portable``: by equations.

    ``refused`` is the result of ``portability``: None leaves the primitive to ``original``, the
    rule that JAX found. ``anywhere`` is the rule for any platform; None if there is none.

    Raises:
        RuntimeError: The primitive has no equations, and the mode does not only warn.
    """
    if refused is None:
        return original
    if rules.function_of(anywhere) is not None:
        return anywhere or original
    avals = context.avals_in, context.avals_out
    closed = _of_implementation(primitive, avals, params, frozenset())
    if closed is None:
        warn_only = modes.current().warn_only
        refusal.emit(primitive.name, context.avals_in, refused, warn_only=warn_only)
        return original

    def lower(context: Any, *arrays: Any, **_: Any) -> Any:
        return lowering.lower_equations(lowering.with_own_equations(context), closed, *arrays)

    return lower


def equations(equation: Any, platform: str, *, portable: bool) -> Any:
    """Returns the closed jaxpr of an unknown primitive; None if this module finds no function.

    It is lowered for a platform, with or without the guarantee ``portable``.
    """
    primitive = equation.primitive
    own, anywhere = rules.registered(primitive, platform)
    if not is_unknown(primitive, own):
        return None
    avals = [atom.aval for atom in equation.invars]
    with equation.ctx.manager:
        function = rules.function_of(anywhere if portable else own)
        if function is not None:
            return rules.traced(function, avals, equation.params)
        if not portable:
            return None
        results = [atom.aval for atom in equation.outvars]
        return _of_implementation(primitive, (avals, results), equation.params, frozenset())


def _of_implementation(
    primitive: Primitive,
    avals: Sequence[Any],
    params: Mapping[str, Any],
    outside: frozenset[Primitive],
) -> Any:
    """Returns the equations of an ``impl``; None if it needs values, or calls its own primitive.

    ``outside`` are the primitives whose ``impl`` calls this one.
    """
    operands, results = avals
    closed = rules.traced(rules.implementation_of(primitive), operands, params)
    stated = [(each.shape, each.dtype) for each in results]
    if closed is None or [(a.shape, a.dtype) for a in closed.out_avals] != stated:
        return None
    seen = outside | {primitive}
    return closed if all(_ends(each, seen) for each in _all_equations(closed.jaxpr)) else None


def _ends(equation: Any, seen: frozenset[Primitive]) -> bool:
    """Returns whether an equation is lowered without the primitives whose ``impl`` contains it."""
    primitive = equation.primitive
    if primitive in seen:
        return False
    _, anywhere = rules.registered(primitive, "")
    if not is_unknown(primitive, anywhere) or rules.function_of(anywhere) is not None:
        return True
    operands, results = (
        [atom.aval for atom in each] for each in (equation.invars, equation.outvars)
    )
    return _of_implementation(primitive, (operands, results), equation.params, seen) is not None


def _all_equations(jaxpr: Any) -> list[Any]:
    """Returns the equations of a jaxpr, and of those inside them."""
    inner = (_all_equations(each) for eqn in jaxpr.eqns for each in every_jaxpr(eqn))
    return [*jaxpr.eqns, *(equation for equations in inner for equation in equations)]
