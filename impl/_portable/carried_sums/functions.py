"""The unrounded sums of a function: what ``impl.Accumulator`` adds.

``plan`` finds the operations that add last in a function, as in the body of a scan, and ``write``
gives its jaxpr the states of their sums as outputs. Later operations have to be exact, so that
they can be done on a state: a move of elements, a negation, an addition, a conversion to a wider
float.
Any other output is added as it is. For example, of ::

    jax.grad(lambda w, x, y: ((x @ w - y) ** 2).sum())

the last operations are ``dot_general`` and ``transpose``, so the states of the product move.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from impl import _jax
from impl._jax import ClosedJaxpr, jaxpr_as_fun
from impl._mode import modes
from impl._portable.carried_sums import plan, steps, write
from impl._portable.carried_sums.plan import (
    Atom,
    Linear,
    Node,
    NotJoined,
    Scope,
    Total,
    flow_of_loops,
)

#: Operations that move elements, and may repeat them.
_MOVES = frozenset(
    {"broadcast_in_dim", "copy", "expand_dims", "reshape", "rev", "squeeze", "transpose"}
)
#: Operations on several operands, of which the plan leaves out zeros.
_ADDITIONS = frozenset({"add", "add_any", "add_parts"})
_JOINS = frozenset({"concatenate", "pad"})


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """A function without arguments, as equations.

    Attributes:
        closed: Its jaxpr.
        results: The types of the leaves of what it returns.
        tree: Their tree.
    """

    closed: Any
    results: Sequence[Any]
    tree: Any

    @classmethod
    def of(cls, function: Callable[[], Any]) -> Function:
        """Traces a function."""
        closed, shapes = jax.make_jaxpr(function, return_shape=True)()
        return cls(closed, *jax.tree.flatten(shapes))

    def added(self, level: jax.Array, states: Sequence[jax.Array]) -> list[jax.Array]:
        """Returns states, one for each leaf, after the sums of the function were added.

        The level to count is an int32 of shape [].
        """
        old = self.closed.jaxpr
        jaxpr = old.replace(constvars=[], invars=[*old.constvars])
        flow, _ = flow_of_loops()
        mode = modes.current()._replace(enabled=True, guarantee="portable")
        scope = Scope(jaxpr, [{} for _ in jaxpr.invars], flow, mode, 0)
        nodes = [_node(scope, atom) for atom in scope.jaxpr.outvars]
        of_states = [pair for node in nodes for pair in write.states(scope, node)]
        totals = [total for total, _ in of_states]
        variables = [variable for _, variable in of_states]
        plain = [a for node, a in zip(nodes, scope.jaxpr.outvars, strict=True) if node is None]
        new = write.with_states(scope, [*variables, *plain])
        values = jaxpr_as_fun(ClosedJaxpr(new, []))(level, *self.closed.consts)
        known = dict(zip(totals, values, strict=False))
        rest = iter(values[len(variables) :])
        after: list[jax.Array] = []
        for node, state in zip(nodes, states, strict=True):
            if node is None:
                after += steps.bind("exactly", level, state, jnp.asarray(next(rest)))
            else:
                after += steps.bind("merged", state, _moved(node, known))
        return after


def _node(scope: Scope, atom: Atom) -> Node | None:
    """Returns the plan of an output; None if it is rounded."""
    try:
        node = plan.planned(scope, atom, ())
    except NotJoined:
        return None
    return node if _is_exact(node) else None


def _is_exact(node: Node) -> bool:
    """Returns whether all that follows the sums can be done on their states."""
    if isinstance(node, Total):
        return True
    if isinstance(node, Linear):
        name = str(node.equation.primitive.name)
        operands = node.equation.invars
        is_known = name in _MOVES | {"neg", "reduce_sum"} or _widens(node)
        is_known = is_known and len(node.parts) == len(operands)
        is_known = is_known or name in _ADDITIONS | _JOINS
        return is_known and all(map(_is_exact, node.parts.values()))
    return all(part is None or _is_exact(part) for part in node.parts)


def _widens(node: Linear) -> bool:
    """Returns whether an equation converts floats to a dtype that has all of them."""
    if node.equation.primitive.name != "convert_element_type":
        return False
    before, after = (each[0].aval.dtype for each in (node.equation.invars, node.equation.outvars))
    return bool(jnp.promote_types(before, after) == after)


def _moved(node: Node, known: Mapping[Total, jax.Array]) -> jax.Array:
    """Returns the state of a node."""
    if isinstance(node, Total):
        return known[node]
    if isinstance(node, Linear):
        return _linear(node, {i: _moved(part, known) for i, part in node.parts.items()})
    results = []
    for part in node.parts:
        if part is None:
            continue
        if node.is_stacked:
            inner = plan.totals_of(part)
            moved = functools.partial(_of_stacked, part, inner)
            results.append(jax.vmap(moved, 1, 1)([known[total] for total in inner]))
        else:
            results.append(_moved(part, known))
    return functools.reduce(lambda a, b: steps.bind("merged", a, b)[0], results)


def _of_stacked(part: Node, totals: Sequence[Total], states: Sequence[jax.Array]) -> jax.Array:
    return _moved(part, dict(zip(totals, states, strict=True)))


def _linear(node: Linear, parts: Mapping[int, jax.Array]) -> jax.Array:
    """Returns the state of an equation's result, from the states of its operands."""
    name = str(node.equation.primitive.name)
    if name in _ADDITIONS:
        return functools.reduce(lambda a, b: steps.bind("merged", a, b)[0], parts.values())
    if name in _JOINS:
        like = next(iter(parts.values()))
        avals = [atom.aval for atom in node.equation.invars]
        zeros = [jnp.zeros((like.shape[0], *aval.shape), like.dtype) for aval in avals]
        words = [parts.get(i, zero) for i, zero in enumerate(zeros)]

        def join(*words: jax.Array) -> jax.Array:
            joined: jax.Array = _jax.evaluated(node.equation, words)[0]
            return joined

        return jax.vmap(join)(*words)
    (state,) = parts.values()
    if name == "neg":
        return steps.bind("negated", state)[0]
    if name == "convert_element_type":
        return state
    if name == "reduce_sum":  # Along axes of length 1.
        axes = [1 + axis for axis in node.equation.params["axes"]]
        return jax.lax.squeeze(state, axes)

    def move(words: jax.Array) -> jax.Array:
        moved: jax.Array = _jax.evaluated(node.equation, [words])[0]
        return moved

    return jax.vmap(move)(state)
