"""Follows shardings through the body of a ``shard_map``: an abstract interpretation.

``Flow.shardings`` computes how devices hold each variable of a jaxpr, from how they hold its
inputs: it goes through the equations in order, and takes for each the rule of its primitive. In a
loop, a carried value has a sharding that holds before and after each iteration: the least fixed
point, which is reached because each axis of the mesh goes from replicated to one part and from
there to unknown. In ::

    { lambda ; x:f32[2,4]. let      # inputs: x {"d": 0}
        y:f32[2,4] = mul x x        # {"d": 0}
        s:f32[4] = reduce_sum y     # {"d": TERM}, along axis 0
        t:f32[4] = psum s           # {}, replicated
      in (t,) }

the ``psum`` over ``d`` gets terms of a sum, which are made from a value that is sharded.

``having_terms`` finds the operands to which a sum over devices may move. ``sum(f(x)) == f(sum(x))``
holds for numbers where ``f`` is linear, and for floats where ``f`` also rounds as it does on one
device. ``Rule.linear`` in the record of a primitive names the operands.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp

from impl._jax import jaxprs
from impl._portable.device_sums.shardings import (
    TERM,
    Part,
    Sharding,
    merged,
    of_unknown_operation,
    unknown,
    with_dimension,
    without_dimension,
)
from impl._portable.rule import rule_of
from impl._reading import control_flow
from impl._reading.control_flow import Body


@dataclasses.dataclass(frozen=True)
class Nest:
    """The bodies of a loop, a condition or a checkpoint, with shardings.

    Attributes:
        bodies: The bodies.
        inputs: The shardings of the inputs of each.
        choice: The sharding of the value that decides which body runs, or how often. Where it is
            not replicated, devices may run different bodies.
    """

    bodies: Sequence[Body]
    inputs: Sequence[Sequence[Sharding]]
    choice: Sharding


@dataclasses.dataclass(frozen=True)
class Flow:
    """Follows shardings through jaxprs, on mesh axes of these sizes."""

    sizes: Mapping[str, int]

    def shardings(self, jaxpr: Any, inputs: Sequence[Sharding]) -> dict[Any, Sharding]:
        """Returns the sharding of each variable of a jaxpr."""
        known: dict[Any, Sharding] = dict(zip(jaxpr.invars, inputs, strict=True))
        for equation in jaxpr.eqns:
            operands = [sharding_of(known, atom) for atom in equation.invars]
            known.update(zip(equation.outvars, self._results(equation, operands), strict=True))
        return known

    def nest(self, equation: Any, operands: Sequence[Sharding]) -> Nest | None:
        """Returns the bodies of an equation; None if it has none that are followed.

        A call is not followed: ``inlined`` has written out all calls but calls with constants,
        effects or shardings of their own.

        Args:
            equation: The equation.
            operands: The shardings of its operands.
        """
        name = str(equation.primitive.name)
        if name in control_flow.WRITTEN_OUT or not control_flow.is_writable(equation):
            return None
        bodies = control_flow.bodies(equation)
        if any(None in body.inputs for body in bodies):
            return None
        carry = self._stable_carry(bodies[-1], operands)
        choice: Sharding = {}
        if bodies[0].runs == "branch":
            choice = operands[control_flow.CHOICE]
        elif bodies[0].is_test:
            (choice,) = self._outputs(bodies[0], _inputs(bodies[0], operands, carry))
            # Devices may stop at different iterations.
            carry = [merged(each, unknown(choice)) for each in carry]
        return Nest(bodies, [_inputs(body, operands, carry) for body in bodies], choice)

    def _results(self, equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
        """Returns the shardings of the outputs of an equation."""
        rule = rule_of(equation).sharding
        if rule is not None:
            return rule(equation, operands)
        nest = self.nest(equation, operands)
        if nest is not None:
            return self._results_of_nest(nest, operands)
        named = jaxprs.named_axes(equation)
        read = frozenset(_mesh_axes(equation.params.values(), self.sizes))
        changed = unknown(self.sizes if named is None else (named | read) & self.sizes.keys())
        return [
            {**of_unknown_operation(out, equation, operands), **changed} for out in equation.outvars
        ]

    def _results_of_nest(self, nest: Nest, operands: Sequence[Sharding]) -> list[Sharding]:
        """Returns the shardings of the outputs of an equation with bodies."""
        several = [
            _results_of_body(body, self._outputs(body, inputs), operands)
            for body, inputs in zip(nest.bodies, nest.inputs, strict=True)
            if not body.is_test
        ]
        return [
            merged(functools.reduce(merged, each), unknown(nest.choice))
            for each in zip(*several, strict=True)
        ]

    def _outputs(self, body: Body, inputs: Sequence[Sharding]) -> list[Sharding]:
        """Returns the shardings of the outputs of a body that runs once."""
        jaxpr = body.opened
        known = self.shardings(jaxpr, inputs)
        return [sharding_of(known, atom) for atom in jaxpr.outvars]

    def _stable_carry(self, body: Body, operands: Sequence[Sharding]) -> list[Sharding]:
        """Returns the shardings of carried values before and after each iteration of a loop."""
        carry = [operands[each.operand] for each in body.carries]
        while carry:
            outputs = self._outputs(body, _inputs(body, operands, carry))
            after = [merged(*pair) for pair in zip(carry, outputs, strict=False)]
            if after == carry:
                break
            carry = after
        return carry


def sharding_of(known: Mapping[Any, Sharding], atom: Any) -> Sharding:
    """Returns the sharding of an operand; a literal is replicated."""
    return {} if jaxprs.is_literal(atom) else known.get(atom, {})


def _inputs(body: Body, operands: Sequence[Sharding], carry: Sequence[Sharding]) -> list[Sharding]:
    """Returns the shardings of the inputs of a body."""
    slices = [without_dimension(operands[each.operand], 0) for each in body.slices]
    return body.arguments(operands, carry, slices)


def _results_of_body(
    body: Body, outputs: Sequence[Sharding], operands: Sequence[Sharding]
) -> list[Sharding]:
    """Returns the shardings of the outputs of an equation with one body."""
    if body.runs != "loop":
        return list(outputs)
    initial = [operands[each.operand] for each in body.carries]
    carried = [merged(*pair) for pair in zip(initial, outputs, strict=False)]
    return [*carried, *(with_dimension(each, 0) for each in outputs[len(carried) :])]


def _mesh_axes(values: Iterable[Any], axes: Mapping[str, int]) -> list[str]:
    """Returns the mesh axes that the parameters of an equation name."""
    found: list[str] = []
    for value in values:
        if isinstance(value, str):
            found += [value] if value in axes else []
        elif isinstance(value, (tuple, list, frozenset, set)):
            found += _mesh_axes(value, axes)
    return found


#: An operand of an equation: a variable or a literal.
Atom: TypeAlias = Any


def linear_in(equation: Any, varying: Sequence[int]) -> tuple[int, ...]:
    """Returns the operands in which an equation is jointly linear.

    ``varying`` are the operands that are not replicated. A product is linear in either operand.
    """
    linear = rule_of(equation).linear
    if linear == "each":
        return ()
    if linear == "either":
        return tuple(varying) if len(varying) == 1 else ()
    if isinstance(linear, slice):
        return tuple(range(len(equation.invars)))[linear]
    return linear


def passed(equation: Any, is_replicated: Callable[[Atom], bool]) -> tuple[int, ...]:
    """Returns the operands to which a sum of an equation's results moves; none if it stays.

    All other operands have to be replicated over the devices of the sum: a factor that differs
    between devices stays inside of the sum.
    """
    atoms = equation.invars
    operands = linear_in(equation, [i for i, atom in enumerate(atoms) if not is_replicated(atom)])
    fixed = [atom for i, atom in enumerate(atoms) if i not in operands]
    is_number = all(jnp.issubdtype(atoms[i].aval.dtype, jnp.number) for i in operands)
    return operands if is_number and all(map(is_replicated, fixed)) else ()


def adds_none(equation: Any) -> bool:
    """Returns whether an equation is a sum along axes of length 1."""
    shape, axes = equation.invars[0].aval.shape, equation.params.get("axes")
    return axes is not None and all(shape[axis] == 1 for axis in axes)


def _ends_broadcast(atom: Atom, producers: Mapping[Atom, Any], depth: int = 8) -> bool:
    """Returns whether an array has the axes of length 1 that the transpose of a broadcast keeps.

    ``x * g`` with ``x:f32[8,17,4]`` and ``g:f32[4]`` gives the gradient of ``g`` by two sums::

        a:f32[4] = reduce_sum[axes=(0, 1)] _     b:f32[1,1,4] = reshape a
        c:f32[4] = reduce_sum[axes=(0, 1)] b

    With ``x:f32[1,17,4]``, the first sum has the axis 1 alone, and the last one adds the row. A
    factor of ``g`` after its broadcast stands between the two sums.
    """
    equation = None if jaxprs.is_literal(atom) else producers.get(atom)
    equation = getattr(equation, "equation", equation)  # Or the equation of a nest.
    if equation is None or depth == 0:
        return False
    atoms = equation.invars
    if equation.primitive.name == "reshape":
        before = None if jaxprs.is_literal(atoms[0]) else producers.get(atoms[0])
        before = getattr(before, "equation", before)
        return before is not None and before.primitive.name == "reduce_sum"
    same = [i for i, each in enumerate(atoms) if each.aval.shape == atom.aval.shape]
    found = [i for i in same if _ends_broadcast(atoms[i], producers, depth - 1)]
    return bool(found) and linear_in(equation, found) == (*found,)


def having_terms(
    equation: Any, shardings: Sequence[Sharding], axes: Sequence[str], producers: Mapping[Atom, Any]
) -> dict[tuple[int, ...], tuple[str, ...]]:
    """Returns the operands to which a sum over devices moves past an operation that adds elements.

    With them are the mesh axes along which it moves on. The operands have to be terms of the sum
    already. If they are sharded instead, the devices' elements are added by the operation itself,
    so the sum ends there. A sum along an axis of length 1 adds no two elements, so it lets each sum
    pass, unless devices have the axis: one row each. It lets that sum pass too where
    ``_ends_broadcast``: with more rows, JAX's own sum has the axis.
    """
    is_of_one = adds_none(equation)
    ends_broadcast = is_of_one and _ends_broadcast(equation.invars[0], producers)

    def passes(part: Part) -> bool:
        shared = part in equation.params.get("axes", ())
        return part is TERM or (is_of_one and (not shared or ends_broadcast))

    result: dict[tuple[int, ...], tuple[str, ...]] = {}
    for axis in axes:
        varying = [i for i, sharding in enumerate(shardings) if axis in sharding]
        linear = linear_in(equation, varying)
        if all(i in linear and passes(shardings[i][axis]) for i in varying):
            result[linear] = (*result.get(linear, ()), axis)
    return result
