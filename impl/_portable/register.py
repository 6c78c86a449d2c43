"""Replaces JAX's lowering rules by rules that read the mode: how each equation is lowered.

JAX lowers a program equation by equation: for each one it looks up the lowering rule of the
primitive and calls the rule. ``register`` has JAX find the rule ``_lower`` of this module instead,
which calls JAX's own rule where the guarantee ``portable`` does not hold, or changes nothing.
"""

from __future__ import annotations

import functools
from typing import Any

import spec
from impl._core import contexts
from impl._jax import Primitive, lowering, repeated, rules, watching
from impl._mode import modes
from impl._mode.decide import Decision
from impl._portable import classes, exported, lower, notice, refusal, unknown
from impl._portable.carried_sums import lower as carried_sums
from impl._portable.device_sums import push
from impl._portable.rules import RULES

#: The primitive in whose body sums over devices are joined with the sums of each device.
_MAPPED = "shard_map"
#: The primitive whose carried sums are one sum of all iterations.
_CARRYING = "scan"


def register() -> None:
    """Replaces each rule that JAX finds, whenever it was registered, by one that reads the mode."""
    rules.replace(_replacement)
    repeated.see_operands()
    watching.surround(notice.context_of)


def _replacement(*rule: Any) -> rules.Rule:
    # Not a lambda in `register`: `rules.replace` adds each function once, and knows it by identity.
    return functools.partial(_lower, *rule)


@functools.cache
def _is_fixed(name: str) -> bool:
    """Returns whether JAX's own rule lowers all equations of a primitive, whatever their types."""
    portability = spec.load().class_of_primitive.get(name)
    if portability is None or (name in RULES and RULES[name].lowers):
        return False
    return portability.answer == "exact" and portability.dtypes is None


def _applies(context: Any) -> bool:
    """Returns whether the guarantee ``portable`` decides how an equation is lowered."""
    if not contexts.switch.value or lowering.is_native(context):
        return False
    mode = modes.current()
    exported.mark(context, mode)
    return mode.portable


def _lower(
    primitive: Primitive,
    original: rules.Rule,
    anywhere: rules.Rule | None,
    context: Any,
    /,
    *operands: Any,
    **params: Any,
) -> Any:
    """Lowers an equation.

    The order of the steps matters. The body of a ``shard_map`` may hold a scope that asks for the
    guarantee, so it is rewritten under any mode. A primitive of this project, or of another
    library, may have the name of a primitive of JAX, so names are read only after these two cases.
    A primitive that only moves elements may move the terms of an unreduced array, whose class
    refuses to add them: it is lowered before the class of its operands is asked for.
    """
    name = primitive.name
    if name == _MAPPED and contexts.switch.value and not lowering.is_native(context):
        params = push.with_joined_sums(params)
    if not _applies(context):
        return original(context, *operands, **params)
    refusal.of_platforms(context, warn_only=modes.current().warn_only)
    if name == _CARRYING:
        joined = carried_sums.joined(primitive, context, operands, params)
        if joined is not None:
            return joined
    if name.startswith("samebits_") or isinstance(params.get("decision"), Decision):
        return original(lowering.natively(context), *operands, **params)
    if unknown.is_unknown(primitive, original):
        portability = unknown.portability(classes.dtypes((*context.avals_in, *context.avals_out)))
        rule = unknown.rule(portability, primitive, original, anywhere, context, params)
        return rule(context, *operands, **params)
    if _is_fixed(name):
        return original(context, *operands, **params)
    return lower.equation(name, original, anywhere or original, context, *operands, **params)
