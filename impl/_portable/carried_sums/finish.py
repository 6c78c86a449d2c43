"""Computes carried sums after the loop: linear operations on the sums of all iterations.

For the plan of ``carry + transpose(z) / 3``, with the rounded total of ``z``, ``Finish.value``
computes ``transpose(total) / 3``, by the equations of the body. Factors that are the same in each
iteration are computed once more, from the constants of the scan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax import lax

from impl import _jax
from impl._jax import jaxprs
from impl._portable.carried_sums.plan import Inner, Linear, Node, Total, totals_of
from impl._portable.carried_sums.scope import Atom, Scope
from impl._reading.control_flow import Slice


class Finish:
    """The values of a body after its loop.

    Args:
        scope: The body.
        known: The values of those inputs of the body that are the same in each iteration.
        totals: The rounded total of each operation that adds.
    """

    def __init__(
        self, scope: Scope, known: Mapping[Atom, Any], totals: Mapping[Total, jax.Array]
    ) -> None:
        self._scope = scope
        self._known = dict(known)
        self._totals = totals

    def value(self, node: Node) -> jax.Array:
        """Returns the value of a node."""
        if isinstance(node, Total):
            return self._totals[node]
        if isinstance(node, Linear):
            operands = [
                self.value(node.parts[i]) if i in node.parts else self._read(atom)
                for i, atom in enumerate(node.equation.invars)
            ]
            result: jax.Array = _jax.evaluated(node.equation, operands)[node.position]
            return result
        return self._inner(node)

    def _read(self, atom: Atom) -> Any:
        """Returns a value that is the same in each iteration."""
        if jaxprs.is_literal(atom):
            return atom.val
        if self._scope.is_zero(atom):
            return lax.full(atom.aval.shape, 0, atom.aval.dtype)
        if atom not in self._known:
            producer = self._scope.producers[atom]
            values = _jax.evaluated(producer, [*map(self._read, producer.invars)])
            self._known.update(zip(producer.outvars, values, strict=True))
        return self._known[atom]

    def _inner(self, node: Inner) -> jax.Array:
        """Returns the output of a loop, a condition or a checkpoint: the sum of its bodies."""
        values = [
            self._of_body(node, index, part)
            for index, part in enumerate(node.parts)
            if part is not None
        ]
        total, *others = values
        for other in others:
            total = lax.add(total, other)
        return total

    def _of_body(self, node: Inner, index: int, part: Node) -> jax.Array:
        body, scope = node.nest.bodies[index], node.nest.scopes[index]
        own = totals_of(part)
        inputs = [*_needed(scope, part)]
        slots = {atom: body.inputs[scope.jaxpr.invars.index(atom)] for atom in inputs}
        operands = node.nest.equation.invars
        fixed = {
            atom: self._read(operands[at]) for atom, at in slots.items() if isinstance(at, int)
        }
        slices = {
            a: self._read(operands[at.operand]) for a, at in slots.items() if isinstance(at, Slice)
        }

        def one(slices: Sequence[jax.Array], totals: Sequence[jax.Array]) -> jax.Array:
            known = {**fixed, **dict(zip(slots_of_slices, slices, strict=True))}
            return Finish(scope, known, dict(zip(own, totals, strict=True))).value(part)

        slots_of_slices = [*slices]
        arguments = [*slices.values()], [self._totals[total] for total in own]
        if not node.is_stacked:
            return one(*arguments)
        result: jax.Array = (
            jax.vmap(one)(*arguments) if not isinstance(part, Total) else self._totals[part]
        )
        return result


def _needed(scope: Scope, node: Node) -> dict[Atom, None]:
    """Returns the inputs of a body that a node needs after the loop."""
    found: dict[Atom, None] = {}

    def read(atom: Atom) -> None:
        if jaxprs.is_literal(atom) or scope.is_zero(atom):
            return
        if scope.is_input(atom):
            found[atom] = None
            return
        for each in scope.producers[atom].invars:
            read(each)

    def walk(node: Node) -> None:
        if isinstance(node, Linear):
            for i, atom in enumerate(node.equation.invars):
                walk(node.parts[i]) if i in node.parts else read(atom)
        elif isinstance(node, Inner):
            for part, inner, body in zip(
                node.parts, node.nest.scopes, node.nest.bodies, strict=True
            ):
                for atom in _needed(inner, part) if part is not None else ():
                    at = body.inputs[inner.jaxpr.invars.index(atom)]
                    read(node.nest.equation.invars[at.operand if isinstance(at, Slice) else at])

    walk(node)
    return found
