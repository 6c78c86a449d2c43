"""The alert for authors of other ops."""

from __future__ import annotations

import jax

import spec
from impl._core import arguments
from impl._mode import emulation
from impl._mode import modes as _mode
from impl._mode.decide import Action, Alert, Decision
from impl._primitives.alert import alert


def alert_not_deterministic(
    caller: str, x: jax.Array, *, platforms: tuple[str, ...] = ("cuda", "rocm")
) -> jax.Array:
    """Says, under the mode, that an op of yours has no deterministic implementation.

    Put it on an operand of the op: ``x = alert_not_deterministic("my_op", x)``.

    Args:
        caller: The op's name, as the message is to give it.
        x: Any array.
        platforms: The platforms for which the op is not deterministic.

    Returns:
        ``x``. With the mode off, that is all. With the mode on, computing it for one of
        ``platforms`` raises, or warns with ``warn_only``; so does lowering a program for it.

    Raises:
        RuntimeError: The mode is on, and ``x`` is on one of ``platforms``.
        TypeError: ``x`` is not an array.
        ValueError: A platform is unknown.
    """
    x = arguments.array("alert_not_deterministic", "x", x)
    known = spec.load().platforms
    unknown = sorted(set(platforms) - set(known))
    if unknown:
        raise ValueError(
            f"alert_not_deterministic(): argument 'platforms' got {unknown}; allowed are "
            f"{sorted(known)}"
        )
    mode = _mode.current()
    if not mode.enabled:
        return x
    said = Alert("warn" if mode.warn_only else "raise", caller, None, mode.profile)
    actions = tuple((platform, Action(alert=said)) for platform in platforms)
    return alert(x, Decision(actions, emulation=emulation.current()))
