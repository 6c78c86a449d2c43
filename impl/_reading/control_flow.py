"""Describes the jaxprs inside an equation: their inputs, and when they run.

An equation of a call, a loop or a condition holds jaxprs. A program is read, followed or rewritten
by walking into them, and each release of JAX keeps them under other parameters. This module and
``impl._jax`` are the only ones that name these parameters: everything else is a loop over
``bodies(equation)``, and ``with_bodies(equation, jaxprs)`` to write jaxprs back.

A ``Body`` says of each input of its jaxpr which value it gets: an operand that is the same in every
run, a ``Carry`` of a loop, or a ``Slice`` of an operand of a scan. In::

    lax.scan(lambda c, x: (c + x * k, c), 0.0, xs)   # with k from outside

the equation and its one body are::

    d, ys = scan[jaxpr={ lambda ; k c x. let t = mul x k; e = add c t in (e, c) } ...] k 0.0 xs

    Body(jaxpr={ lambda ; k c x. ... },
         inputs=(0,                            # k is operand 0 in every iteration.
                 Carry(operand=1, output=0),   # c is 0.0 first, then e of the iteration before.
                 Slice(operand=2)),            # x is one element of xs.
         runs="loop", length=len(xs))

Of each other kind of equation:

=====================  ==========  ==============================================================
equation               ``runs``    bodies
=====================  ==========  ==============================================================
``jit``, ``remat2``,   ``once``    One, whose inputs are the operands.
``custom_jvp_call``,
``custom_vjp_call``
``cond``               ``branch``  Each branch. Operand 0 chooses, the inputs are the operands
                                   after it. The branches of ``lax.platform_dependent`` have
                                   ``platforms``.
``while``              ``loop``    Two: the test, with ``is_test``, and the step. Both get the
                                   same carries; the length is unknown.
``scan``               ``loop``    One.
any other              ``once``    Each jaxpr among the parameters, with unknown inputs.
=====================  ==========  ==============================================================

The outputs follow from ``runs``. A body that runs once, and each branch, has the outputs of the
equation. In a loop the first outputs of the body, one for each of its ``carries``, are the next
carry, and in the end outputs of the equation; a scan stacks the rest along a new first axis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from impl import _jax
from impl._jax import jaxprs, tags

T = TypeVar("T")
Runs: TypeAlias = Literal["once", "loop", "branch"]


@dataclasses.dataclass(frozen=True)
class Carry:
    """An input that is an operand in the first iteration, and then an output of the step."""

    operand: int
    output: int


@dataclasses.dataclass(frozen=True)
class Slice:
    """An input that is, in each iteration, the next slice along the first axis of an operand."""

    operand: int


#: The value of an input of a body: the operand at a position, a carry, a slice; None if unknown.
Input: TypeAlias = int | Carry | Slice | None


@dataclasses.dataclass(frozen=True)
class Body:
    """A jaxpr that an equation runs.

    Attributes:
        jaxpr: The jaxpr, with its constants if it has any. ``opened`` returns it without them.
        inputs: The value of each of its inputs.
        runs: Whether it runs once, in each iteration of a loop, or in one of several branches.
        length: The number of iterations; None if nothing tells before the program runs.
        reverse: Whether the first iteration gets the last slices.
        is_test: Whether its one output decides whether a ``while`` goes on.
        platforms: The platforms that run it; None for all that no other branch names.
    """

    jaxpr: Any
    inputs: tuple[Input, ...]
    runs: Runs = "once"
    length: int | None = None
    reverse: bool = False
    is_test: bool = False
    platforms: tuple[str, ...] | None = None

    @property
    def opened(self) -> Any:
        """The jaxpr without its constants."""
        return jaxprs.opened(self.jaxpr)

    @property
    def operands(self) -> dict[int, int]:
        """By the position of an input: the position of the operand that it equals in every run."""
        return {i: value for i, value in enumerate(self.inputs) if isinstance(value, int)}

    @property
    def carries(self) -> list[Carry]:
        """The inputs that are carried."""
        return [value for value in self.inputs if isinstance(value, Carry)]

    @property
    def slices(self) -> list[Slice]:
        """The inputs that are slices."""
        return [value for value in self.inputs if isinstance(value, Slice)]

    def arguments(
        self, operands: Sequence[T], carry: Iterable[T] = (), slices: Iterable[T] = ()
    ) -> list[T]:
        """Returns the values of the inputs in one run, if every one of them is known.

        ``carries`` and ``slices`` order theirs.
        """
        carry, slices = iter(carry), iter(slices)
        values = []
        for value in self.inputs:
            if value is None:
                raise TypeError("arguments(): an input of the body is unknown")
            if isinstance(value, int):
                values.append(operands[value])
            else:
                values.append(next(carry if isinstance(value, Carry) else slices))
        return values


#: Returns the numbers of constants and of carried values of a scan, its first operands.
counts_of_scan = jaxprs.scan_counts

#: The operand of a ``cond`` that chooses a branch.
CHOICE = 0

#: Calls of one jaxpr with the operands of the equation, and the parameter that holds it.
_CALLS: Mapping[str, str] = {
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",  # The name of closed_call since jax 0.12.
    "jit": "jaxpr",
    "remat2": "jaxpr",
}
#: The calls that mean no more than the equations of their jaxpr. ``remat2`` means more: XLA may not
#: share its equations with equal ones outside.
WRITTEN_OUT = _CALLS.keys() - {"remat2"}
#: The calls that a person does not think of as a step of a program.
PLAIN_CALLS = frozenset({"closed_call", "eval_jaxpr", "jit"})
#: The primitives with a body that runs in each iteration.
LOOPS = frozenset({"scan", "while"})
#: The parameters with the jaxprs of further equations, in the order of ``bodies``.
_HELD: Mapping[str, tuple[str, ...]] = {
    "cond": ("branches",),
    "scan": ("jaxpr",),
    "shard_map": ("jaxpr",),
    "while": ("cond_jaxpr", "body_jaxpr"),
}
#: The primitives that run the jaxprs of their equations, and compute nothing else.
HOLDERS = frozenset(
    {*_CALLS, *_HELD, "call", "composite", "custom_linear_solve", "custom_partitioning"}
    | {"custom_vmap_call", "linear_call", "remat_opt", "run_state"}
    | {"xla_metadata_call"}
)
#: One of them also makes the mutable arrays that its jaxpr reads and writes.
_MAKES_REFS = "run_state"


def bodies(equation: Any) -> list[Body]:
    """Returns the jaxprs that an equation runs; none for an equation that holds no jaxpr."""
    params, kind = equation.params, str(equation.primitive.name)
    if kind == "scan":
        return [_of_scan(equation)]
    if kind == "while":
        return _of_while(equation)
    if kind == "cond":
        operands = tuple(range(1, len(equation.invars)))
        branches = params["branches"]
        groups = params.get("branches_platforms") or (None,) * len(branches)
        return [
            Body(branch, operands, "branch", platforms=None if group is None else tuple(group))
            for branch, group in zip(branches, groups, strict=True)
        ]
    if kind == "custom_linear_solve":
        # Its other jaxprs are for derivatives, which are equations of their own by now.
        return [_unknown(params["jaxprs"].solve)]
    call = called(equation)
    return [_unknown(each) for each in _jaxprs(params)] if call is None else [call]


def _unknown(jaxpr: Any) -> Body:
    return Body(jaxpr, (None,) * len(jaxprs.opened(jaxpr).invars))


def _of_scan(equation: Any) -> Body:
    params = equation.params
    first, carried = counts_of_scan(params)
    rest = first + carried
    inputs = (
        *range(first),
        *(Carry(i, i - first) for i in range(first, rest)),
        *map(Slice, range(rest, len(equation.invars))),
    )
    return Body(params["jaxpr"], inputs, "loop", params["length"], params["reverse"])


def _of_while(equation: Any) -> list[Body]:
    params = equation.params
    first = params["cond_nconsts"]
    rest = first + params["body_nconsts"]
    carry = [Carry(i, i - rest) for i in range(rest, len(equation.invars))]
    return [
        Body(params["cond_jaxpr"], (*range(first), *carry), "loop", is_test=True),
        Body(params["body_jaxpr"], (*range(first, rest), *carry), "loop"),
    ]


def called(equation: Any) -> Body | None:
    """Returns the one body of an equation that only calls a jaxpr; None for any other equation."""
    operands = tuple(range(len(equation.invars)))
    kind = str(equation.primitive.name)
    if kind in _CALLS:
        return Body(equation.params[_CALLS[kind]], operands)
    jaxpr = _jax.expanded(equation)
    if jaxpr is None:
        return None
    body = _unknown(jaxpr)
    # An operand that the function takes in parts, such as a key, leaves the order unknown.
    fits = len(body.inputs) == len(operands)
    return dataclasses.replace(body, inputs=operands) if fits else body


def is_writable(equation: Any) -> bool:
    """Returns whether ``with_bodies`` can write other jaxprs into an equation."""
    return equation.primitive.name in _CALLS.keys() | _HELD.keys()


def with_bodies(equation: Any, new: Sequence[Any], *, counts: tuple[int, int] | None = None) -> Any:
    """Returns a call, loop, condition or ``shard_map`` with other jaxprs.

    The operands and outputs of the equation stay: a caller that adds some to the jaxprs adds them
    to the equation too. The new jaxprs have no constants, and are in the order of ``bodies``.
    ``counts`` is how many constants and carried values a scan has now; None if as many as before.

    Raises:
        TypeError: Nothing tells where an equation of this primitive keeps its jaxprs.
    """
    params, kind = dict(equation.params), str(equation.primitive.name)
    names = (_CALLS[kind],) if kind in _CALLS else _HELD.get(kind)
    if names is None:
        raise TypeError(f"with_bodies(): {kind!r} is not a call, loop, condition or shard_map")
    rest = iter(new)
    for name in names:
        old = params[name]
        params[name] = (
            tuple(jaxprs.reclosed(each, next(rest)) for each in old)
            if isinstance(old, tuple)
            else jaxprs.reclosed(old, next(rest))
        )
    if kind == "scan":
        constants, carried = counts or counts_of_scan(params)
        jaxpr = jaxprs.opened(params["jaxpr"])
        params = scan_of(params, jaxpr, constants=constants, carried=carried)
    return equation.replace(params=params)


def scan_of(params: Mapping[str, Any], new: Any, *, constants: int, carried: int) -> dict[str, Any]:
    """Returns the parameters of a scan with another jaxpr."""
    closed = jaxprs.reclosed(params["jaxpr"], new)
    stacked = len(new.outvars) - carried
    return jaxprs.scan_with(params, closed, constants=constants, carried=carried, stacked=stacked)


def on_platform(several: Sequence[Body], platform: str | None) -> Sequence[Body]:
    """Returns the bodies of an equation that a platform runs, or that any does for None.

    Of ``lax.platform_dependent``, a platform takes one branch.
    """
    if platform is None:
        return several
    own = [body for body in several if platform in (body.platforms or ())]
    return own or [body for body in several if body.platforms is None] or several


def only_runs(equation: Any) -> bool:
    """Returns whether an equation does nothing but run the jaxprs that it holds."""
    name = str(equation.primitive.name)
    return (name in HOLDERS and name != _MAKES_REFS) or called(equation) is not None


def every_jaxpr(equation: Any) -> list[Any]:
    """Returns the jaxprs among the parameters of an equation, without their constants.

    Among them are jaxprs that only a derivative runs, and jaxprs that combine two elements.
    """
    return [jaxprs.opened(jaxpr) for jaxpr in _jaxprs(equation.params)]


def _jaxprs(params: Mapping[str, Any]) -> Iterator[Any]:
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if hasattr(jaxprs.opened(item), "eqns"):
                yield item


#: Takes an equation, and returns the jaxpr that stands for it, or None.
Written = Callable[[Any], Any]


def inlined(jaxpr: Any, written: Written = lambda _: None) -> Any:
    """Returns a jaxpr with the equations of calls in place of the calls.

    So a rewriter sees one flat list of equations. Of ::

        { lambda ; a. let b = jit[jaxpr={ lambda ; c. let d = sin c in (d,) }] a; e = neg b in e }

    it makes::

        { lambda ; a. let d = sin a; e = neg d in e }

    A call with constants or shardings of its own stays, and so does one with side effects.

    Args:
        jaxpr: The jaxpr, without constants.
        written: Returns the jaxpr, without constants, that an equation which is no call stands for;
            None for an equation that stays.
    """

    def body_of(equation: Any) -> Any:
        body = _written_out(equation)
        return written(equation) if body is None else body

    if all(body_of(equation) is None for equation in jaxpr.eqns):
        return jaxpr
    known: dict[Any, Any] = {}
    equations = _equations(jaxpr, known, body_of)
    outputs = [_read(known, atom) for atom in jaxpr.outvars]
    return jaxpr.replace(eqns=equations, outvars=outputs)


def _written_out(equation: Any) -> Any:
    """Returns the jaxpr of an equation that may be written out in place of it; None for others."""
    params: Mapping[str, Any] = equation.params
    if equation.primitive.name not in WRITTEN_OUT:
        return None
    shardings = (*params.get("in_shardings", ()), *params.get("out_shardings", ()))
    if any(type(sharding).__name__ != "UnspecifiedValue" for sharding in shardings):
        return None
    if jaxprs.named_axes(equation) is None:
        return None
    (body,) = bodies(equation)
    has_constants = getattr(body.jaxpr, "consts", None) or body.opened.constvars
    return None if has_constants else body.opened


def _equations(jaxpr: Any, known: dict[Any, Any], body_of: Written) -> list[Any]:
    """Returns the equations of a jaxpr with new variables as outputs, and adds these to ``known``.

    ``known`` maps each variable to the variable or literal that replaces it. ``body_of`` returns
    the jaxpr that replaces an equation; None for an equation that stays.
    """
    equations = []
    for equation in jaxpr.eqns:
        operands = [_read(known, atom) for atom in equation.invars]
        inner = body_of(equation)
        if inner is None:
            results = [jaxprs.variable(out.aval) for out in equation.outvars]
            equations.append(equation.replace(invars=operands, outvars=results))
        else:
            within = dict(zip(inner.invars, operands, strict=True))
            tag = tags.of(equation)
            equations += [tags.tagged(each, tag) for each in _equations(inner, within, body_of)]
            results = [_read(within, atom) for atom in inner.outvars]
        known.update(zip(equation.outvars, results, strict=True))
    return equations


def _read(known: Mapping[Any, Any], atom: Any) -> Any:
    return atom if jaxprs.is_literal(atom) else known.get(atom, atom)
