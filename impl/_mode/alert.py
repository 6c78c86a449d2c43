"""The alert: an identity that raises or warns when it is lowered for the platforms it names.

The device of a program is known when the program is lowered, not when it is traced. An op without a
deterministic implementation therefore alerts at that time, also when a machine without a GPU lowers
a program for one.

For example, with ``f = lambda x: alert_not_deterministic("my_op", x) * 2`` and the mode on::

    f(jnp.ones(2)) on a CPU    [2. 2.]
    f lowered for "cuda"       RuntimeError: my_op does not have a deterministic implementation,
                               but you set 'impl.use_deterministic_algorithms(True)'. ...
"""

from __future__ import annotations

import functools
import sys
import warnings
from importlib import metadata
from typing import Any

import jax
from jax.interpreters import ad, batching, mlir

import spec
from impl._core import arguments, eager
from impl._jax import Primitive
from impl._mode import emulation, modes
from impl._mode.decide import Action, Alert, Decision

Alerts = tuple[tuple[str, Alert], ...]

_DISTRIBUTION = "samebits"
alert_p = Primitive("samebits_alert")
pullback_p = Primitive("samebits_alert_pullback")


def alert(value: jax.Array, decision: Decision) -> jax.Array:
    """Returns ``value``, with the alerts of ``decision`` tied to its computation."""
    if not decision.alerts:
        return value
    if any(alert.kind == "warn" for _, alert in decision.alerts):
        eager.refuse()  # A compiled program would warn at its first call only.
    return alert_p.bind(value, alerts=decision.alerts)  # type: ignore[no-any-return]


def alert_pullback(value: jax.Array, decision: Decision) -> jax.Array:
    """Returns ``value``, with the alerts of ``decision`` tied to its cotangent's computation."""
    if not decision.alerts:
        return value
    return pullback_p.bind(value, decision=decision)  # type: ignore[no-any-return]


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
    mode = modes.current()
    if not mode.enabled:
        return x
    action = Action(
        alert=Alert("warn" if mode.warn_only else "raise", caller, row=None, profile=mode.profile)
    )
    actions = tuple((platform, action) for platform in platforms)
    return alert(x, Decision(actions, emulation=emulation.current()))


def message(alert: Alert) -> str:
    """Returns the message for the user."""
    option = ", warn_only=True" if alert.kind == "warn" else ""
    if alert.remedy is not None:
        return (
            f"{alert.caller} has no deterministic implementation for this call (row {alert.row}), "
            f"but you set 'impl.use_deterministic_algorithms(True{option})'. {alert.remedy} "
            "Otherwise compile the program inside 'with impl.deterministic(False):', or pass "
            "'warn_only=True' to be warned instead."
        )
    row = f" in the profile '{alert.profile}' (row {alert.row})" if alert.row else ""
    remedies = [
        "wrap this operation in 'with impl.deterministic(False):'",
        "pass 'warn_only=True' to be warned instead",
    ]
    # No profile helps an operation that has no row.
    if alert.row is not None and alert.profile != "complete":
        remedies.append("pass 'profile=\"complete\"', in which every operation is deterministic")
    # An op without a row is another library's, which has a tracker of its own.
    request = f" To ask for one, open an issue at {tracker()}." if alert.row else ""
    return (
        f"{alert.caller} does not have a deterministic implementation{row}, but you set "
        f"'impl.use_deterministic_algorithms(True{option})'. Ways out: "
        f"{'; '.join(remedies[:-1])}; or {remedies[-1]}.{request}"
    )


@functools.cache
def tracker() -> str:
    """Returns the name of the project's tracker, with its address if the metadata have one.

    ``pyproject.toml`` is the one file that names it, as ``Issues`` under ``_project.urls``.
    """
    try:
        entries = metadata.metadata(_DISTRIBUTION).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # It runs from a checkout that is not installed.
        entries = []
    addresses = dict(entry.split(", ", 1) for entry in entries)
    name = f"the tracker of {_DISTRIBUTION}"
    return f"{name}, {addresses['Issues']}" if "Issues" in addresses else name


def emit(alert: Alert) -> None:
    """Raises or warns, as the kind of the alert demands."""
    if alert.kind == "raise":
        raise RuntimeError(message(alert))
    warnings.warn(message(alert), UserWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """Returns the stack level of the user's own line, past this package and JAX."""
    level = 2
    frame = sys._getframe(2)  # noqa: SLF001  # documented, and the one way to find a caller
    ours = ("impl", "jax", "contextlib", "functools")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ours:
        frame = frame.f_back
        level += 1
    return level


def _impl(value: jax.Array, *, alerts: Alerts) -> jax.Array:
    # Lower at every call, past the compilation cache, so that every call gives the alert.
    jax.jit(lambda v: alert_p.bind(v, alerts=alerts)).lower(value)
    return value


def _lower(platform: str | None, context: Any, value: Any, *, alerts: Alerts) -> Any:
    for name, alert in alerts:
        if name == platform:
            emit(alert)
    return [value]


def _transpose(cotangent: Any, value: Any, *, alerts: Alerts) -> Any:
    # For jax.linear_transpose. The transpose of an operation that varies may vary too.
    zero = type(cotangent) is ad.Zero
    return (cotangent if zero else alert_p.bind(cotangent, alerts=alerts),)


alert_p.def_impl(_impl)
alert_p.def_abstract_eval(lambda value, *, alerts: value)
mlir.register_lowering(alert_p, functools.partial(_lower, None))
for _platform in spec.platforms():
    mlir.register_lowering(alert_p, functools.partial(_lower, _platform), platform=_platform)
ad.primitive_jvps[alert_p] = lambda primals, tangents, **params: (
    alert_p.bind(*primals, **params),
    tangents[0],
)
ad.primitive_transposes[alert_p] = _transpose
batching.primitive_batchers[alert_p] = lambda args, dims, **params: (
    alert_p.bind(*args, **params),
    dims[0],
)


def _pullback_jvp(primals: Any, tangents: Any, *, decision: Decision) -> Any:
    (value,), (tangent,) = primals, tangents
    if type(tangent) is not ad.Zero:
        tangent = alert_pullback(tangent, decision)
    return alert_pullback(value, decision), tangent


pullback_p.def_impl(lambda value, *, decision: value)
pullback_p.def_abstract_eval(lambda value, *, decision: value)
mlir.register_lowering(pullback_p, lambda context, value, *, decision: [value])
ad.primitive_jvps[pullback_p] = _pullback_jvp
ad.primitive_transposes[pullback_p] = lambda cotangent, value, *, decision: (
    cotangent if type(cotangent) is ad.Zero else alert(cotangent, decision),
)
batching.primitive_batchers[pullback_p] = lambda args, dims, **params: (
    pullback_p.bind(*args, **params),
    dims[0],
)
