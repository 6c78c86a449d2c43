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

The two runs go through their equations side by side, and each equation is compiled alone. A loop is
one equation. If its outputs differ, its iterations are run one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl import _jax
from impl._jax import jaxprs
from impl._reading.control_flow import CHOICE, Body
from impl._reading.tracing import is_array
from impl.programs._differences.comparison import Difference, at_mark
from impl.programs._differences.first_difference import Program, Progress
from impl.programs._differences.marks import Planner, Values, marked_bodies, nodes_of

#: One thing of the smaller run, and the same of the larger run.
Pair: TypeAlias = Sequence[Any]


def first_change(
    function: Callable[..., Any], number: int, smaller: tuple[Any, ...], larger: tuple[Any, ...]
) -> Difference | None:
    """Returns the first equation that gives other bits in the larger of two runs.

    Equations that the result of ``number``, which differs, does not need are left out. The
    difference has the kind "element", or "program" if the runs have different equations from there
    on. It is None if each element of the smaller run is an element of the larger one.
    """

    def result(*args: Any) -> Any:
        return [leaf for leaf in jax.tree.leaves(function(*args)) if is_array(leaf)][number]

    programs, values = [], []
    with Progress("assert_invariant", shown=False) as progress:
        for args in (smaller, larger):
            program = Program(result, args, {}, None, "the program", {}, progress)
            closed = program.traced()[0]
            programs.append(closed.replace(jaxpr=_jax.without_dead_code(closed.jaxpr)))
            values.append(program.arrays())
    nodes = [Planner("arithmetic", {}).nodes(closed) for closed in programs]
    return _compared(programs, values, nodes, ())[0]


def _compared(
    programs: Pair, arguments: Pair, nodes: Pair, iterations: tuple[int, ...]
) -> tuple[Difference | None, list[Values]]:
    """Runs two jaxprs up to the first difference; returns it, or else the outputs of both."""
    opened = [jaxprs.opened(closed) for closed in programs]
    environments = [
        {**jaxprs.constants(closed), **dict(zip(jaxpr.invars, given, strict=True))}
        for closed, jaxpr, given in zip(programs, opened, arguments, strict=True)
    ]

    def read(atoms: Pair) -> list[Values]:
        return [
            [atom.val if jaxprs.is_literal(atom) else known[atom] for atom in of_run]
            for of_run, known in zip(atoms, environments, strict=True)
        ]

    steps = zip(*(jaxpr.eqns for jaxpr in opened), *(each[1:] for each in nodes), strict=False)
    for *equations, one, other in steps:
        if one.mark.primitive != other.mark.primitive:
            return at_mark("program", one.mark, "arithmetic", iterations), []
        operands = read([equation.invars for equation in equations])
        bodies = [marked_bodies(equation) for equation in equations]
        if equations[0].primitive.name == "shard_map":
            bodies = [[], []]
        if bodies[0] and bodies[0][0].runs == "once":
            inside = [each[0].jaxpr for each in bodies]
            with equations[0].ctx.manager:  # Equations within may have no tag of their own.
                found, outputs = _compared(inside, operands, [one.inner, other.inner], iterations)
            if found is not None:
                return found, []
        else:
            outputs = list(map(_jax.evaluated, equations, operands))
            pairs = enumerate(zip(*outputs, strict=True)) if one.marked or bodies[0] else ()
            which = [number for number, each in pairs if _differ(*each)]
            if which:
                inner = _inside(bodies, operands, [one, other], iterations) if bodies[0] else None
                named = at_mark("element", one.mark, "arithmetic", iterations, which)
                return inner or named, []
        for equation, known, values in zip(equations, environments, outputs, strict=True):
            known |= dict(zip(equation.outvars, values, strict=True))
    return None, read([jaxpr.outvars for jaxpr in opened])


def _inside(
    bodies: Pair, operands: Pair, nodes: Pair, iterations: tuple[int, ...]
) -> Difference | None:
    """Returns the first difference inside a loop or a condition; None if it is not found there."""
    groups = [nodes_of(*each) for each in zip(bodies, nodes, strict=True)]

    def run(number: int, arguments: Pair, at: tuple[int, ...]) -> Any:
        inside = [several[number].jaxpr for several in bodies]
        return _compared(inside, arguments, [group[number] for group in groups], at)

    first: list[Body] = [several[0] for several in bodies]
    if first[0].runs == "branch":
        chosen = {int(values[CHOICE]) for values in operands}
        if len(chosen) > 1:
            return None
        (number,) = chosen
        given = [several[number].arguments(v) for several, v in zip(bodies, operands, strict=True)]
        difference: Difference | None = run(number, given, iterations)[0]
        return difference
    lengths = [body.length for body in first if body.length is not None]
    if not lengths or (first[0].reverse and lengths[0] != lengths[1]):
        return None  # A ``while``, or iterations that do not correspond.
    sides = list(zip(first, operands, strict=True))
    carries = [[values[each.operand] for each in body.carries] for body, values in sides]
    for number in range(min(lengths)):
        at = [length - 1 - number if first[0].reverse else number for length in lengths]
        slices = [
            [values[each.operand][index] for each in body.slices]
            for (body, values), index in zip(sides, at, strict=True)
        ]
        given = [
            body.arguments(values, carry, of_side)
            for (body, values), carry, of_side in zip(sides, carries, slices, strict=True)
        ]
        difference, outputs = run(0, given, (*iterations, number))
        if difference is not None:
            return difference
        carries = [of_run[: len(carries[0])] for of_run in outputs]
    return None


def _differ(smaller: Any, larger: Any) -> bool:
    """Returns whether an element of an array of floats is not in another array."""
    if not jnp.issubdtype(jnp.result_type(smaller), jnp.inexact):
        return False  # An index or a count may change with the length.
    have, need = (Counter(_words(value).tolist()) for value in (larger, smaller))
    return not need <= have


def _words(array: Any) -> np.ndarray[Any, Any]:
    """Returns the bits of each number of an array; a complex number has two."""
    array = np.ascontiguousarray(array).reshape(-1)
    size = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    words: np.ndarray[Any, Any] = array.view(f"u{size}")
    return words
