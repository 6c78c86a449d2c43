"""Writes the jaxpr of a scan that carries states of sums.

``plan`` has found the operations whose sums stay unrounded. Here the body gets their equations, the
nests get outputs for their states, and all of them get one more input: the level to count. The scan
over micro-batches ::

    { lambda ; c:f32[4,3] x:f32[8,4] y:f32[8,3]. let
        z:f32[4,3] = dot_general[(([0], [0]), ([], []))] x y
        d:f32[4,3] = add c z
      in (d,) }

gets this body. The old equations are dead, unless the body reads their results elsewhere::

    { lambda ; l:i32[] s:u32[6,4,3] x:f32[8,4] y:f32[8,3]. let
        t:u32[6,4,3] = samebits_unrounded[step=added name=dot_general ...] l x y
        u:u32[6,4,3] = samebits_unrounded[step=merged] s t
      in (u,) }

An operation that adds, in a scan over layers inside of a scan over micro-batches, has its sums by
one of two ways, and both have to leave both scans::

    state    u32[6,2,4,3]              the unrounded sums of 2 layers, which the outer scan carries
    factors  f32[2,8,4], f32[2,8,3]    the operands of 2 layers, which the outer scan stacks

``states`` and ``factors`` add outputs to the loops, conditions and checkpoints around an operation;
an output that nothing reads is dead code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from impl import _jax
from impl._jax import jaxprs
from impl._portable.carried_sums import steps
from impl._portable.carried_sums.plan import (
    Atom,
    Inner,
    Linear,
    NestStates,
    Node,
    Output,
    Scope,
    Total,
)
from impl._reading import control_flow
from impl._reading.control_flow import Carry, Slice


def with_states(scope: Scope, outputs: Sequence[Atom]) -> Any:
    """Returns a body with other outputs, whose first input is the level.

    The outputs are variables of the body, or of its states. The jaxpr has no equations that no
    output needs.
    """
    equations = []
    for equation in scope.jaxpr.eqns:
        nest = scope.nests.get(id(equation))
        equations += [equation] if nest is None else _nest(scope, nest)
    jaxpr = scope.jaxpr.replace(
        invars=[scope.level, *scope.jaxpr.invars],
        eqns=[*equations, *scope.added],
        outvars=[*outputs],
    )
    return _jax.without_dead_code(jaxpr)


def _nest(scope: Scope, nest: NestStates) -> list[Any]:
    """Returns the equation of a loop, a condition or a checkpoint that also returns states."""
    if nest.bodies[0].runs == "loop":
        return _loop(scope, nest)
    bodies = []
    for index, each in enumerate(nest.scopes):
        more = []
        for output in nest.outputs:
            own = output.inner
            if output.body != index:  # Another branch runs, and adds nothing.
                own = jaxprs.variable(output.out.aval)
                each.added.append(steps.empty(nest.equation, own))
            more.append(own)
        bodies.append(with_states(each, [*each.jaxpr.outvars, *more]))
    first = 1 if nest.bodies[0].runs == "branch" else 0
    operands = [*nest.equation.invars]
    operands.insert(first, scope.level)
    outs = [*nest.equation.outvars, *(each.out for each in nest.outputs)]
    return [control_flow.with_bodies(nest.equation.replace(invars=operands, outvars=outs), bodies)]


def _loop(scope: Scope, nest: NestStates) -> list[Any]:
    """Returns the equations of a scan inside the body, which stacks states or carries them."""
    (body,), (inner,) = nest.bodies, nest.scopes
    carried, stacked, factors = (
        [(each.inner, each.out) for each in nest.outputs if each.how == how]
        for how in ("carried", "state", "factor")
    )
    like, old = nest.equation, inner.jaxpr
    before = [jaxprs.variable(out.aval) for _, out in carried]
    after = [jaxprs.variable(out.aval) for _, out in carried]
    for (state, _), first, last in zip(carried, before, after, strict=True):
        _merge(inner, like, state, first, last)
    number = len(body.carries)
    first_slice = next(
        (i for i, each in enumerate(body.inputs) if not isinstance(each, (int, Carry))),
        len(body.inputs),
    )
    more = [inner for inner, _ in (*stacked, *factors)]
    outs = [*old.outvars[:number], *after, *old.outvars[number:], *more]
    invars = [*old.invars[:first_slice], *before, *old.invars[first_slice:]]
    inner.jaxpr = old.replace(invars=invars)
    new = with_states(inner, outs)
    raw = [
        jaxprs.variable(jaxprs.stacked(state.aval, like.params["length"])) for state, _ in stacked
    ]
    moved = [
        steps.words_first(like, *pair) for pair in zip(raw, (o for _, o in stacked), strict=True)
    ]
    starts = [jaxprs.variable(out.aval) for _, out in carried]
    empties = [steps.empty(like, start) for start in starts]
    operands = [*like.invars[:first_slice], *starts, *like.invars[first_slice:]]
    results = [
        *like.outvars[:number],
        *(out for _, out in carried),
        *like.outvars[number:],
        *raw,
        *(out for _, out in factors),
    ]
    constants, _ = control_flow.counts_of_scan(like.params)
    params = control_flow.scan_of(
        like.params, new, constants=1 + constants, carried=number + len(carried)
    )
    scan = like.replace(params=params, invars=[scope.level, *operands], outvars=results)
    return [*empties, scan, *moved]


def _merge(scope: Scope, like: Any, state: Atom, first: Atom, last: Atom) -> None:
    """Adds the equation that adds ``state``, of one iteration, to ``first``, and makes ``last``."""
    own = [each for each in scope.added if each.outvars[0] is state]
    merge = steps.onto(own[0], first, last) if own else steps.merge(like, [first, state], last)
    scope.added.append(merge)


def outer(
    scope: Scope,
    params: Mapping[str, Any],
    kept: Sequence[int],
    states: Sequence[Atom],
    factors: Sequence[Atom],
) -> dict[str, Any]:
    """Returns the parameters of the scan that carries states.

    Its operands are the level, the constants, the carries that are kept, the states, the slices.
    Its results are the carries, the stacked results of the program, and the stacked factors.
    """
    constants, number = control_flow.counts_of_scan(params)
    old = scope.jaxpr
    before = [jaxprs.variable(state.aval) for state in states]
    after = [jaxprs.variable(state.aval) for state in states]
    like = scope.added[0] if scope.added else old.eqns[-1]
    for state, first, last in zip(states, before, after, strict=True):
        _merge(scope, like, state, first, last)
    ys = [*old.outvars[number:], *factors]
    new = with_states(scope, [*(old.outvars[i] for i in kept), *after, *ys])
    carries = [old.invars[constants + i] for i in kept]
    slices = old.invars[constants + number :]
    invars = [scope.level, *old.invars[:constants], *carries, *before, *slices]
    new = new.replace(invars=invars)
    return control_flow.scan_of(
        params, new, constants=1 + constants, carried=len(kept) + len(states)
    )


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
    """Returns each operation that adds in a node, with the variable of its state in a body."""
    return _of_each(scope, node, _state, _state_outside)


def factors(scope: Scope, node: Node | None) -> list[Factors]:
    """Returns the operands of each operation that adds in a node, as variables of a body."""
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
