"""The error or warning about an equation that the guarantee ``portable`` refuses."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import spec
from impl._core.jax_internals import lowering
from impl._reading import source as _source


def shown(name: str) -> str:
    """Returns the name of a primitive as users know it."""
    op = spec.load().op_of_primitive.get(name, name)
    return op if op.rpartition(".")[2] == name.replace("-", "_") else f"lax.{name}"


def text(name: str, avals: Sequence[Any], found: spec.Portability, source: str) -> str:
    """Returns the message about an equation.

    Args:
        name: The name of its primitive.
        avals: The types of its operands.
        found: The class that refuses it.
        source: The line of the user's code.
    """
    shapes = ", ".join(
        aval.str_short(short_dtypes=False) for aval in avals if hasattr(aval, "dtype")
    )
    return (
        f"{shown(name)} of {shapes or 'no array'} at {source} has no portable path: "
        f"{found.reason}. You set guarantee='portable'. {found.remedy} `impl.audit` lists every "
        f"refused equation at once. {_OTHERWISE} A value that is only logged may be computed "
        "inside `with impl.deterministic(False):`."
    )


def of_platforms(context: Any, *, warn_only: bool) -> None:
    """Raises or warns, once for each module, where a platform is refused that it is lowered for.

    Args:
        context: That of a lowering rule.
        warn_only: Whether to warn.

    Raises:
        RuntimeError: ``warn_only`` is False.
    """
    refused = spec.load().refused_platforms
    for platform in lowering.platforms(context):
        if platform not in refused or not lowering.is_first(context, f"samebits_{platform}"):
            continue
        found = refused[platform]
        _tell(
            f"a program for the platform {platform!r} has no portable path: {found.reason}. You "
            f"set guarantee='portable'. {found.remedy} {_OTHERWISE}",
            warn_only=warn_only,
        )


def remedy(name: str, lines: _source.Lines, otherwise: str | None) -> str | None:
    """Returns the advice on an equation: of the library that makes it, if there is some.

    Args:
        name: The name of its primitive.
        lines: The lines that it comes from.
        otherwise: The advice that does not depend on them.
    """
    return spec.load().hint(name, lines.package_name) or otherwise


#: What else a user can do about any refusal.
_OTHERWISE = (
    "Or pass guarantee='run_to_run', for the same bits on this machine alone, or warn_only=True to "
    "be warned instead."
)


def of_unknown_sizes(found: spec.Portability) -> spec.Portability:
    """Returns the class of an equation whose rule needs the sizes of its operands.

    Args:
        found: The class of the equation if its sizes are known.
    """
    return dataclasses.replace(
        found,
        answer="refused",
        reason="its steps depend on the sizes of its operands, and a symbolic size is unknown",
        remedy=(
            "Export the program with known sizes, or add constraints, such as `n <= 1024`, to "
            "`jax.export.symbolic_shape`."
        ),
    )


def emit(name: str, avals: Sequence[Any], found: spec.Portability, *, warn_only: bool) -> None:
    """Raises or warns about the equation that this thread lowers now.

    Args:
        name: The name of its primitive.
        avals: The types of its operands.
        found: The class that refuses it.
        warn_only: Whether to warn.

    Raises:
        RuntimeError: ``warn_only`` is False.
    """
    lines = _source.Lines()
    for equation in lowering.equations():
        lines = _source.lines(equation, lines)
    source = lines.user or _source.caller().user or lines.library or "an unknown line"
    advised = dataclasses.replace(found, remedy=remedy(name, lines, found.remedy))
    _tell(text(name, avals, advised, source), warn_only=warn_only)


def _tell(message: str, *, warn_only: bool) -> None:
    if not warn_only:
        raise RuntimeError(message)
    warnings.warn(message, UserWarning, stacklevel=3)
