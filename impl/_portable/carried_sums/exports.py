"""Lets the bodies of a loop return what the sums of all iterations are made of.

An operation that adds, in a scan over layers inside of a scan over micro-batches, has its sums by
one of two ways, and both have to leave both scans::

    state    u32[6,2,4,3]              the unrounded sums of 2 layers, which the outer scan carries
    factors  f32[2,8,4], f32[2,8,3]    the operands of 2 layers, which the outer scan stacks

``states`` and ``factors`` add outputs to the loops, conditions and checkpoints around an operation.
``write`` writes these outputs; an output that nothing reads is dead code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from impl._core.jax_internals import jaxprs
from impl._portable.carried_sums import steps
from impl._portable.carried_sums.plan import Inner, Linear, Node, Total
from impl._portable.carried_sums.scope import Atom, NestStates, Output, Scope
from impl._reading.control_flow import Slice

#: Along the iterations of a loop, an operation has one sum, or one for each iteration.
Along: TypeAlias = Literal["sum", "each"]


@dataclasses.dataclass(frozen=True)
class Factors:
    """The operands of an operation that adds, as variables of a body around it.

    Attributes:
        total: The operation.
        atoms: For each operand its variable, or None where it is plainly 0.
        along: The meaning of each leading axis of the variables, from the outermost loop on.
    """

    total: Total
    atoms: Sequence[Atom | None]
    along: tuple[Along, ...] = ()


def states(scope: Scope, node: Node | None) -> list[tuple[Total, Atom]]:
    """Returns each operation that adds in a node, with the variable of its state in a body.

    Args:
        scope: The body.
        node: A node of its plan.
    """
    if node is None:
        return []
    if isinstance(node, Total):
        state = jaxprs.variable(steps.state_type(node.aval))
        operands = [scope.level, *node.equation.invars]
        scope.added.append(steps.equation(node.equation, operands, state, node.options))
        return [(node, state)]
    if isinstance(node, Linear):
        return [pair for part in node.parts.values() for pair in states(scope, part)]
    found = []
    for index, part in enumerate(node.parts):
        for total, inner in states(node.nest.scopes[index], part):
            length = node.nest.bodies[index].length if node.is_stacked else None
            out = jaxprs.variable(steps.type_of_all(inner.aval, length))
            how: Any = "carried" if node.is_carried else "state"
            node.nest.outputs.append(Output(index, inner, out, how))
            found.append((total, out))
    return found


def factors(scope: Scope, node: Node | None) -> list[Factors]:
    """Returns the operands of each operation that adds in a node, as variables of a body.

    Args:
        scope: The body.
        node: A node of its plan.
    """
    if node is None:
        return []
    if isinstance(node, Total):
        atoms = [None if scope.is_zero(atom) else atom for atom in node.equation.invars]
        return [Factors(node, atoms)]
    if isinstance(node, Linear):
        return [each for part in node.parts.values() for each in factors(scope, part)]
    return [
        _outside(scope, node, index, each)
        for index, part in enumerate(node.parts)
        for each in factors(node.nest.scopes[index], part)
    ]


def _outside(scope: Scope, node: Inner, index: int, inner: Factors) -> Factors:
    """Returns factors of a body of an equation as variables of the body around the equation."""
    atoms = [None if atom is None else _output(node.nest, index, atom) for atom in inner.atoms]
    atoms = [None if atom is None or scope.is_zero(atom) else atom for atom in atoms]
    if node.nest.bodies[index].runs != "loop":
        return dataclasses.replace(inner, atoms=atoms)
    along: Along = "sum" if node.is_carried else "each"
    return dataclasses.replace(inner, atoms=atoms, along=(along, *inner.along))


def _output(nest: NestStates, index: int, atom: Atom) -> Atom:
    """Returns the variable, outside of a nest, of a variable of one of its bodies."""
    body, jaxpr = nest.bodies[index], nest.scopes[index].jaxpr
    if jaxprs.is_literal(atom):
        return atom
    source = next(
        (each for each, own in zip(body.inputs, jaxpr.invars, strict=True) if own is atom), None
    )
    if isinstance(source, Slice):
        return nest.equation.invars[source.operand]
    if isinstance(source, int) and body.runs == "once":
        return nest.equation.invars[source]
    for each in nest.outputs:
        if (each.body, each.inner, each.how) == (index, atom, "factor"):
            return each.out
    length = body.length if body.runs == "loop" else None
    aval = atom.aval if length is None else jaxprs.stacked(atom.aval, length)
    out = jaxprs.variable(aval)
    nest.outputs.append(Output(index, atom, out, "factor"))
    return out
