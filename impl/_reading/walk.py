"""Walks over the equations of a JAX program, into every jaxpr that an equation holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from impl._core import jax_internals
from impl._core.jax_internals import tags
from impl._mode.modes import Mode
from impl._reading import facts, source
from impl._reading.source import Lines
from impl._reading.values import Operands, Scope, called


@dataclasses.dataclass(frozen=True)
class Site:
    """One equation of a program, and its surroundings.

    Attributes:
        equation: The equation.
        operands: The knowledge of its operands' values.
        lines: The lines of source that it comes from.
        path: The names of the equations that it is inside of, the outermost first.
        mode: The mode of the scope inside of the program that it was traced in; None for no scope.
    """

    equation: Any
    operands: Operands
    lines: Lines
    path: tuple[str, ...]
    mode: Mode | None = None

    @property
    def name(self) -> str:
        """The name of its primitive."""
        return str(self.equation.primitive.name)

    @property
    def shapes(self) -> str:
        """The shapes and dtypes of its operands."""
        return " ".join(
            operand.aval.str_short(short_dtypes=True) for operand in self.equation.invars
        )


def walk(
    scope: Scope,
    is_leaf: Callable[[str], bool],
    *,
    platform: str | None = None,
    computed: Callable[[Any, Mode | None], Any] = lambda *_: None,
    path: tuple[str, ...] = (),
    outside: Lines | None = None,
    mode: Mode | None = None,
) -> Iterator[Site]:
    """Yields the equations of a program, in order; each call of a function counts.

    The body of a loop, and each branch of a condition, counts once. An equation that does no more
    than run its jaxprs is not yielded; an equation of another primitive is, before those within.

    Args:
        scope: The scope of the jaxpr.
        is_leaf: Returns whether a row is about the primitive of this name: then the walk does not
            go into the jaxprs of the equation. An equation without jaxprs is a leaf anyway.
        platform: The platform, of which ``jax.lax.platform_dependent`` takes the branch; None for
            the branches of all platforms.
        computed: Returns the closed jaxpr that is lowered in place of an equation with a mode; None
            for an equation that is lowered as it is.
        path: The names of the equations that the jaxpr is inside of.
        outside: The lines of the innermost of them.
        mode: The mode of the innermost of them that has one.
    """
    for equation in scope.jaxpr.eqns:
        found = source.lines(equation, outside)
        leaf = is_leaf(equation.primitive.name)
        own = tags.of(equation) or mode
        made = computed(equation, own)
        if made is None:
            inner = [] if leaf else inner_scopes(scope, equation, platform)
        else:
            operands = range(len(equation.invars))
            inner = [scope.inner(equation, made, {i: i for i in operands})]
        if not inner or (made is None and not only_runs(equation)):
            yield Site(equation, Operands(scope, equation), found, path, own)
        within = (*path, label(equation))
        for part in inner:
            yield from walk(
                part,
                is_leaf,
                platform=platform,
                computed=computed,
                path=within,
                outside=found,
                mode=own,
            )


#: Primitives that do nothing but run the jaxprs that they hold.
_RUN = frozenset({"scan", "while", "cond", "shard_map", "custom_linear_solve", "linear_call"})
#: Further ones, which JAX's documents name less.
_RUN_TOO = frozenset({"composite", "custom_partitioning", "custom_vmap_call", "eval_jaxpr"})


def only_runs(equation: Any) -> bool:
    """Returns whether an equation does nothing but run the jaxprs that it holds."""
    return called(equation) is not None or equation.primitive.name in _RUN | _RUN_TOO


def label(equation: Any) -> str:
    """Returns the name of an equation that holds jaxprs, as paths show it."""
    name = equation.params.get("name")
    kind = str(equation.primitive.name)
    return f"{kind} {name}" if isinstance(name, str) and name else kind


def inner_scopes(scope: Scope, equation: Any, platform: str | None = None) -> list[Scope]:
    """Returns the scopes of the jaxprs of an equation that a platform runs; None runs all.

    An input is known in the scope if it is an operand of the equation in every run of the jaxpr.
    """
    params, kind = equation.params, equation.primitive.name
    whole = called(equation)
    if whole is not None:
        call = scope.call(equation)
        return [] if call is None else [call]
    if kind == "scan":
        constants = range(jax_internals.scan_constants(params))
        return [scope.inner(equation, params["jaxpr"], {i: i for i in constants})]
    if kind == "cond":
        operands = range(len(equation.invars) - 1)
        return [
            scope.inner(equation, branch, {i: i + 1 for i in operands})
            for branch in _branches(params, platform)
        ]
    if kind == "custom_linear_solve":
        # Its other jaxprs are for derivatives, which are equations of their own by now.
        return [scope.inner(equation, params["jaxprs"].solve, {})]
    if kind == "while":
        first, second = params["cond_nconsts"], params["body_nconsts"]
        return [
            scope.inner(equation, params["cond_jaxpr"], {i: i for i in range(first)}),
            scope.inner(equation, params["body_jaxpr"], {i: i + first for i in range(second)}),
        ]
    return [scope.inner(equation, jaxpr, {}) for jaxpr in facts.inner_jaxprs(params)]


def _branches(params: Mapping[str, Any], platform: str | None) -> Sequence[Any]:
    """Returns the branches of a condition; of ``jax.lax.platform_dependent`` that of a platform."""
    branches: Sequence[Any] = params["branches"]
    groups = params.get("branches_platforms")
    if groups is None or platform is None:
        return branches
    own = [
        branch
        for branch, group in zip(branches, groups, strict=True)
        if group is not None and platform in group
    ]
    rest = [branch for branch, group in zip(branches, groups, strict=True) if group is None]
    return own or rest or branches
