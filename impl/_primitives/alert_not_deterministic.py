"""The alert that authors of other ops can put into them."""

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
    """Raises or warns, under the mode, that an op of yours has no deterministic implementation.

    Apply it to an operand of the op: ``x = alert_not_deterministic("my_op", x)``.

    Args:
        caller: Name of the op, for the message.
        x: An array of any shape and dtype.
        platforms: Platforms on which the op is not deterministic.

    Returns:
        ``x``, with its shape and dtype. With the mode off, nothing else happens. With the mode on,
        an error is raised where ``x`` is computed on one of ``platforms``, or where a program that
        computes it is lowered for one of them. With ``warn_only``, a warning is given instead.

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
    action = Action(
        alert=Alert("warn" if mode.warn_only else "raise", caller, row=None, profile=mode.profile)
    )
    actions = tuple((platform, action) for platform in platforms)
    return alert(x, Decision(actions, emulation=emulation.current()))
