"""Lowering rules for the primitives of this project under the guarantee ``portable``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax.extend.core import Primitive

import spec
from impl._core.jax_internals import lowering
from impl._mode import modes
from impl._mode.decide import Decision
from impl.programs import _rules


def lower(
    _: Primitive,
    original: Callable[..., Any],
    anywhere: Callable[..., Any],
    context: Any,
    *operands: Any,
    **params: Any,
) -> Any:
    """Lowers an equation of this project.

    One whose row is portable is lowered as it is. Any other takes the lowering for any platform,
    whose own equations are portable or refused.
    """
    if not (modes.current().portable and _rules.switch.value) or lowering.is_native(context):
        return original(context, *operands, **params)
    if is_portable(params.get("decision"), lowering.platforms(context)):
        return original(lowering.natively(context), *operands, **params)
    return anywhere(context, *operands, **params)


def is_portable(decision: object, platforms: tuple[str, ...]) -> bool:
    """Returns whether the rows that decided about a call offer the same bits on every device."""
    if not isinstance(decision, Decision):
        return True
    rows = {decision.on(platform).row for platform in platforms}
    return all(row is not None and spec.load().row(row).guarantee == "portable" for row in rows)
