"""Writes the equations of calls in place of the calls, as an inlining compiler does.

So a rewriter sees one flat list of equations. Of ::

    { lambda ; a. let b = jit[jaxpr={ lambda ; c. let d = sin c in (d,) }] a; e = neg b in (e,) }

it makes::

    { lambda ; a. let d = sin a; e = neg d in (e,) }
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from impl._core.jax_internals import jaxprs, tags
from impl._reading import control_flow


def inlined(jaxpr: Any) -> Any:
    """Returns a jaxpr with the equations of calls in place of the calls.

    A call with constants or shardings of its own stays, and so does one with side effects.

    Args:
        jaxpr: The jaxpr, without constants.
    """
    if all(_written_out(equation) is None for equation in jaxpr.eqns):
        return jaxpr
    known: dict[Any, Any] = {}
    equations = _equations(jaxpr, known)
    outputs = [_read(known, atom) for atom in jaxpr.outvars]
    return jaxpr.replace(eqns=equations, outvars=outputs)


def _written_out(equation: Any) -> Any:
    """Returns the jaxpr of an equation that may be written out in place of it; None for others."""
    params: Mapping[str, Any] = equation.params
    if equation.primitive.name not in control_flow.WRITTEN_OUT:
        return None
    shardings = (*params.get("in_shardings", ()), *params.get("out_shardings", ()))
    if any(type(sharding).__name__ != "UnspecifiedValue" for sharding in shardings):
        return None
    if jaxprs.named_axes(equation) is None:
        return None
    (body,) = control_flow.bodies(equation)
    has_constants = getattr(body.jaxpr, "consts", None) or body.opened.constvars
    return None if has_constants else body.opened


def _equations(jaxpr: Any, known: dict[Any, Any]) -> list[Any]:
    """Returns the equations of a jaxpr with new variables as outputs, and adds these to ``known``.

    Args:
        jaxpr: The jaxpr.
        known: Maps each variable of the jaxpr to the variable or literal that replaces it.
    """
    equations = []
    for equation in jaxpr.eqns:
        operands = [_read(known, atom) for atom in equation.invars]
        inner = _written_out(equation)
        if inner is None:
            results = [jaxprs.variable(out.aval) for out in equation.outvars]
            equations.append(equation.replace(invars=operands, outvars=results))
        else:
            within = dict(zip(inner.invars, operands, strict=True))
            tag = tags.of(equation)
            equations += [tags.tagged(each, tag) for each in _equations(inner, within)]
            results = [_read(within, atom) for atom in inner.outvars]
        known.update(zip(equation.outvars, results, strict=True))
    return equations


def _read(known: Mapping[Any, Any], atom: Any) -> Any:
    return atom if jaxprs.is_literal(atom) else known.get(atom, atom)
