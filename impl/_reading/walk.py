"""Walks over the equations of a JAX program, into every jaxpr that an equation holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from impl._jax import tags
from impl._mode.modes import Mode
from impl._reading import control_flow, source
from impl._reading.control_flow import Body, bodies, on_platform, only_runs
from impl._reading.source import Lines
from impl._reading.values import Operands, Scope


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
    than run its jaxprs is not yielded; any other equation is yielded before the equations inside
    it.

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
        lines = source.lines(equation, outside)
        leaf = is_leaf(equation.primitive.name)
        own = tags.of(equation) or mode
        lowered = computed(equation, own)
        if lowered is None:
            inner = [] if leaf else on_platform(bodies(equation), platform)
        else:
            inner = [Body(lowered, tuple(range(len(equation.invars))))]
        if not inner or (lowered is None and not only_runs(equation)):
            yield Site(equation, Operands(scope, equation), lines, path, own)
        within = (*path, label(equation))
        for body in inner:
            yield from walk(
                scope.inner(equation, body),
                is_leaf,
                platform=platform,
                computed=computed,
                path=within,
                outside=lines,
                mode=own,
            )


def without_calls(path: Iterable[str]) -> tuple[str, ...]:
    """Returns a path without the names of plain calls, which tell a person little."""
    return tuple(part for part in path if part.partition(" ")[0] not in control_flow.PLAIN_CALLS)


def label(equation: Any) -> str:
    """Returns the name of an equation that holds jaxprs, as paths show it."""
    name = equation.params.get("name")
    kind = str(equation.primitive.name)
    return f"{kind} {name}" if isinstance(name, str) and name else kind
