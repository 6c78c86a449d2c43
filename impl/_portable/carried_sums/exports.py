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
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, TypeVar

from impl._jax import jaxprs
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


#: An operation that adds, with the variable of its state.
State: TypeAlias = tuple[Total, Atom]
_Part = TypeVar("_Part")


def states(scope: Scope, node: Node | None) -> list[State]:
    """Returns each operation that adds in a node, with the variable of its state in a body.

    Args:
        scope: The body.
        node: A node of its plan.
    """
    return _of_each(scope, node, _state, _state_outside)


def factors(scope: Scope, node: Node | None) -> list[Factors]:
    """Returns the operands of each operation that adds in a node, as variables of a body.

    Args:
        scope: The body.
        node: A node of its plan.
    """
    return _of_each(scope, node, _factors, _factors_outside)


def _of_each(
    scope: Scope,
    node: Node | None,
    inside: Callable[[Scope, Total], _Part],
    outside: Callable[[Scope, Inner, int, _Part], _Part],
) -> list[_Part]:
    """Returns the parts of all operations that add in a node.

    Args:
        scope: The body of the node.
        node: A node of its plan.
        inside: Returns the part of an operation, as variables of the operation's own body.
        outside: Returns a part of a body of an equation, which a number names, as variables of the
            body around the equation.
    """
    if node is None:
        return []
    if isinstance(node, Total):
        return [inside(scope, node)]
    if isinstance(node, Linear):
        return [
            each for part in node.parts.values() for each in _of_each(scope, part, inside, outside)
        ]
    return [
        outside(scope, node, index, each)
        for index, part in enumerate(node.parts)
        for each in _of_each(node.nest.scopes[index], part, inside, outside)
    ]


def _state(scope: Scope, total: Total) -> State:
    state = jaxprs.variable(steps.state_type(total.aval))
    operands = [scope.level, *total.equation.invars]
    scope.added.append(steps.equation(total.equation, operands, state, total.options))
    return total, state


def _state_outside(_: Scope, node: Inner, index: int, inner: State) -> State:
    total, variable = inner
    length = node.nest.bodies[index].length if node.is_stacked else None
    out = jaxprs.variable(steps.type_of_all(variable.aval, length))
    how: Literal["carried", "state"] = "carried" if node.is_carried else "state"
    node.nest.outputs.append(Output(index, variable, out, how))
    return total, out


def _factors(scope: Scope, total: Total) -> Factors:
    return Factors(total, [None if scope.is_zero(atom) else atom for atom in total.equation.invars])


def _factors_outside(scope: Scope, node: Inner, index: int, inner: Factors) -> Factors:
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
