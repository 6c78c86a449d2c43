"""Lowering rules for JAX's own scatters, which read the mode when a program is lowered.

JAX lowers each equation by the rule of its primitive. ``register`` replaces the rules of scatters
and of the gradient of max pools by ``_lower``, so that the mode holds for programs that never call
this package: ``jnp.bincount``, Flax's embeddings, the gradient of ``x[i]``. With the mode off the
rule calls JAX's own. With the mode on it asks the rows about the equation, for each platform that
the program is lowered for:

=============================================  =================================================
the row's answer                               the equation becomes
=============================================  =================================================
no row, or the bits are the same anyway        JAX's own scatter
the mode orders it                             a scatter in the order of the source, by a kernel
the mode refuses it                            an error or a warning, then JAX's own scatter
=============================================  =================================================

For example ``x.at[i].add(u)`` of float32 is lowered for a GPU to an ordered sum. A CPU adds in the
order of the updates anyway, so it keeps JAX's own scatter. With ``unique_indices=True`` both do.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, Literal

import jax
from jax import lax

import spec
from impl import _jax
from impl._core import contexts, ordered_primitives, partitioning
from impl._jax import Primitive, lowering, rules
from impl._kernels import pallas
from impl._kernels.launch import Launch
from impl._mode import emulation, modes
from impl._mode.alert import emit
from impl._mode.decide import Alert
from impl._mode.emulation import Emulation, Seed
from impl._mode.modes import Mode
from impl._reading.control_flow import HOLDERS
from impl._reading.facts import facts_of
from impl._run_to_run import ordered

#: Facts that are proven here, from which it follows that no index occurs twice.
_DISTINCT = ("one_update", "iota_indices")


def in_words(mode: Mode) -> str:
    """Returns the mode in words, and whether it holds for JAX's own primitives."""
    if not mode.enabled:
        return "the mode off"
    warns = ", warn_only=True" if mode.warn_only else ""
    part = "" if ordered_primitives.holds() else ", but not for JAX's own primitives"
    asks = f", guarantee={mode.guarantee!r}" if mode.portable else ""
    return f"the mode on (profile={mode.profile!r}{warns}{asks}){part}"


def register() -> None:
    """Replaces the lowering rules of JAX's scatters; warns if this release does not allow it."""
    try:
        rules.replace(_replacement)
    except LookupError as error:
        warnings.warn(
            f"impl: {error}. The mode therefore orders no scatter: JAX's own scatters can differ "
            "from run to run, and functions of impl that race raise. Install a newer samebits. The "
            "environment variable SAMEBITS_PROGRAMS=0 silences this warning.",
            RuntimeWarning,
            stacklevel=2,
        )


def _replacement(primitive: Primitive, original: rules.Rule, _: rules.Rule | None) -> rules.Rule:
    """Returns the rule by which JAX lowers an equation in place of the one that it found."""
    rule = original
    if primitive in ordered_primitives.PRIMITIVES:
        rule = functools.partial(_lower, primitive, original)
    elif primitive.name in HOLDERS or rules.function_of(original) is not None:
        # JAX may have traced the jaxprs outside of the scope of the equation.
        rule = functools.partial(_held, original)
    return rule if rule is original else functools.update_wrapper(rule, original)


def _held(original: Callable[..., Any], context: Any, *operands: Any, **params: Any) -> Any:
    """Lowers an equation that holds jaxprs, whose equations have the mode of its scope."""
    return original(lowering.with_own_equations(context), *operands, **params)


