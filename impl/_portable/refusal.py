"""The error or warning about an equation that the guarantee ``portable`` refuses.

A message names the operation, the types of its operands, the user's line, the reason and a remedy.
The class in ``spec/portable.toml`` has the reason and the remedy. For example::

    lax.linalg.eig of float32[3,3] at step.py:7 has no portable path: REASON. You set
    guarantee='portable'. REMEDY `impl.audit` lists every refused equation at once. ...
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import spec
from impl._jax import lowering
from impl._portable import classes
from impl._reading import source as _source


def shown(name: str) -> str:
    """Returns the name of a primitive as users know it."""
    op = spec.load().op_of_primitive.get(name, name)
    return op if op.rpartition(".")[2] == name.replace("-", "_") else f"lax.{name}"


def text(name: str, avals: Sequence[Any], refused: spec.Portability, source: str) -> str:
    """Returns the message about an equation."""
    shapes = ", ".join(
        aval.str_short(short_dtypes=False) for aval in avals if hasattr(aval, "dtype")
    )
    return (
        f"{shown(name)} of {shapes or 'no array'} at {source} has no portable path: "
        f"{refused.reason}. You set guarantee='portable'. {refused.remedy} `impl.audit` lists "
        f"every refused equation at once. {_OTHERWISE} A value that is only logged may be "
        "computed inside `with impl.deterministic(False):`."
    )


def of_platforms(context: Any, *, warn_only: bool) -> None:
    """Raises or warns, once for each program, if a platform refuses a dtype of an equation."""
    avals = (*context.avals_in, *context.avals_out)
    for platform in lowering.platforms(context):
        found = by_platform(platform, avals)
        if found is None or not lowering.is_first(context, f"samebits_{platform}"):
            continue
        _tell(
            f"{' and '.join(sorted(found.dtypes or ()))} has no portable path on the platform "
            f"{platform!r}: {found.reason}. You set guarantee='portable'. {found.remedy} "
            f"{_OTHERWISE}",
            warn_only=warn_only,
        )


def by_platform(platform: str, avals: Sequence[Any]) -> spec.Portability | None:
    """Returns the refusal of an equation by a platform, with its dtypes there; None if it has none.

    The platform is as a lowering names it. ``avals`` are the types of operands and results.
    """
    refused = spec.load().refused_platforms.get(platform)
    if refused is None:
        return None
    dtypes = classes.dtypes(avals) & (refused.dtypes or frozenset())
    return dataclasses.replace(refused, dtypes=dtypes) if dtypes else None


def remedy(name: str, lines: _source.Lines, otherwise: str | None) -> str | None:
    """Returns the advice on an equation: for the library that makes it, or for any program.

    The lines of source tell the library.
    """
    return spec.load().hint(name, lines.package_name) or otherwise


#: The advice on every refusal.
_OTHERWISE = (
    "Or pass guarantee='run_to_run', for the same bits on this machine alone, or warn_only=True to "
    "be warned instead."
)


def of_unknown_sizes(known: spec.Portability) -> spec.Portability:
    """Returns the class of an equation whose rule needs its sizes, from the one of known sizes."""
    return dataclasses.replace(
        known,
        answer="refused",
        reason="its steps depend on the sizes of its operands, and a symbolic size is unknown",
        remedy=(
            "Export the program with known sizes, or add constraints, such as `n <= 1024`, to "
            "`jax.export.symbolic_shape`."
        ),
    )


def emit(name: str, avals: Sequence[Any], refused: spec.Portability, *, warn_only: bool) -> None:
    """Raises or warns about the equation that this thread lowers now."""
    lines = _source.Lines()
    for equation in lowering.equations():
        lines = _source.lines(equation, lines)
    source = lines.user or _source.caller().user or lines.library or "an unknown line"
    advised = dataclasses.replace(refused, remedy=remedy(name, lines, refused.remedy))
    _tell(text(name, avals, advised, source), warn_only=warn_only)


def _tell(message: str, *, warn_only: bool) -> None:
    if not warn_only:
        raise RuntimeError(message)
    warnings.warn(message, UserWarning, stacklevel=3)
