"""Finds the carried sums of a ``scan`` whose terms reach operations that add.

The search goes from ``g`` in ``carry + g`` back to where its terms arise, as ``device_sums.push``
does with a sum over devices, by the same rules (``device_sums.flow``):

- An operation that adds over the iterations, such as ``dot_general``, is the end: its sum is left
  unrounded.
- A linear operation with factors that all iterations have is done once, on the rounded sum.
- A loop, a condition or a checkpoint returns the unrounded sums of its body. A scan over layers
  returns one for each layer, or carries one for all layers if it carries a sum itself.

The search returns a tree of the nodes below, and writes down the states in the scopes. For example,
of a body with the carried inputs c and m::

    z = dot_general y x              Total: the end of the search
    t = transpose z                  Linear: the transposed total
    d = add c t                      c is joined, as the node of t
    u = mul m 0.9                    m is no sum: it is multiplied in each iteration
    n = add u t

The iterations of a ``scan`` are like devices along an axis of a mesh: each runs the same equations
on its own slices. So a ``Scope`` follows shardings along the iterations too, by
``device_sums.flow``. In ::

    { lambda ; w:f32[4,3] c:f32[4,3] x:f32[8,4] y:f32[8,3]. let     # c is carried, x, y are slices
        z:f32[3,4] = dot_general[(([0], [0]), ([], []))] y x        # a contraction of dimension 0
        t:f32[4,3] = transpose z
        d:f32[4,3] = add c t
      in (d,) }

``w`` is the same in each iteration, ``x`` and ``y`` are sharded along dimension 0, and ``z`` is a
term of a sum over the iterations.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import jax
import numpy as np

from impl._exact.unrounded import operations
from impl._jax import jaxprs, rules, tags
from impl._mode.modes import Mode
from impl._portable.carried_sums import steps
from impl._portable.device_sums import flow
from impl._portable.device_sums.flow import Flow, sharding_of
from impl._portable.device_sums.shardings import UNKNOWN, Sharding
from impl._portable.rule import rule_of
from impl._reading import control_flow
from impl._reading.control_flow import Body, Carry, Slice, inlined

_ADDITIONS = frozenset({"add", "add_any"})
#: Operations that have no value after the loop: XLA computes them for the devices of a body only.
_WHOLE, _OF_DEVICES = "samebits_whole", frozenset({"samebits_whole", "samebits_part"})


class NotJoined(Exception):  # noqa: N818  # It is a reason, and not an error.
    """Says why a carried sum is rounded in each iteration."""


class NoSum(NotJoined):
    """Says that a carried value is no sum: it keeps its meaning."""


@dataclasses.dataclass(frozen=True, eq=False)
class Total:
    """The rounded sum of one operation over all iterations."""

    scope: Scope
    equation: Any
    options: Mapping[str, Any]

    @property
    def aval(self) -> Any:
        """The type of the result."""
        return self.equation.outvars[0].aval

    @property
    def operands(self) -> list[Any]:
        """The types of the operands."""
        return [each.aval for each in self.equation.invars]


@dataclasses.dataclass(frozen=True, eq=False)
class Linear:
    """A linear operation, whose ``parts`` are the operands that are rounded sums, by position."""

    equation: Any
    position: int
    parts: Mapping[int, Node]


@dataclasses.dataclass(frozen=True, eq=False)
class Inner:
    """An output of a loop, a condition or a checkpoint.

    Attributes:
        nest: The equation and its scopes.
        parts: The result of each body; None where it is 0. The output is their sum.
        is_stacked: Whether the output has a slice for each iteration of the equation's own loop.
        is_carried: Whether the output is a sum over these iterations.
    """

    nest: NestStates
    parts: Sequence[Node | None]
    is_stacked: bool
    is_carried: bool


Node = Total | Linear | Inner


def term_of(scope: Scope, carry: Atom, out: Atom) -> Atom:
    """Returns ``g`` of a carried sum ``carry + g``, from a carried input and an output of a body.

    Raises:
        NoSum: It is no such sum, or the body reads it elsewhere.
        NotJoined: It is in a scope without the guarantee.
    """
    producer = None if jaxprs.is_literal(out) else scope.producers.get(out)
    if producer is None or str(producer.primitive.name) not in _ADDITIONS:
        raise NoSum("its next value is no sum with another value")
    others = [atom for atom in producer.invars if atom is not carry]
    if len(others) != 1:
        raise NoSum("its next value is no sum of it and another value")
    if scope.uses(carry) != 1 or scope.uses(out) != 1:
        raise NoSum("the body reads it elsewhere too")
    if not scope.is_portable(producer):
        raise NotJoined("the addition is in a scope without the guarantee")
    return others[0]


def planned(scope: Scope, atom: Atom, axes: Sequence[str]) -> Node:
    """Returns how the sum of a value of a body over iterations is made of unrounded sums.

    The iterations to sum over are axes of a mesh.

    Raises:
        NotJoined: Its terms reach no operation that adds.
    """
    equation = None if jaxprs.is_literal(atom) else scope.producers.get(atom)
    if equation is None:
        raise NotJoined("it adds values that no operation of the body has added")
    name = str(equation.primitive.name)
    if not scope.is_portable(equation):
        raise NotJoined(f"{name} is in a scope without the guarantee")
    rule = rule_of(equation)
    if rule.over_devices is not None or name == _WHOLE:
        return _of_operation(scope, equation, atom, axes)
    if rule.linear == "each":
        return planned(scope, equation.invars[equation.outvars.index(atom)], axes)
    if control_flow.bodies(equation):
        return _of_nest(scope, equation, atom, axes)
    operands = flow.passed(equation, lambda each: scope.is_fixed(each, axes))
    if not operands:
        raise NotJoined(f"{name} is not linear in the sum, or has a factor of each iteration")
    return _linear(scope, equation, atom, operands, axes)


def _linear(
    scope: Scope, equation: Any, atom: Atom, operands: Sequence[int], axes: Sequence[str]
) -> Node:
    parts = {
        i: planned(scope, equation.invars[i], axes)
        for i in operands
        if not scope.is_zero(equation.invars[i])
    }
    if not parts:
        raise NotJoined("it adds zeros")
    for i, each in enumerate(equation.invars):
        if i not in parts:
            _check_available(scope, each)
    return Linear(equation, equation.outvars.index(atom), parts)


def _check_available(scope: Scope, atom: Atom) -> None:
    """Raises ``NotJoined`` if a fixed value cannot be computed once more after the loop."""
    equation = None if jaxprs.is_literal(atom) else scope.producers.get(atom)
    if equation is None or scope.is_zero(atom):
        return
    if str(equation.primitive.name) in _OF_DEVICES or equation.effects:
        raise NotJoined("a factor of it is a sum over devices")
    for each in equation.invars:
        _check_available(scope, each)


def _of_operation(scope: Scope, equation: Any, atom: Atom, axes: Sequence[str]) -> Node:
    """Returns the sum of an operation that adds; or passes it, if its operands are sums."""
    name = str(equation.primitive.name)
    if name != _WHOLE:
        shardings = [scope.sharding(each) for each in equation.invars]
        own = [a for a in axes if a != PARTS and any(a in each for each in shardings)]
        passes = flow.having_terms(equation, shardings, own, scope.producers)
        if (*axes,) == (PARTS,) and flow.adds_none(equation):
            passes = {(0,): ()}  # Nothing says which arguments are slices of a batch.
        if [*passes.values()] == [tuple(own)]:
            (operands,) = passes
            with contextlib.suppress(NotJoined):
                return _linear(scope, equation, atom, operands, axes)
    options = steps.options_of(name, equation.params, equation.outvars[0].aval.shape)
    total = Total(scope, equation, options)
    if not operations.is_known(options["name"], total.operands, total.aval):
        raise NotJoined(f"{options['name']} of these types has no unrounded sum")
    return total


def _of_nest(scope: Scope, equation: Any, atom: Atom, axes: Sequence[str]) -> Node:
    """Returns the sum of an output of a loop, a condition or a checkpoint."""
    nest = of_nest(scope, equation)
    if nest is None or equation.primitive.name == "shard_map":
        raise NotJoined(f"it comes from a {equation.primitive.name}")
    position = equation.outvars.index(atom)
    body = nest.bodies[0]
    is_carried = body.runs == "loop" and position < len(body.carries)
    if is_carried:
        parts: list[Node | None] = [_of_inner_carry(scope, nest, position, axes)]
    else:
        outs = [(each, each.jaxpr.outvars[position]) for each in nest.scopes]
        parts = [None if each.is_zero(out) else planned(each, out, axes) for each, out in outs]
    scope.nests[id(equation)] = nest
    return Inner(nest, parts, body.runs == "loop" and not is_carried, is_carried)


def _of_inner_carry(scope: Scope, nest: NestStates, position: int, axes: Sequence[str]) -> Node:
    """Returns the sum of a value that an inner scan carries, over its iterations as well."""
    (body,), (inner,) = nest.bodies, nest.scopes
    carried = body.carries[position]
    if not scope.is_zero(nest.equation.invars[carried.operand]):
        raise NotJoined("a loop in the body adds to another value than 0")
    places = [i for i, each in enumerate(body.inputs) if each == carried]
    term = term_of(inner, inner.jaxpr.invars[places[0]], inner.jaxpr.outvars[position])
    return planned(inner, term, (*axes, axis_of(inner.depth)))


def totals_of(node: Node | None) -> list[Total]:
    """Returns the operations that add in a node."""
    if node is None:
        return []
    if isinstance(node, Total):
        return [node]
    parts = node.parts.values() if isinstance(node, Linear) else node.parts
    return [total for part in parts for total in totals_of(part)]


#: A variable or a literal.
Atom: TypeAlias = Any
#: The greatest number of loops around a body.
_DEPTH = 16


def axis_of(depth: int) -> str:
    """Returns the name that the iterations of a loop have among the axes of a mesh.

    ``depth`` is how many loops are around the body, this one included.
    """
    return f"samebits iterations {depth}"


#: The parts of a batch that ``impl.Accumulator`` gets, as an axis of a mesh.
PARTS = axis_of(0)


def flow_of_loops() -> tuple[Flow, list[str]]:
    """Returns what follows shardings along iterations, and the names of loops, the outermost first.

    Flow needs the number of devices along an axis; the rules ask only whether there are several.
    """
    names = [axis_of(depth) for depth in range(1, _DEPTH)]
    return Flow(dict.fromkeys([PARTS, *names], 2)), names


class Scope:
    """A body in which a carried sum is sought.

    Attributes:
        jaxpr: Its jaxpr. Equations of other primitives replace calls, and primitives that JAX
            writes with other ones.
        flow: Follows the shardings.
        mode: The mode of equations without one of their own.
        depth: How many loops are around it.
        level: The variable for the level that is counted.
        added: Equations of the states of this body, with the states as outputs.
        nests: The loops, conditions and checkpoints that return states, by the identity of their
            equations.
    """

    def __init__(
        self, jaxpr: Any, inputs: Sequence[Sharding], flow: Flow, mode: Mode, depth: int
    ) -> None:
        self.jaxpr = inlined(jaxpr, _written)
        self.flow, self.mode, self.depth = flow, mode, depth
        self.level = jaxprs.variable(jax.core.ShapedArray((), np.dtype(np.int32)))
        self.added: list[Any] = []
        self.nests: dict[int, NestStates] = {}
        self.producers = {out: e for e in self.jaxpr.eqns for out in e.outvars}
        self._shardings: Mapping[Atom, Sharding] | None = None
        self._of_inputs = inputs
        self._inputs = frozenset(self.jaxpr.invars)

    def sharding(self, atom: Atom) -> Sharding:
        """Returns how iterations hold a value."""
        if self._shardings is None:  # Most loops carry no sum, and need no shardings.
            self._shardings = self.flow.shardings(self.jaxpr, self._of_inputs)
        return sharding_of(self._shardings, atom)

    def is_fixed(self, atom: Atom, axes: Sequence[str]) -> bool:
        """Returns whether iterations have the same value, which can be computed after the loop."""
        return not set(self.sharding(atom)) & set(axes)

    def is_portable(self, equation: Any) -> bool:
        """Returns whether the scope of an equation asks for the guarantee ``portable``."""
        own: Mode | None = tags.of(equation)
        return (own or self.mode).portable

    def uses(self, variable: Atom) -> int:
        """Returns how often equations and outputs read a variable."""
        read = [atom for e in self.jaxpr.eqns for atom in e.invars] + [*self.jaxpr.outvars]
        return sum(atom is variable for atom in read)

    def is_zero(self, atom: Atom) -> bool:
        """Returns whether a value is plainly 0."""
        if jaxprs.is_literal(atom):
            return bool(np.all(np.asarray(atom.val) == 0))
        producer = self.producers.get(atom)
        if producer is None or producer.primitive.name not in _KEEPS_ZERO:
            return False
        return self.is_zero(producer.invars[0])

    def is_input(self, atom: Atom) -> bool:
        """Returns whether a value is an input of the body."""
        return not jaxprs.is_literal(atom) and atom in self._inputs


def _written(equation: Any) -> Any:
    """Returns the jaxpr by which JAX writes a primitive for any platform, such as a ragged product.

    Only its own equations say over what the primitive adds.
    """
    if rule_of(equation).by_jax != "written" or len(equation.outvars) != 1:
        return None
    function = rules.function_of(rules.registered(equation.primitive, "cpu")[1])
    if function is None:
        return None
    closed = rules.traced(function, [each.aval for each in equation.invars], equation.params)
    return None if closed is None or closed.consts else jaxprs.opened(closed)


#: Operations that make zeros of a first operand of zeros. ``psum`` may be written by
#: ``device_sums``.
_KEEPS_ZERO = frozenset(
    {"broadcast_in_dim", "convert_element_type", "copy", "psum", "psum_invariant", "pvary"}
    | {"reshape", "samebits_same"}
)


@dataclasses.dataclass(frozen=True)
class Output:
    """A value that a loop, a condition or a checkpoint returns besides its results.

    Attributes:
        body: The position of the body that computes it. Where another branch runs, it is 0.
        inner: The variable in the body.
        out: The variable of the result.
        how: Whether it is a state that a scan carries, a state that a scan stacks, or a factor that
            a scan stacks.
    """

    body: int
    inner: Atom
    out: Atom
    how: Literal["carried", "state", "factor"]


@dataclasses.dataclass(eq=False)
class NestStates:
    """A loop, a condition or a checkpoint that returns states of sums."""

    equation: Any
    bodies: Sequence[Body]
    scopes: Sequence[Scope]
    outputs: list[Output] = dataclasses.field(default_factory=list)


def of_nest(scope: Scope, equation: Any) -> NestStates | None:
    """Returns the bodies of an equation, with scopes; None if no state can leave them."""
    known = scope.nests.get(id(equation))
    if known is not None:
        return known
    nest = scope.flow.nest(equation, [scope.sharding(atom) for atom in equation.invars])
    if nest is None or any(body.is_test or body.platforms for body in nest.bodies):
        return None
    if any(getattr(body.jaxpr, "consts", ()) for body in nest.bodies):
        return None
    scopes = []
    for body, inputs in zip(nest.bodies, nest.inputs, strict=True):
        depth = scope.depth + (body.runs == "loop")
        of_inputs = [
            _in_loop(each, sharding, scope.flow, depth)
            for each, sharding in zip(body.inputs, inputs, strict=True)
        ]
        own: Mode | None = tags.of(equation)
        scopes.append(Scope(body.opened, of_inputs, scope.flow, own or scope.mode, depth))
    return NestStates(equation, nest.bodies, scopes)


def _in_loop(each: Any, sharding: Sharding, flow: Flow, depth: int) -> Sharding:
    """Returns the sharding of an input of a body, along the iterations of its loop as well."""
    if isinstance(each, Slice):
        return {**sharding, axis_of(depth): 0}
    if isinstance(each, Carry):
        # A carried value has no value after the loop that a factor could have.
        return dict.fromkeys([*flow.sizes, *sharding], UNKNOWN)
    return sharding