def _lower(
    primitive: Primitive, original: Callable[..., Any], context: Any, *operands: Any, **params: Any
) -> Any:
    mode, stand_in = modes.current(), emulation.current()
    if not contexts.switch.value or lowering.is_native(context):
        return original(context, *operands, **params)
    platforms = lowering.platforms(context)
    if not mode.enabled and stand_in is None and "cuda" not in platforms:
        return original(context, *operands, **params)
    facts = facts_of(primitive.name, context.avals_in, params)
    paths: dict[str, _Path] = {}
    for platform in platforms:
        device = device_of(platform, mode, stand_in)
        answer = spec.resolve_primitive(primitive.name, device, facts)
        is_plain = mode.portable or _jax.exports(context)
        launch = None if is_plain else launch_on(platform)
        if mode.enabled:
            known = spec.load().devices.get(device)
            may_race = known is None or known.races
            is_unique = any(map(facts.get, _DISTINCT)) and may_race
            paths[platform] = _path(answer, mode, launch, unique=is_unique)
        elif answer.effect != "ordered":
            paths[platform] = _Path()
        elif launch is not None and ordered.has_atomics(primitive, context.avals_in[0].dtype):
            paths[platform] = _Path(by_atomics=True, launch=launch)
        else:
            paths[platform] = _Path(seed=None if stand_in is None else stand_in.seed)
    first, *others = paths.values()
    if all(path == first for path in others):
        if not first.is_ours and first.seed is None:
            return original(context, *operands, **first.completed(params))
        function = functools.partial(first.compute, primitive, **params)
    else:
        functions = {
            platform: functools.partial(path.compute, primitive, **params)
            for platform, path in paths.items()
        }
        function = functools.partial(lax.platform_dependent, **functions)
    context = lowering.natively(context)
    is_cut = any(path.row is not None for path in paths.values())
    names = ordered.free_axes(primitive, context.avals_in, params) if is_cut else None
    return partitioning.lower(function, names, context, *operands)


@dataclasses.dataclass(frozen=True)
class _Path:
    """The way in which one platform computes an equation.

    Attributes:
        row: Id of the row by which the mode orders the equation; None if it does not.
        by_atomics: Whether the kernel of atomics computes.
        launch: How kernels run; None for no kernels.
        seed: The schedule of tests, in which the updates of the equation are permuted.
        unique: Whether XLA is told that no index repeats.
    """

    row: str | None = None
    by_atomics: bool = False
    launch: Launch | None = None
    seed: int | Seed | None = None
    unique: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether this project computes the equation, rather than XLA."""
        return self.row is not None or self.by_atomics

    def completed(self, params: dict[str, Any]) -> dict[str, Any]:
        """Returns the parameters of an equation that is left to XLA."""
        return {**params, "unique_indices": True} if self.unique else params

    def compute(self, primitive: Primitive, *operands: jax.Array, **params: Any) -> jax.Array:
        """Computes the equation by this path."""
        if self.is_ours:
            return ordered.compute(
                primitive, *operands, launch=self.launch, by_atomics=self.by_atomics, **params
            )
        if self.seed is not None:
            return ordered.permuted(primitive, self.seed, *operands, **params)
        result: jax.Array = primitive.bind(*operands, **self.completed(params))
        return result


def _path(answer: spec.Answer, mode: Mode, launch: Launch | None, *, unique: bool) -> _Path:
    """Returns the path of one platform with the mode on; a missing path raises or warns."""
    if answer.row is None or answer.effect == "same":
        return _Path(unique=unique)
    if answer.effect == "ordered":
        return _Path(row=answer.row.id, launch=launch)
    emit(_alert(answer, mode))
    return _Path()


def launch_on(platform: str) -> Launch | None:
    """Returns how kernels run on a platform; None if they do not.

    JAX lowers no kernel for a GPU of which it knows nothing, neither a device nor its kind.
    """
    stand_in = emulation.current()
    launch = None
    if platform == "cpu" and stand_in is not None and stand_in.lowering == "kernel":
        launch = Launch(True, stand_in.seed)
    elif platform == "cuda" and any(lowering.gpu()):
        launch = Launch()
    return launch if launch is not None and pallas.reason_missing() is None else None


def device_of(platform: str, mode: Mode, stand_in: Emulation | None = None) -> str:
    """Returns the device whose rows decide about equations on a platform, under a mode.

    Under the guarantee ``portable`` only a path for every device counts. ``stand_in`` is the
    stand-in of tests, in which a CPU acts as another platform.
    """
    if mode.portable:
        return "any"
    if stand_in is not None and platform == "cpu":
        platform = stand_in.platform
    device = spec.load().platforms.get(platform)
    return "any" if device is None else device.name


def _alert(answer: spec.Answer, mode: Mode) -> Alert:
    kind: Literal["raise", "warn"] = "warn" if mode.warn_only else "raise"
    row = answer.row
    if row is None:
        raise TypeError("an alert needs a row")
    return Alert(kind, row.op, row.id, mode.profile, answer.remedy)
