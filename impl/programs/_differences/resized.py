"""Finds the first equation that gives other bits when a program gets longer or shorter arguments.

The arrays of the two runs have different shapes, so no digest of a whole array can be compared. But
each element of the run with fewer rows is an element of the run with more rows, along any axis and
in any order: rows that are merged, sorted or transposed are the same elements. So an equation is
named if the bits of an element of the smaller run are not among the bits of the larger run.
For example::

    x - x.mean(0)           with rows 1 3 alone     with rows 1 3 5 7
    reduce_sum              4                       16        4 is not among 16: named
    div                     2                       4
    sub                     -1 1                    -3 -1 1 3

Each program is compiled once, and returns the outputs of all equations that can round. A loop is
one equation. If its outputs differ, its body is compiled and run one iteration at a time.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import jax_internals
from impl._core.jax_internals import jaxprs
from impl._reading.control_flow import CHOICE, Body
from impl._reading.tracing import is_array
from impl._reading.walk import without_calls
from impl.programs._differences.comparison import Difference, Kind
from impl.programs._differences.digests import Values, behind_barrier
from impl.programs._differences.marked import Program
from impl.programs._differences.marks import Node, Planner, marked_bodies
from impl.programs._differences.progress import Progress


@dataclasses.dataclass(frozen=True)
class _Step:
    """The values of an equation in one run.

    Attributes:
        node: The description of the equation.
        bodies: The jaxprs that it holds.
        operands: The values of its operands, if it holds jaxprs.
        outputs: The values of its outputs.
    """

    node: Node
    bodies: Sequence[Body]
    operands: Values
    outputs: Values


def first_change(
    function: Callable[..., Any],
    number: int,
    smaller: tuple[Any, ...],
    larger: tuple[Any, ...],
) -> Difference | None:
    """Returns the first equation that gives other bits in the larger of two runs.

    Args:
        function: The program.
        number: The number of the result that differs. Equations that it does not need are left out.
        smaller: The arguments of a run whose elements the other run computes too.
        larger: The arguments of the other run.

    Returns:
        A difference of the kind "element", or "program" if the runs have different equations from
        there on. None if each element of the smaller run is an element of the larger one.
    """

    def result(*args: Any) -> Any:
        return [leaf for leaf in jax.tree.leaves(function(*args)) if is_array(leaf)][number]

    runs = []
    with Progress("assert_invariant", shown=False) as progress:
        for args in (smaller, larger):
            program = Program(result, args, {}, None, "the program", {}, progress)
            closed = program.traced()[0]
            closed = closed.replace(jaxpr=jax_internals.without_dead_code(closed.jaxpr))
            runs.append(_Run(closed).steps(program.arrays())[1])
    return _first(runs[0], runs[1], ())


class _Run:
    """A jaxpr that is compiled to return the values of its equations.

    Args:
        closed: The jaxpr with its constants.
        nodes: Its nodes.
    """

    def __init__(self, closed: Any, nodes: Sequence[Node] | None = None) -> None:
        nodes = Planner("arithmetic", {}).nodes(closed) if nodes is None else nodes
        self._found: list[tuple[Node, Sequence[Body]]] = []

        def run(*arguments: Any) -> tuple[Values, list[tuple[Values, Values]]]:
            steps: list[_Step] = []
            outputs = _evaluated(closed, arguments, nodes, steps)
            self._found = [(step.node, step.bodies) for step in steps]
            return outputs, [(step.operands, step.outputs) for step in steps]

        self._run = jax.jit(run)

    def steps(self, arguments: Values) -> tuple[Values, list[_Step]]:
        """Returns the outputs of a run, and the values of the equations that can round."""
        outputs, values = self._run(*arguments)
        pairs = zip(self._found, values, strict=True)
        return outputs, [_Step(*found, *of_run) for found, of_run in pairs]


def _evaluated(
    closed: Any, arguments: Sequence[Any], nodes: Sequence[Node], steps: list[_Step]
) -> Values:
    """Returns the outputs of a jaxpr in a trace of JAX, and adds the steps of its equations."""
    jaxpr = jaxprs.opened(closed)
    environment = {**jaxprs.constants(closed), **dict(zip(jaxpr.invars, arguments, strict=True))}

    def read(atom: Any) -> Any:
        return atom.val if jaxprs.is_literal(atom) else environment[atom]

    for equation, node in zip(jaxpr.eqns, nodes[1:], strict=True):
        operands, bodies = [read(operand) for operand in equation.invars], marked_bodies(equation)
        is_unit = equation.primitive.name == "shard_map" or not bodies
        with equation.ctx.manager:
            if not is_unit and bodies[0].runs == "once":
                outputs = _evaluated(bodies[0].jaxpr, operands, node.inner, steps)
            else:
                outputs = jax_internals.evaluated(equation, operands)
                if node.marked or bodies:
                    outputs = behind_barrier(outputs)
                    inside = [] if is_unit else bodies
                    steps.append(_Step(node, inside, operands if inside else [], outputs))
        environment |= dict(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _first(
    smaller: Sequence[_Step], larger: Sequence[_Step], iterations: tuple[int, ...]
) -> Difference | None:
    """Returns the first difference between the equations of two runs."""
    for one, other in zip(smaller, larger, strict=False):
        if one.node.mark.primitive != other.node.mark.primitive:
            return _difference("program", one.node, iterations)
        differs = [not _includes(*pair) for pair in zip(other.outputs, one.outputs, strict=True)]
        if any(differs):
            inner = _inside(one, other, iterations) if one.bodies else None
            which = [i for i, each in enumerate(differs) if each]
            return inner or _difference("element", one.node, iterations, which)
    return None


def _inside(one: _Step, other: _Step, iterations: tuple[int, ...]) -> Difference | None:
    """Returns the first difference inside a loop or a condition; None if it is not found there."""
    if one.bodies[0].runs == "branch":
        chosen = [int(step.operands[CHOICE]) for step in (one, other)]
        if chosen[0] != chosen[1]:
            return None
        sides = [_iterations(step, step.bodies[chosen[0]], 1) for step in (one, other)]
        return _first(sides[0][0], sides[1][0], iterations)
    lengths = [step.bodies[0].length for step in (one, other)]
    if None in lengths or (one.bodies[0].reverse and lengths[0] != lengths[1]):
        return None  # A ``while``, or iterations that do not correspond.
    count = min(length for length in lengths if length is not None)
    sides = [_iterations(step, step.bodies[0], count) for step in (one, other)]
    for number, pair in enumerate(zip(*sides, strict=True)):
        difference = _first(pair[0], pair[1], (*iterations, number))
        if difference is not None:
            return difference
    return None


def _iterations(step: _Step, body: Body, count: int) -> list[list[_Step]]:
    """Returns the steps of the first iterations of a body."""
    start = 0
    for earlier in step.bodies[: step.bodies.index(body)]:
        start += 1 + len(earlier.opened.eqns)
    nodes = step.node.inner[start : start + 1 + len(body.opened.eqns)]
    run, carry, found = _Run(body.jaxpr, nodes), [], []
    carry = [step.operands[each.operand] for each in body.carries]
    for number in range(count):
        index = (body.length or 1) - 1 - number if body.reverse else number
        slices = [step.operands[each.operand][index] for each in body.slices]
        outputs, steps = run.steps(body.arguments(step.operands, carry, slices))
        carry = outputs[: len(carry)]
        found.append(steps)
    return found


def _includes(larger: Any, smaller: Any) -> bool:
    """Returns whether the elements of an array of floats are among the elements of another one."""
    if not jnp.issubdtype(jnp.result_type(smaller), jnp.inexact):
        return True  # An index or a count may change with the length.
    have, need = (Counter(_words(value).tolist()) for value in (larger, smaller))
    return need <= have


def _words(array: Any) -> np.ndarray[Any, Any]:
    """Returns the bits of each number of an array; a complex number has two."""
    array = np.ascontiguousarray(array).reshape(-1)
    size = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    words: np.ndarray[Any, Any] = array.view(f"u{size}")
    return words


def _difference(
    kind: Kind, node: Node, iterations: tuple[int, ...], which: Sequence[int] = ()
) -> Difference:
    mark = node.mark
    outputs = tuple(mark.outputs[i] for i in which)
    return Difference(
        *(kind, mark.primitive, mark.source, mark.library, without_calls(mark.inside)),
        *(iterations, True, mark.shapes, outputs, "arithmetic"),
    )
