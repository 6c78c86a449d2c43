"""Lowering rules for JAX's own scatters, which read the mode when a program is lowered.

With the mode off a rule calls that of JAX. With the mode on it asks the rows about the equation:
the equation is left alone, computed in order, or refused.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from typing import Any, Literal

import jax
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import mlir

import spec
from impl._core import jax_internals, native_scatter
from impl._core.jax_internals import lowering
from impl._lowerings import _partitioning
from impl._mode import emulation, modes
from impl._mode.decide import Alert
from impl._mode.modes import Mode
from impl._primitives.alert import emit
from impl.programs import _facts, _ordered, _schedule

#: Whether the rules look at the mode. It is part of the key of every cache of ``jax.jit``.
switch = jax.make_user_context(True)

#: Facts that are proven here, from which it follows that no index occurs twice.
_DISTINCT = ("one_update", "iota_indices")


def holds() -> bool:
    """Returns whether the mode holds for JAX's own primitives."""
    return bool(native_scatter.twins) and bool(switch.value)


def how_to_enable() -> str:
    """Returns advice where the mode does not hold for JAX's own primitives."""
    if native_scatter.twins:
        return "Call `impl.programs.enable()`: the rules for JAX's primitives are disabled."
    if os.environ.get("SAMEBITS_PROGRAMS", "1") == "0":
        return (
            "Start Python without SAMEBITS_PROGRAMS=0, which keeps the mode from JAX's primitives."
        )
    return "Install a samebits that knows this release of JAX: its primitives have no rules."


def register() -> None:
    """Replaces JAX's lowering rules of its scatters; warns if this release does not allow it."""
    primitives = native_scatter.replaced_primitives()
    try:
        found = {primitive: jax_internals.lowering_rules(primitive) for primitive in primitives}
    except LookupError as error:
        warnings.warn(
            f"impl: {error}. The mode therefore holds for the functions of impl only: JAX's own "
            "scatters can differ from run to run. Install a newer samebits. The environment "
            "variable SAMEBITS_PROGRAMS=0 silences this warning.",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    for primitive in primitives:
        native_scatter.add_twin(primitive)
    for primitive, rules in found.items():
        for platform, (original, inline) in rules.items():
            rule = functools.partial(_lower, primitive, original)
            mlir.register_lowering(primitive, rule, platform=platform, inline=inline)


def _lower(
    primitive: Primitive,
    original: Callable[..., Any],
    context: Any,
    *operands: Any,
    **params: Any,
) -> Any:
    mode, stand_in = modes.current(), emulation.current()
    seed = None if stand_in is None else stand_in.seed
    if not switch.value or not (mode.enabled or seed) or lowering.is_native(context):
        return original(context, *operands, **params)
    facts = _facts.facts(primitive.name, context.avals_in, params)
    answer = spec.resolve_primitive(primitive.name, "any", facts)
    row = answer.row
    if row is None or answer.effect == "same":
        if mode.enabled and any(facts.get(name) for name in _DISTINCT):
            params = {**params, "unique_indices": True}
        return original(context, *operands, **params)
    if seed and not mode.enabled:
        if answer.effect != "ordered":
            return original(context, *operands, **params)
        function = functools.partial(_schedule.permuted, primitive, seed, **params)
    elif answer.effect == "ordered":
        function = functools.partial(_ordered.compute, primitive, row.id, **params)
        context = lowering.natively(context) if mode.portable else context
    else:
        emit(_alert(answer, mode))
        return original(context, *operands, **params)
    if primitive is lax.select_and_scatter_add_p:
        # Its sums are of shifted arrays, which XLA may cut. It is computed without shardings.
        axes = _partitioning.LEFT_TO_XLA
        return _partitioning.lower(function, axes, context, *operands, multiple_results=False)
    return mlir.lower_fun(function, multiple_results=False)(context, *operands)


def _alert(answer: spec.Answer, mode: Mode) -> Alert:
    kind: Literal["raise", "warn"] = "warn" if mode.warn_only else "raise"
    row = answer.row
    if row is None:
        raise TypeError("an alert needs a row")
    return Alert(kind, row.op, row.id, mode.profile, answer.remedy)
