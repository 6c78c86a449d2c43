"""A body in which a carried sum is sought: which equation computes a value, and how it varies.

The iterations of a ``scan`` are like devices along an axis of a mesh: each runs the same equations
on its own slices. So ``device_sums.flow`` follows shardings along the iterations too. In ::

    { lambda ; w:f32[4,3] c:f32[4,3] x:f32[8,4] y:f32[8,3]. let     # c is carried, x, y are slices
        z:f32[3,4] = dot_general[(([0], [0]), ([], []))] y x        # a contraction of dimension 0
        t:f32[4,3] = transpose z
        d:f32[4,3] = add c t
      in (d,) }

``w`` is the same in each iteration, ``x`` and ``y`` are sharded along dimension 0, and ``z`` is a
term of a sum over the iterations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import jax
import numpy as np

from impl._jax import jaxprs, rules, tags
from impl._mode.modes import Mode
from impl._portable.device_sums.flow import Flow, sharding_of
from impl._portable.device_sums.shardings import UNKNOWN, Sharding
from impl._portable.rule import rule_of
from impl._reading.control_flow import Body, Carry, Slice, inlined

#: A variable or a literal.
Atom: TypeAlias = Any
#: The greatest number of loops around a body.
_DEPTH = 16


def axis_of(depth: int) -> str:
    """Returns the name that the iterations of a loop have among the axes of a mesh.

    Args:
        depth: How many loops are around the body, this one included.
    """
    return f"samebits iterations {depth}"


def flow_of_loops() -> tuple[Flow, list[str]]:
    """Returns what follows shardings along iterations, and the names of loops, the outermost first.

    Flow needs the number of devices along an axis; the rules ask only whether there are several.
    """
    names = [axis_of(depth) for depth in range(1, _DEPTH)]
    return Flow(dict.fromkeys(names, 2)), names


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
    """A loop, a condition or a checkpoint that returns states of sums.

    Attributes:
        equation: Its equation.
        bodies: Its bodies.
        scopes: The scope of each.
        outputs: The values that it returns besides its results.
    """

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
