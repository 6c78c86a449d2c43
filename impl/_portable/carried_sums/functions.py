"""The unrounded sums of a function: what ``impl.Accumulator`` adds.

``plan`` finds the operations that add last in a function, as in the body of a scan, and ``write``
gives its jaxpr the states of their sums as outputs. The parts of a batch are the iterations: what
follows these operations is done once, on the rounded sums. For example, of ::

    jax.grad(lambda w, x, y: ((x @ w - y) ** 2).sum())

the last operations are ``dot_general`` and ``transpose``. A move of elements, such as the
transposition, is done on the state, so that it has the shape of the gradient. Any other operations
that follow are a ``Form``, such as the sum of both gradients of a tied weight, or a division by a
number. An output that is no such sum is added as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl._exact.unrounded import states as unrounded
from impl._jax import ClosedJaxpr, jaxpr_as_fun, jaxprs, lowering
from impl._mode import modes
from impl._portable.carried_sums import plan, steps, write
from impl._portable.carried_sums.lower import Finish
from impl._portable.carried_sums.plan import Atom, Node, NotJoined, Scope
from impl._portable.device_sums import flow
from impl._portable.device_sums.shardings import UNKNOWN, Sharding
from impl._portable.rule import rule_of

#: Operations that move elements, and may repeat them.
_MOVES = frozenset(
    {"broadcast_in_dim", "copy", "expand_dims", "reshape", "rev", "slice", "split", "squeeze"}
    | {"transpose", "unstack"}
)


@dataclasses.dataclass(frozen=True)
class Form:
    """The function that makes a leaf of rounded sums.

    The text of its equations is empty if the leaf is the one sum.
    """

    result: jax.ShapeDtypeStruct
    kinds: tuple[jax.ShapeDtypeStruct, ...]
    text: str = ""
    closed: Any = dataclasses.field(default=None, compare=False, repr=False)

    @classmethod
    def plain(cls, like: Any) -> Form:
        """Returns the form of a leaf that is one sum."""
        kind = jax.ShapeDtypeStruct(like.shape, like.dtype)
        return cls(kind, (kind,))

    def __repr__(self) -> str:
        """Returns what JAX shows where a scan gets a carry without the form."""
        made = f" of Accumulator.like(tree, function, *args): {self.text}" if self.text else ""
        return shown(self.result) + made

    def __deepcopy__(self, _: Any) -> Form:
        """Returns itself: a jaxpr cannot be copied."""
        return self

    def empty(self) -> list[jax.Array]:
        """Returns the states of no terms."""
        return [unrounded.zeros(kind.shape) for kind in self.kinds]

    def value(self, sums: Sequence[jax.Array]) -> jax.Array:
        """Returns the leaf, from the rounded sums."""
        result: jax.Array = jaxpr_as_fun(self.closed)(*sums)[0] if self.text else sums[0]
        return result


def shown(kind: Any) -> str:
    """Returns the dtype and the shape of a type."""
    return f"{kind.dtype}{[*kind.shape]}"


#: The states of the sums of a leaf, by what follows these sums.
Leaf: TypeAlias = Mapping[Form, Sequence[jax.Array]]


def merged(a: Leaf, b: Leaf) -> Leaf:
    """Returns the states of all terms of two leaves."""
    both = {**a, **b}
    for form in a.keys() & b.keys():
        pairs = zip(a[form], b[form], strict=True)
        both[form] = [steps.bind("merged", *pair)[0] for pair in pairs]
    return both


@dataclasses.dataclass(frozen=True)
class Output:
    """One of the leaves that a function returns.

    Attributes:
        atom: Its variable.
        states: The variables of the states of its sums.
        finish: The equations that follow the sums, as a jaxpr; None if the leaf is rounded.
        form: The same without moves of one sum, which are done on its state.
    """

    atom: Atom
    states: Sequence[Atom]
    finish: Any
    form: Form

    @classmethod
    def of(cls, scope: Scope, atom: Atom, result: Any) -> Output:
        """Plans a leaf of a type."""
        node, plain = _node(scope, atom), Form.plain(result)
        if node is None:
            return cls(atom, (), None, plain)
        totals, states = zip(*write.states(scope, node), strict=True)

        def finish(*sums: jax.Array) -> jax.Array:
            return Finish(scope, {}.__getitem__, dict(zip(totals, sums, strict=True))).value(node)

        shapes, dtypes = [each.aval.shape[1:] for each in states], [t.aval.dtype for t in totals]
        kinds = tuple(map(jax.ShapeDtypeStruct, shapes, dtypes))
        with lowering.unchecked_varying():  # JAX has checked the function.
            closed = jax.make_jaxpr(finish)(*kinds)
        if len(totals) == 1 and all(map(_moves, closed.eqns)):
            return cls(atom, states, closed, plain)
        text = f"{closed} {[np.asarray(each).tobytes() for each in closed.consts]}"
        return cls(atom, states, closed, Form(plain.result, kinds, text, closed))


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """A function without arguments, as equations, with the plan of its sums."""

    closed: Any
    tree: Any
    scope: Scope
    outputs: Sequence[Output]

    @classmethod
    def of(cls, function: Callable[[], Any]) -> Function:
        """Traces a function."""
        closed, shapes = jax.make_jaxpr(function, return_shape=True)()
        jaxpr = closed.jaxpr.replace(constvars=[], invars=[*closed.jaxpr.constvars])
        mode = modes.current()._replace(enabled=True, guarantee="portable")
        inputs: list[Sharding] = [{plan.PARTS: UNKNOWN} for _ in jaxpr.invars]
        scope = Scope(jaxpr, inputs, plan.flow_of_loops()[0], mode, 0)
        results, tree = jax.tree.flatten(shapes)
        pairs = zip(scope.jaxpr.outvars, results, strict=True)
        return cls(closed, tree, scope, [Output.of(scope, *pair) for pair in pairs])

    def added(self, level: jax.Array, leaves: Sequence[Leaf]) -> list[Leaf]:
        """Returns leaves, the states of each, after the sums of the function were added.

        The level to count is an int32 of shape [].
        """
        atoms = [atom for each in self.outputs for atom in each.states or [each.atom]]
        new = write.with_states(self.scope, atoms)
        values = iter(jaxpr_as_fun(ClosedJaxpr(new, []))(level, *self.closed.consts))
        after: list[Leaf] = []
        for leaf, output in zip(leaves, self.outputs, strict=True):
            form = output.form
            own = [next(values) for _ in output.states or [output.atom]]
            if output.finish is None:
                (state,) = leaf.get(form) or form.empty()
                own = steps.bind("exactly", level, state, *map(jnp.asarray, own))
                after.append({**leaf, form: own})
            else:
                moved = own if form.text else jax.vmap(jaxpr_as_fun(output.finish))(*own)
                after.append(merged(leaf, {form: moved}))
        return after

    def rounded(self) -> list[tuple[int, Any]]:
        """Returns the leaves that each part rounds, with the operations that follow their sums."""
        atoms = [None if each.finish else each.atom for each in self.outputs]
        found = [_following(self.scope, atom) for atom in atoms]
        return [(i, equation) for i, equation in enumerate(found) if equation is not None]


def _node(scope: Scope, atom: Atom) -> Node | None:
    """Returns the plan of a value; None if it is rounded."""
    try:
        return plan.planned(scope, atom, [plan.PARTS])
    except NotJoined:
        return None


def _following(scope: Scope, atom: Atom) -> Any:
    """Returns the linear operation that follows the sum of an output, and is not done on it."""
    equation = None if jaxprs.is_literal(atom) else scope.producers.get(atom)
    if equation is None:
        return None
    is_product = rule_of(equation).linear == "either"
    linear = (0, 1) if is_product else flow.linear_in(equation, ())
    operands = [equation.invars[i] for i in linear]
    if any(_node(scope, each) for each in operands):
        return equation
    return next(filter(None, (_following(scope, each) for each in operands)), None)


def _moves(equation: Any) -> bool:
    """Returns whether an equation moves elements, so that it can be done on the words of states."""
    name = equation.primitive.name
    return name in _MOVES or (name == "reduce_sum" and flow.adds_none(equation))
