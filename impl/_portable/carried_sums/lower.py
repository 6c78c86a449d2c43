"""Lowers a ``scan`` whose carried sums are joined: one sum of all iterations, rounded once.

The scan carries states of sums (``write``), and the results are made from their rounded totals
(``Finish``). Where an element is in doubt, the scan runs again, for one level of all terms after
the other. The body is in the program once: a loop around the scan takes one step if no element is
in doubt, which is nearly always. Otherwise it takes steps until all are decided: some 6 for
float32, and some 35 for float64::

    while in doubt, or the first time:                          level = -1, 0, 1, 2, ...
        states = scan(level)
        level -1:   words = rounded(states)                     1 element of 12 is in doubt
        level 0...: totals = folded(totals, states)             words that lower levels leave
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import mlir

from impl import _jax
from impl._core.shard_axes import vary
from impl._exact.unrounded import operations, states
from impl._jax import Primitive, jaxprs, lowering
from impl._mode import modes
from impl._mode.modes import Mode
from impl._portable.carried_sums import plan, stacked, steps, write
from impl._portable.carried_sums.plan import (
    Atom,
    Inner,
    Linear,
    Node,
    NoSum,
    NotJoined,
    Scope,
    Total,
    flow_of_loops,
    totals_of,
)
from impl._portable.carried_sums.write import Factors
from impl._portable.device_sums.shardings import UNKNOWN, Sharding
from impl._portable.rule import rule_of
from impl._reading import control_flow
from impl._reading.control_flow import Slice
from impl._soft_float64 import engines

#: The greatest number of sums in an array that is counted together with others.
_SMALL = 1 << 14


@dataclasses.dataclass(frozen=True)
class Carried:
    """A float that a ``scan`` carries, with the plan of its sum, or why it is not joined.

    It is a sum if it adds terms, and nothing else in the body reads it.
    """

    position: int
    node: Node | None = None
    reason: str | None = None
    is_sum: bool = False


def carried_sums(params: Mapping[str, Any], mode: Mode) -> tuple[Scope | None, list[Carried]]:
    """Returns the floats that a ``scan`` carries, with the plans of their sums.

    The mode is the one of equations without one of their own.
    """
    closed = params["jaxpr"]
    first, number = control_flow.counts_of_scan(params)
    jaxpr = jaxprs.opened(closed)
    avals = [each.aval for each in jaxpr.invars[first : first + number]]
    floats = [i for i, aval in enumerate(avals) if str(aval.dtype) in operations.DTYPES]
    reason = _unsuitable(closed, params)
    if not floats or reason is not None:
        return None, [Carried(i, reason=reason) for i in floats]
    flow, names = flow_of_loops()
    inputs: list[Sharding] = [
        *({} for _ in range(first)),
        *(dict.fromkeys(names, UNKNOWN) for _ in range(number)),
        *({names[0]: 0} for _ in jaxpr.invars[first + number :]),
    ]
    scope = Scope(jaxpr, inputs, flow, mode, 1)
    found = []
    for i in floats:
        variable, out = scope.jaxpr.invars[first + i], scope.jaxpr.outvars[i]
        try:
            term = plan.term_of(scope, variable, out)
            found.append(Carried(i, plan.planned(scope, term, names[:1]), is_sum=True))
        except NotJoined as why:
            found.append(Carried(i, reason=str(why), is_sum=not isinstance(why, NoSum)))
    return scope, found


def _unsuitable(closed: Any, params: Mapping[str, Any]) -> str | None:
    """Returns why no carried sum of a scan can be joined."""
    if params["length"] == 1:
        return "the loop has one iteration"
    if getattr(closed, "consts", ()):
        return "the body has constants"
    if jaxprs.named_axes(jaxprs.opened(closed)) is None:
        return "the body has an effect, which a second count would repeat"
    avals = [each.aval for each in jaxprs.opened(closed).outvars]
    if any(not isinstance(getattr(a, "dtype", None), np.dtype) for a in avals):
        return "the body returns random keys"
    return None


def joined(primitive: Primitive, context: Any, operands: Sequence[Any], params: Any) -> Any:
    """Lowers an equation of ``scan`` with joined sums; returns None if no carried sum is joined."""
    if context.dim_var_values:
        return None
    scope, found = carried_sums(params, modes.current())
    nodes = {each.position: each.node for each in found if each.node is not None}
    if scope is None or not nodes:
        return None
    are_copied = not engines.reads_in_place(context)
    loop = _Loop.of(primitive, scope, params, nodes, are_copied=are_copied)
    rule = mlir.lower_fun(loop.run, multiple_results=True)
    return rule(context, *operands)


@dataclasses.dataclass(frozen=True, eq=False)
class _Loop:
    """A scan that carries states, and the plans of the results.

    Attributes:
        scan: The primitive ``scan``.
        scope: The body.
        params: The parameters of the scan that carries states.
        nodes: The plan of each joined carry, by its position.
        carried: The operations whose states it carries, with the variables of the states.
        stacked: The operations whose factors it stacks.
        factors: The variables of these factors, without those that the program has stacked.
        kept: The positions of the other carries.
        constants: The number of constants of the scan.
    """

    scan: Primitive
    scope: Scope
    params: Mapping[str, Any]
    nodes: Mapping[int, Node]
    carried: Sequence[tuple[Total, Atom]]
    stacked: Sequence[Factors]
    factors: Sequence[Atom]
    kept: Sequence[int]
    constants: int

    @classmethod
    def of(
        cls,
        scan: Primitive,
        scope: Scope,
        params: Mapping[str, Any],
        nodes: Mapping[int, Node],
        *,
        are_copied: bool,
    ) -> _Loop:
        constants, number = control_flow.counts_of_scan(params)
        kept = [i for i in range(number) if i not in nodes]
        of_states = [pair for node in nodes.values() for pair in write.states(scope, node)]
        candidates = [each for node in nodes.values() for each in write.factors(scope, node)]
        sums = {total: states.sums_of(variable.aval) for total, variable in of_states}
        slices = scope.jaxpr.invars[constants + number :]
        found = stacked.chosen(candidates, sums, params["length"], slices, are_copied=are_copied)
        are_stacked = {each.total for each in found}
        of_states = [pair for pair in of_states if pair[0] not in are_stacked]
        used = dict.fromkeys(a for each in found for a in each.atoms if a is not None)
        factors = [atom for atom in used if atom not in slices]
        new = write.outer(scope, params, kept, [variable for _, variable in of_states], factors)
        return cls(scan, scope, new, nodes, of_states, found, factors, kept, constants)

    def run(self, *operands: jax.Array) -> list[jax.Array]:
        """Returns the results of the scan, from the operands of the old one."""
        number = len(self.kept) + len(self.nodes)
        constants = operands[: self.constants]
        init = operands[self.constants : self.constants + number]
        slices = operands[self.constants + number :]
        starts = [lax.full(variable.aval.shape, 0, np.uint32) for _, variable in self.carried]

        def count(level: jax.Array) -> tuple[list[jax.Array], list[jax.Array], list[jax.Array]]:
            carries = [*(init[i] for i in self.kept), *starts]
            outs = self.scan.bind(level, *constants, *carries, *slices, **self.params)
            first = len(self.kept)
            own = first + len(starts)
            return outs[:first], outs[first:own], outs[own:]

        if self.carried:
            kept, words, ys = self._counted(count)
        else:
            kept, words, ys = count(jnp.asarray(steps.PLAIN))
        ys, factors = ys[: len(ys) - len(self.factors)], ys[len(ys) - len(self.factors) :]
        known = dict(zip(self.scope.jaxpr.invars, operands, strict=True))
        known.update(zip(self.factors, factors, strict=True))
        with lowering.unchecked_varying():  # JAX has checked the body.
            # The rounded sums of the operations whose states the scan carries, and of all others.
            totals = {
                total: steps.bind("values", each, dtype=str(total.aval.dtype))[0]
                for each, (total, _) in zip(words, self.carried, strict=True)
            }
            for each in self.stacked:
                atoms = [a if a is None else known[a] for a in each.atoms]
                totals[each.total] = stacked.total(each, atoms)
            fixed = dict(zip(self.scope.jaxpr.invars, constants, strict=False))
            finish = Finish(self.scope, fixed.__getitem__, totals)
            sums = {i: with_start(init[i], finish.value(n)) for i, n in self.nodes.items()}
        others = iter(kept)
        return [*(sums[i] if i in sums else next(others) for i in range(number)), *ys]

    def _counted(self, count: Any) -> tuple[list[jax.Array], list[jax.Array], list[jax.Array]]:
        """Returns the other carries, the words of the sums, and the stacked results."""
        carries, ys = self._others()
        shapes = [variable.aval.shape for _, variable in self.carried]
        dtypes = [str(total.aval.dtype) for total, _ in self.carried]
        last = max(map(states.levels, dtypes)) - 1
        counts = [states.no_counts(shape[1:]) for shape in shapes]
        axes = tuple(jax.sharding.get_abstract_mesh().manual_axes)

        def step(state: Any) -> Any:
            level, _, _, counts, _ = state
            kept, sums, ys = count(level)
            counts = _after(level, counts, sums, dtypes)
            (is_open,) = steps.bind(
                "in_doubt", *steps.of_each("words", counts, dtypes), axis_names=axes
            )
            goes_on = lax.bitwise_and(is_open, lax.lt(level, np.int32(last)))
            return lax.add(level, np.int32(1)), goes_on, kept, counts, ys

        start = (jnp.asarray(steps.PLAIN), jnp.asarray(True), carries, counts, ys)
        _, _, kept, counts, ys = lax.while_loop(lambda state: state[1], step, start)
        return kept, steps.of_each("words", counts, dtypes), ys

    def _others(self) -> tuple[list[jax.Array], list[jax.Array]]:
        """Returns zeros in place of the other carries, and of the stacked results."""
        out = jaxprs.opened(self.params["jaxpr"]).outvars
        _, count = control_flow.counts_of_scan(self.params)
        carries = [_zeros(each.aval) for each in out[: len(self.kept)]]
        return carries, [_zeros(each.aval, self.params["length"]) for each in out[count:]]


def _after(
    level: jax.Array,
    counts: Sequence[jax.Array],
    sums: Sequence[jax.Array],
    dtypes: Sequence[str],
) -> list[jax.Array]:
    """Returns the counts after one more count; small arrays are counted together."""
    groups: dict[Any, list[int]] = {}
    for i, (dtype, each) in enumerate(zip(dtypes, counts, strict=True)):
        groups.setdefault(dtype if math.prod(each.shape[1:]) <= _SMALL else i, []).append(i)
    after: dict[int, jax.Array] = {}
    for own in groups.values():
        operands = [*(counts[i] for i in own), *(sums[i] for i in own)]
        new = steps.bind("counted", level, *operands, dtype=dtypes[own[0]])
        after.update(zip(own, new, strict=True))
    return [after[i] for i in range(len(counts))]


def _zeros(aval: Any, *lengths: int) -> jax.Array:
    return vary(lax.full((*lengths, *aval.shape), 0, aval.dtype), jaxprs.varying(aval))


def with_start(start: jax.Array, total: jax.Array) -> jax.Array:
    """Returns a sum with a start. A start of 0 adds nothing, and any other one is added once."""
    is_zero = lax.eq(start, lax.full_like(start, 0))
    return lax.select(is_zero, total, lax.add(start, total))


class Finish:
    """The values of a body after its loop: linear operations on the sums of all iterations.

    For the plan of ``carry + transpose(z) / 3``, with the rounded total of ``z``, ``value`` returns
    ``transpose(total) / 3``, by the equations of the body. Factors that are the same in each
    iteration are computed once more, from the constants of the scan: ``known`` returns the value of
    such an input. ``totals`` has the rounded total of each operation that adds.
    """

    def __init__(
        self, scope: Scope, known: Callable[[Atom], Any], totals: Mapping[Total, jax.Array]
    ) -> None:
        self._scope, self._totals = scope, totals
        self._input, self._known = known, dict[Atom, Any]()

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
        if self._scope.is_input(atom):
            return self._input(atom)
        producer = self._scope.producers[atom]
        if rule_of(producer).linear == "each":
            return self._read(producer.invars[producer.outvars.index(atom)])
        if atom not in self._known:
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
        return functools.reduce(lax.add, values)

    def _of_body(self, node: Inner, index: int, part: Node) -> jax.Array:
        body, scope = node.nest.bodies[index], node.nest.scopes[index]
        own = totals_of(part)
        totals = [self._totals[total] for total in own]

        def one(iteration: Any, totals: Sequence[jax.Array]) -> jax.Array:
            def read(atom: Atom) -> Any:
                source = body.inputs[scope.jaxpr.invars.index(atom)]
                if not isinstance(source, Slice):
                    return self._read(node.nest.equation.invars[source])
                return self._read(node.nest.equation.invars[source.operand])[iteration]

            return Finish(scope, read, dict(zip(own, totals, strict=True))).value(part)

        if not node.is_stacked or isinstance(part, Total):
            return one(None, totals)
        result: jax.Array = jax.vmap(one)(jnp.arange(body.length), totals)
        return result
