"""Moves sums over devices back through the body of a ``shard_map``, to where their terms arise.

A sum over devices is linear, so it passes what is linear and is not rounded otherwise on one
device: additions, factors that all devices have, moves. It ends at an operation that adds what is
cut over the devices. Both sums become one equation, of ``whole_p``. So a program on n devices has
the bits that it has on one, where n is a power of two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from impl._core import jax_internals
from impl._core.jax_internals import jaxprs, tags
from impl._mode import modes
from impl._mode.modes import Mode
from impl._portable.device_sums import linear
from impl._portable.device_sums.equations import Names, as_whole, part_p, same_p, whole_p
from impl._portable.device_sums.flow import Flow, state_of
from impl._portable.device_sums.linear import Atom
from impl._portable.device_sums.states import TERM, State
from impl._reading.inlining import inlined

_PSUMS = frozenset({"psum", "psum_invariant"})
#: The parameters with the jaxprs of an equation, in the order of ``Flow.bodies``.
_HOLDS: Mapping[str, tuple[str, ...]] = {
    "cond": ("branches",),
    "remat2": ("jaxpr",),
    "remat_opt": ("jaxpr",),
    "scan": ("jaxpr",),
    "while": ("cond_jaxpr", "body_jaxpr"),
}


def rewritten(jaxpr: Any, inputs: Sequence[State], sizes: Mapping[str, int]) -> Any:
    """Returns the body of a ``shard_map`` with sums over devices where their terms arise.

    Args:
        jaxpr: The body.
        inputs: The state of each of its inputs.
        sizes: The size of each mesh axis.
    """
    flow, mode = Flow(frozenset(sizes)), modes.current()
    return _Body(jaxpr, inputs, flow, sizes, mode, in_step=True).jaxpr()


@dataclasses.dataclass(frozen=True)
class _Sum:
    """A sum over devices that moves.

    Attributes:
        axes: The mesh axes.
        like: An equation of such a sum.
    """

    axes: Names
    like: Any

    def over(self, axes: Names) -> _Sum:
        """Returns the sum over other axes."""
        return dataclasses.replace(self, axes=axes)


@dataclasses.dataclass
class _Held:
    """An equation that holds jaxprs, whose bodies may still get more outputs."""

    equation: Any
    bodies: list[_Body]
    carried: int = 0

    def finished(self) -> Any:
        """Returns the equation with the bodies as they are now."""
        params, name = dict(self.equation.params), str(self.equation.primitive.name)
        new = iter([body.jaxpr() for body in self.bodies])
        for held in _HOLDS[name]:
            old = params[held]
            if isinstance(old, tuple):
                params[held] = tuple(jaxprs.reclosed(each, next(new)) for each in old)
            else:
                params[held] = jaxprs.reclosed(old, next(new))
        if name == "scan":
            params = jaxprs.scan_with(
                params,
                params["jaxpr"],
                constants=jax_internals.scan_constants(params),
                carried=self.carried,
                stacked=len(self.equation.outvars) - self.carried,
            )
        return self.equation.replace(params=params)


class _Body:
    """A jaxpr while it is rewritten.

    Args:
        jaxpr: The jaxpr.
        inputs: The state of each of its inputs.
        flow: Follows the states.
        sizes: The size of each mesh axis.
        mode: The mode of equations without one of their own.
        in_step: Whether all devices run it, and equally often.
    """

    def __init__(
        self,
        jaxpr: Any,
        inputs: Sequence[State],
        flow: Flow,
        sizes: Mapping[str, int],
        mode: Mode,
        *,
        in_step: bool,
    ) -> None:
        self._old = inlined(jaxpr)
        self._mode = mode
        self._sizes, self._flow, self._in_step = sizes, flow, in_step
        self._states = flow.states(self._old, inputs)
        self._items: list[Any] = []
        self._made_by: dict[Any, Any] = {}
        self._renamed: dict[Atom, Atom] = {}
        #: The sums that were made, and whether each is joined with sums of devices.
        self._sums: dict[tuple[Atom, Names], tuple[Atom, bool]] = {}
        self.inputs = list(self._old.invars)
        for equation in self._old.eqns:
            self._visit(equation)
        self.outputs = [self._now(atom) for atom in self._old.outvars]

    def jaxpr(self) -> Any:
        """Returns the jaxpr as it is now, without what no output needs."""
        made = [item.finished() if isinstance(item, _Held) else item for item in self._items]
        equations = jaxprs.sorted_equations(made)
        new = self._old.replace(
            invars=list(self.inputs), eqns=equations, outvars=list(self.outputs)
        )
        return jax_internals.without_dead_code(new)

    def sum(self, atom: Atom, over: _Sum) -> tuple[Atom, bool]:
        """Returns the sum of a value over devices, and whether it is joined with their own sums."""
        key = (atom, over.axes)
        if jaxprs.is_literal(atom):
            return self._plain(atom, over), False
        if key not in self._sums:
            self._sums[key] = self._sum(atom, over)
        return self._sums[key]

    def add_carried(self, start: Atom, end: int, over: _Sum, position: int) -> Atom | None:
        """Lets a loop carry the sum of what it carries already, if that is joined.

        Args:
            start: The input with what is carried.
            end: The position of the output.
            over: The sum.
            position: The position of the new input.
        """
        new = self._variable(start, over.axes)
        others, self._sums = self._sums, {(start, over.axes): (new, False)}
        result, joined = self.sum(self.outputs[end], over)
        self._sums = others
        if joined:
            self.inputs.insert(position, new)
        return result if joined else None

    def _now(self, atom: Atom) -> Atom:
        return atom if jaxprs.is_literal(atom) else self._renamed.get(atom, atom)

    def _state(self, atom: Atom) -> State:
        return state_of(self._states, atom)

    def _mode_of(self, equation: Any) -> Mode:
        own: Mode | None = tags.of(equation)
        return own or self._mode

    def _is_same(self, atom: Atom, axes: Names) -> bool:
        return not set(self._state(atom)) & set(axes)

    def _variable(self, old: Atom, axes: Names) -> Atom:
        """Returns a variable like another, for what all devices along some axes have."""
        new = jaxprs.variable(jaxprs.invariant(old.aval, axes))
        self._states[new] = {a: d for a, d in self._state(old).items() if a not in axes}
        return new

    def _add(self, equation: Any) -> None:
        free = self._free_cuts(equation)
        self._items.append(as_whole(equation, equation, (), free) if free else equation)
        self._made_by.update(dict.fromkeys(equation.outvars, equation))

    def _free_cuts(self, equation: Any, added: Sequence[str] = ()) -> Names:
        """Returns the axes that cut free dimensions of the right operand, also of a convolution.

        The scale of a contracted index is that of the whole right operand. Where the left operand
        is the same on all devices, nothing else than a free dimension can be cut, whatever the
        state says: gradients outside of a ``shard_map`` get values whose cuts are not told.
        """
        name = str(equation.primitive.name)
        if name not in ("dot_general", "conv_general_dilated") or not self._in_step:
            return ()
        if not self._mode_of(equation).portable:
            return ()
        numbers = equation.params["dimension_numbers"]
        batch = numbers[1][1] if name == "dot_general" else ()
        lhs, rhs = (self._state(atom) for atom in equation.invars)
        free = (a for a, d in rhs.items() if d != TERM and d not in batch and a not in lhs)
        return tuple(sorted(a for a in free if a not in added and self._sizes[a] > 1))

    def _visit(self, equation: Any) -> None:
        equation = equation.replace(invars=[self._now(atom) for atom in equation.invars])
        name = str(equation.primitive.name)
        if name in _PSUMS:
            new = self._of_psum(equation)
            if new is not None:
                self._renamed[equation.outvars[0]] = new
                return
        states = [self._state(atom) for atom in equation.invars]
        if name == "reduce_scatter" and self._of_scattered(equation):
            return
        held = self._flow.bodies(equation, states)
        if not held or name not in _HOLDS:
            self._add(equation)
            return
        is_fixed = not self._flow.choice(equation, states)
        bodies = [
            _Body(
                *part,
                self._flow,
                self._sizes,
                self._mode_of(equation),
                in_step=self._in_step and is_fixed,
            )
            for part in held
        ]
        carried = jax_internals.scan_carried(equation.params) if name == "scan" else 0
        item = _Held(equation, bodies, carried)
        self._items.append(item)
        self._made_by.update(dict.fromkeys(equation.outvars, item))

    def _of_scattered(self, equation: Any) -> bool:
        """Replaces a sum of which each device gets a part by the sum and its part, if joined."""
        params = equation.params
        names = params["axis_name"]
        names = tuple(names) if isinstance(names, (tuple, list)) else (names,)
        total = self._of_psum(jaxprs.psum_like(equation, names, params["axis_index_groups"]))
        if total is not None:
            part = equation.replace(primitive=part_p, invars=[total], effects=frozenset())
            self._items.append(part)
            self._made_by[part.outvars[0]] = part
        return total is not None

    def _of_psum(self, equation: Any) -> Atom | None:
        """Returns what stands for a sum over devices, or None if it stays as it is."""
        axes, (operand,) = equation.params["axes"], equation.invars
        is_plain = all(isinstance(axis, str) and axis in self._sizes for axis in axes)
        if not is_plain or equation.params.get("axis_index_groups") is not None:
            return None
        if not self._mode_of(equation).portable:
            return None
        if not jnp.issubdtype(operand.aval.dtype, jnp.floating):
            return None
        new, joined = self.sum(operand, _Sum(tuple(axes), equation))
        return new if joined else None

    def _sum(self, atom: Atom, over: _Sum) -> tuple[Atom, bool]:
        state = self._state(atom)
        there = tuple(a for a in over.axes if a in state and self._sizes[a] > 1)
        rest = tuple(a for a in over.axes if a not in there)
        if there:
            new = self._back(atom, over.over(there))
            if new is not None:
                return (self._plain(new, over.over(rest)) if rest else new), True
        return self._plain(atom, over), False

    def _plain(self, atom: Atom, over: _Sum) -> Atom:
        """Returns the sum of a value over devices by an equation of its own."""
        out = self._variable(atom, over.axes)
        params = {**over.like.params, "axes": over.axes}
        self._add(over.like.replace(params=params, invars=[atom], outvars=[out]))
        return out

    def _as_same(self, atom: Atom, over: _Sum) -> Atom:
        if jaxprs.is_literal(atom) or not jaxprs.varying(atom.aval) & set(over.axes):
            return atom
        out = self._variable(atom, over.axes)
        like = over.like.replace(primitive=same_p, params={}, effects=frozenset())
        self._add(like.replace(invars=[atom], outvars=[out]))
        return out

    def _back(self, atom: Atom, over: _Sum) -> Atom | None:
        """Returns the joined sum of a value by sums of what it is made of; None if none is."""
        made = self._made_by.get(atom)
        if made is None:
            return None
        is_held = isinstance(made, _Held)
        if not self._mode_of(made.equation if is_held else made).portable:
            return None
        if is_held:
            return self._out_of(made, atom, over)
        name = str(made.primitive.name)
        if name in linear.ADDING:
            return self._of_adding(made, over)
        if made.primitive is whole_p:
            return self._of_whole(made, atom, over)
        if name in ("pvary", "optimization_barrier"):
            (operand,) = [i for i, o in zip(made.invars, made.outvars, strict=True) if o is atom]
            if jaxprs.is_literal(operand) or not self._has_type_of(operand, atom, over.axes):
                return None
            new, joined = self.sum(operand, over)
            return new if joined else None
        chosen = linear.operands(made, lambda each: self._is_same(each, over.axes))
        return self._again(made, atom, chosen, over) if chosen else None

    def _has_type_of(self, operand: Atom, atom: Atom, axes: Names) -> bool:
        return jaxprs.varying(operand.aval) >= jaxprs.varying(atom.aval) & set(axes)

    def _again(self, made: Any, atom: Atom, chosen: Sequence[int], over: _Sum) -> Atom | None:
        """Returns the result of a linear equation on sums, if one of them is joined or exact."""
        found = {i: self.sum(made.invars[i], over) for i in chosen}
        exact = [jnp.issubdtype(made.invars[i].aval.dtype, jnp.integer) for i in chosen]
        if not any(exact) and not any(joined for _, joined in found.values()):
            return None
        operands = [
            found[i][0] if i in found else self._as_same(operand, over)
            for i, operand in enumerate(made.invars)
        ]
        outs = [self._variable(out, over.axes) for out in made.outvars]
        self._add(made.replace(invars=operands, outvars=outs))
        return outs[made.outvars.index(atom)]

    def _of_adding(self, made: Any, over: _Sum) -> Atom | None:
        """Returns the sum over devices of an operation that adds, both in one.

        Along axes of which its operands have terms already, the sum passes them.
        """
        operands, left = list(made.invars), list(over.axes)
        states = [self._state(each) for each in made.invars]
        for chosen, axes in linear.terms(made, states, over.axes).items():
            found = {i: self.sum(operands[i], over.over(axes)) for i in chosen}
            if any(joined for _, joined in found.values()):
                operands = [
                    found[i][0] if i in found else self._as_same(operand, over.over(axes))
                    for i, operand in enumerate(operands)
                ]
                left = [axis for axis in left if axis not in axes]
        if not left:
            out = self._variable(made.outvars[0], over.axes)
            self._add(made.replace(invars=operands, outvars=[out]))
            return out
        out = self._variable(made.outvars[0], over.axes)
        joined = made.replace(invars=operands, outvars=[out])
        whole = as_whole(joined, over.like, tuple(left), self._free_cuts(joined, left))
        self._items.append(whole)
        self._made_by[out] = whole
        return out

    def _of_whole(self, made: Any, atom: Atom, over: _Sum) -> Atom:
        """Returns the sum over more devices of what is a sum over some."""
        out = self._variable(atom, over.axes)
        params = {**made.params, "axis_names": (*made.params["axis_names"], *over.axes)}
        whole = made.replace(params=params, outvars=[out])
        self._items.append(whole)
        self._made_by[out] = whole
        return out

    def _out_of(self, held: _Held, atom: Atom, over: _Sum) -> Atom | None:
        """Returns the joined sum of an output of an equation that holds jaxprs."""
        equation = held.equation
        name, position = str(equation.primitive.name), equation.outvars.index(atom)
        new = self._variable(atom, over.axes)
        if name == "scan" and position < held.carried:
            return self._out_of_loop(held, position, new, over)
        if name == "cond" and not self._is_same(equation.invars[0], over.axes):
            return None
        if name not in ("scan", "cond", "remat2"):
            return None
        found = [body.sum(body.outputs[position], over) for body in held.bodies]
        if not any(joined for _, joined in found):
            return None
        for body, (result, _) in zip(held.bodies, found, strict=True):
            body.outputs.append(result)
        return self._extended(held, len(equation.outvars), new)

    def _out_of_loop(self, held: _Held, position: int, new: Atom, over: _Sum) -> Atom | None:
        (body,), equation, carried = held.bodies, held.equation, held.carried
        first = jax_internals.scan_constants(equation.params)
        at = first + position
        end = body.add_carried(body.inputs[at], position, over, first + carried)
        if end is None:
            return None
        body.outputs.insert(carried, end)
        start, _ = self.sum(equation.invars[at], over)
        operands = list(equation.invars)
        operands.insert(first + carried, start)
        held.equation, held.carried = equation.replace(invars=operands), carried + 1
        return self._extended(held, carried, new)

    def _extended(self, held: _Held, position: int, new: Atom) -> Atom:
        outs = list(held.equation.outvars)
        outs.insert(position, new)
        held.equation = held.equation.replace(outvars=outs)
        self._made_by[new] = held
        return new
