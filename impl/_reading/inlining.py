"""Writes the equations of calls in place of the calls, as an inlining compiler does.

So a rewriter sees one flat list of equations. Of ::

    { lambda ; a. let b = jit[jaxpr={ lambda ; c. let d = sin c in (d,) }] a; e = neg b in (e,) }

it makes::

    { lambda ; a. let d = sin a; e = neg d in (e,) }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from impl._jax import jaxprs, tags
from impl._reading import control_flow

#: Takes an equation, and returns the jaxpr that stands for it, or None.
Written = Callable[[Any], Any]


def inlined(jaxpr: Any, written: Written = lambda _: None) -> Any:
    """Returns a jaxpr with the equations of calls in place of the calls.

    A call with constants or shardings of its own stays, and so does one with side effects.

    Args:
        jaxpr: The jaxpr, without constants.
        written: Returns the jaxpr, without constants, that an equation which is no call stands for;
            None for an equation that stays.
    """

    def body_of(equation: Any) -> Any:
        body = _written_out(equation)
        return written(equation) if body is None else body

    if all(body_of(equation) is None for equation in jaxpr.eqns):
        return jaxpr
    known: dict[Any, Any] = {}
    equations = _equations(jaxpr, known, body_of)
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


def _equations(jaxpr: Any, known: dict[Any, Any], body_of: Written) -> list[Any]:
    """Returns the equations of a jaxpr with new variables as outputs, and adds these to ``known``.

    Args:
        jaxpr: The jaxpr.
        known: Maps each variable of the jaxpr to the variable or literal that replaces it.
        body_of: Returns the jaxpr that replaces an equation; None for an equation that stays.
    """
    equations = []
    for equation in jaxpr.eqns:
        operands = [_read(known, atom) for atom in equation.invars]
        inner = body_of(equation)
        if inner is None:
            results = [jaxprs.variable(out.aval) for out in equation.outvars]
            equations.append(equation.replace(invars=operands, outvars=results))
        else:
            within = dict(zip(inner.invars, operands, strict=True))
            tag = tags.of(equation)
            equations += [tags.tagged(each, tag) for each in _equations(inner, within, body_of)]
            results = [_read(within, atom) for atom in inner.outvars]
        known.update(zip(equation.outvars, results, strict=True))
    return equations


def _read(known: Mapping[Any, Any], atom: Any) -> Any:
    return atom if jaxprs.is_literal(atom) else known.get(atom, atom)
