"""What each device of a ``shard_map`` has of a value: all of it, a cut, or one term of a sum."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from impl._core import jax_internals
from impl._core.jax_internals import jaxprs
from impl._portable.device_sums.states import OTHER, RULES, TERM, State, elementwise


@dataclasses.dataclass(frozen=True)
class Flow:
    """Follows states through jaxprs.

    Attributes:
        axes: The mesh axes of the ``shard_map``.
    """

    axes: frozenset[str]

    def states(self, jaxpr: Any, inputs: Sequence[State]) -> dict[Any, State]:
        """Returns the state of each variable of a jaxpr.

        Args:
            jaxpr: The jaxpr, without constants.
            inputs: The states of its inputs.
        """
        found: dict[Any, State] = dict(zip(jaxpr.invars, inputs, strict=True))
        for equation in jaxpr.eqns:
            operands = [state_of(found, atom) for atom in equation.invars]
            found.update(zip(equation.outvars, self.outputs(equation, operands), strict=True))
        return found

    def outputs(self, equation: Any, operands: Sequence[State]) -> list[State]:
        """Returns the states of the outputs of an equation."""
        name = str(equation.primitive.name)
        if name in RULES:
            return RULES[name](equation, operands)
        bodies = self.bodies(equation, operands)
        if bodies:
            ends = [self._ends(body, inputs) for body, inputs in bodies]
            return _OF_BODIES[name](equation, operands, ends)
        named = jaxprs.named_axes(equation)
        local = frozenset(_named(equation.params.values(), self.axes))
        others = dict.fromkeys(self.axes if named is None else (named | local) & self.axes, OTHER)
        return [{**elementwise(out, equation, operands), **others} for out in equation.outvars]

    def bodies(self, equation: Any, operands: Sequence[State]) -> list[tuple[Any, list[State]]]:
        """Returns the jaxprs of an equation that this module knows, with the states of inputs."""
        params, name = equation.params, str(equation.primitive.name)
        if name in ("remat2", "remat_opt") and "jaxpr" in params:
            return [(jaxprs.opened(params["jaxpr"]), list(operands))]
        if name == "cond":
            return [(jaxprs.opened(each), list(operands[1:])) for each in params["branches"]]
        if name == "scan":
            body = jaxprs.opened(params["jaxpr"])
            first, carried = _scan_sizes(params)
            rest = [_without_first(state) for state in operands[first + carried :]]
            fixed = operands[:first]
            carry = self._stable(body, fixed, operands[first : first + carried], rest)
            return [(body, [*fixed, *carry, *rest])]
        if name == "while":
            of_test, of_body = params["cond_nconsts"], params["body_nconsts"]
            test, body = (jaxprs.opened(params[k]) for k in ("cond_jaxpr", "body_jaxpr"))
            fixed = operands[of_test : of_test + of_body]
            carry = self._stable(body, fixed, operands[of_test + of_body :], [])
            (stop,) = self._ends(test, [*operands[:of_test], *carry])
            if stop:  # Devices may stop at other times.
                carry = [merged(state, dict.fromkeys(stop, OTHER)) for state in carry]
            return [(test, [*operands[:of_test], *carry]), (body, [*fixed, *carry])]
        return []

    def choice(self, equation: Any, operands: Sequence[State]) -> State:
        """Returns the state of what decides which bodies of an equation run, and how often."""
        name = str(equation.primitive.name)
        if name == "while":
            return self._ends(*self.bodies(equation, operands)[0])[0]
        return operands[0] if name == "cond" else {}

    def _ends(self, body: Any, inputs: Sequence[State]) -> list[State]:
        found = self.states(body, inputs)
        return [state_of(found, atom) for atom in body.outvars]

    def _stable(
        self, body: Any, fixed: Sequence[State], carry: Sequence[State], rest: Sequence[State]
    ) -> list[State]:
        """Returns states of what a loop carries that hold before and after each iteration."""
        states = list(carry)
        while True:
            ends = self._ends(body, [*fixed, *states, *rest])[: len(states)]
            after = [merged(*pair) for pair in zip(states, ends, strict=True)]
            if after == states:
                return states
            states = after


def state_of(found: Mapping[Any, State], atom: Any) -> State:
    """Returns the state of an operand; a value that is written in the program is the same."""
    return {} if jaxprs.is_literal(atom) else found.get(atom, {})


def merged(a: State, b: State) -> State:
    """Returns the state of a value that is one of two."""
    both = {axis: OTHER for axis in a if axis in b and a[axis] != b[axis]}
    return {**a, **b, **both}


def _scan_sizes(params: Mapping[str, Any]) -> tuple[int, int]:
    return jax_internals.scan_constants(params), jax_internals.scan_carried(params)


def _without_first(state: State) -> State:
    return {a: OTHER if d in (0, OTHER) else max(d - 1, TERM) for a, d in state.items()}


def _of_scan(
    equation: Any, operands: Sequence[State], ends: Sequence[Sequence[State]]
) -> list[State]:
    first, carried = _scan_sizes(equation.params)
    carry = [
        merged(*pair)
        for pair in zip(operands[first : first + carried], ends[0][:carried], strict=True)
    ]
    stacked = [{a: d + (d >= 0) for a, d in end.items()} for end in ends[0][carried:]]
    return [*carry, *stacked]


def _of_while(
    equation: Any, operands: Sequence[State], ends: Sequence[Sequence[State]]
) -> list[State]:
    del equation
    (stop,), carried = ends[0], ends[1]
    initial = operands[len(operands) - len(carried) :]
    pairs = zip(initial, carried, strict=True)
    return [merged(merged(*pair), dict.fromkeys(stop, OTHER)) for pair in pairs]


def _of_cond(
    equation: Any, operands: Sequence[State], ends: Sequence[Sequence[State]]
) -> list[State]:
    del equation
    result = list(ends[0])
    for other in ends[1:]:
        result = [merged(*pair) for pair in zip(result, other, strict=True)]
    return [merged(state, dict.fromkeys(operands[0], OTHER)) for state in result]


_OF_BODIES: Mapping[str, Callable[..., list[State]]] = {
    "scan": _of_scan,
    "while": _of_while,
    "cond": _of_cond,
    "remat2": lambda _, __, ends: list(ends[0]),
    "remat_opt": lambda _, __, ends: list(ends[0]),
}


def _named(values: Iterable[Any], axes: frozenset[str]) -> list[str]:
    """Returns the mesh axes among parameters of an equation."""
    found: list[str] = []
    for value in values:
        if isinstance(value, str):
            found += [value] if value in axes else []
        elif isinstance(value, (tuple, list, frozenset, set)):
            found += _named(value, axes)
    return found
