"""``impl.audit``: lists every equation of a program that can vary from run to run on a device.

It traces the program and asks the spec's rows about each equation. Nothing is compiled or run, so
it needs no GPU.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import numpy as np

import spec
from impl._core import jax_internals
from impl._mode import compilation, modes
from impl._mode.decide import Decision
from impl._mode.modes import Mode
from impl.programs import _facts
from impl.programs._report import Finding, Report, Verdict, grouped
from impl.programs._values import Scope
from impl.programs._walk import Site, walk

_NO_ROW = (
    "No row is about this primitive. Ask its author whether it adds floats with atomics, or run "
    "the program twice and compare the bits."
)
_TURN_ON = "Turn the mode on: `impl.use_deterministic_algorithms(True)`."
_MADE_OFF = "Call the op outside of `with impl.deterministic(False)`."


def audit(
    function: Callable[..., Any], *, device: str = "cuda", level: str = "program"
) -> Callable[..., Report]:
    """Returns a function that lists what can vary from run to run in a program.

    Call the result with the program's arguments. The report holds for the mode of the calling
    thread, as if the program was compiled there and then::

        report = impl.audit(train_step)(params, batch)
        print(report)
        assert report.ok

    Pass a whole training step: the gradients are a part of it. The program is traced, and neither
    compiled nor run, so that no GPU is needed. A function that ``jax.jit`` or ``impl.jit`` returned
    is traced as it is, with its static arguments and its compiler options. Of any other function
    the arrays are traced; other arguments are constants.

    A finding is an equation that could vary with the mode off, or that no row is about. The rows
    of the kind ``primitive`` decide. Equations that give the same bits anyway are not listed.

    Args:
        function: The program.
        device: The device that the verdicts are about: "cpu" or "cuda".
        level: "program" reads the equations of the program.

    Returns:
        A function of the program's arguments, which may be arrays or ``jax.ShapeDtypeStruct``. It
        returns a ``Report`` with the attributes ``findings`` and ``ok``. Each finding has the
        attributes ``primitive``, ``row``, ``verdict``, ``source``, ``shapes``, ``remedy`` and
        ``count``. ``str()`` of the report is a table, and ``as_dict()`` returns plain data.

    Raises:
        ValueError: ``device`` is not a device of the spec that JAX has a platform for, or there is
            no such level.
    """
    if device not in spec.DEVICES:
        raise ValueError(
            f"audit(): argument 'device' got {device!r}; allowed: "
            f"{', '.join(map(repr, spec.DEVICES))}"
        )
    if level != "program":
        raise ValueError(f"audit(): argument 'level' got {level!r}; allowed: 'program'")

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Report:
        mode = modes.current()
        closed, options = trace(function, args, kwargs, mode)
        rules = spec.load()
        judge = Judge(device, mode, times_kernels(options))
        scope = Scope(closed.jaxpr, dict(zip(closed.jaxpr.constvars, closed.consts, strict=False)))
        sites = list(walk(scope, lambda name: name in rules.op_of_primitive))
        findings = [finding for site in sites if (finding := judge.finding(site)) is not None]
        return Report(device, _in_words(mode), grouped(findings), len(sites))

    return run


def trace(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], mode: Mode
) -> tuple[Any, Mapping[str, Any]]:
    """Returns the closed jaxpr of a program, and the compiler options that it has.

    The program is traced with the mode on, so that the ops of ``impl`` ask the rows.
    """
    profile = mode.profile if mode.enabled else spec.load().own_profile
    with modes.deterministic(True, warn_only=mode.warn_only, profile=profile):
        if isinstance(function, jax.stages.Wrapped | compilation.Jitted):
            traced = function.trace(*args, **kwargs)
            return traced.jaxpr, jax_internals.traced_options(traced)
        leaves, tree = jax.tree.flatten((args, dict(kwargs)))
        arrays = [i for i, leaf in enumerate(leaves) if is_array(leaf)]

        def of_arrays(*values: Any) -> Any:
            full = list(leaves)
            for i, value in zip(arrays, values, strict=True):
                full[i] = value
            positional, named = jax.tree.unflatten(tree, full)
            return [x for x in jax.tree.leaves(function(*positional, **named)) if is_array(x)]

        return jax.make_jaxpr(of_arrays)(*[leaves[i] for i in arrays]), {}


def is_array(leaf: Any) -> bool:
    """Returns whether a leaf of the arguments is an array, or stands for one."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def times_kernels(options: Mapping[str, Any]) -> bool:
    """Returns whether XLA may pick kernels by timing, under a program's compiler options."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    given = dict(flag.removeprefix("--").partition("=")[::2] for flag in flags)
    given |= {name: str(value).lower() for name, value in options.items()}
    rows = spec.load().select(op="compiler.templates")
    required = {name: value for row in rows for name, value in row.options.items()}
    return any(given.get(name) != str(value).lower() for name, value in required.items())


class Judge:
    """Gives a verdict on equations.

    Args:
        device: The device.
        mode: The mode that holds when the program is compiled.
        timed_kernels: Whether XLA may pick kernels by timing.
    """

    def __init__(self, device: str, mode: Mode, timed_kernels: bool) -> None:
        self._device = device
        self._platform = spec.load().devices[device].platforms[0]
        self._mode = mode
        self._timed = timed_kernels

    def finding(self, site: Site) -> Finding | None:
        """Returns the finding about an equation; None if it gives the same bits anyway."""
        if site.name.startswith("samebits_"):
            return self._of_own(site)
        rules = spec.load()
        stated = _facts.facts(
            site.name,
            [operand.aval for operand in site.equation.invars],
            site.equation.params,
            site.operands,
            timed_kernels=self._timed,
        )
        answer = spec.resolve_primitive(site.name, self._device, stated, rules)
        if answer.effect == "same":
            return None
        op = rules.op_of_primitive.get(site.name, site.name)
        if answer.row is None:
            return _finding(site, op, None, "unknown", _NO_ROW)
        races = spec.varies(answer.row, self._device, rules)
        verdict: Verdict = "varies" if races else "unknown"
        if self._mode.enabled and answer.effect == "ordered":
            verdict = "deterministic"
        elif self._mode.enabled and answer.effect == "raises" and not self._mode.warn_only:
            verdict = "raises"
        remedy = None if verdict == "deterministic" else answer.remedy
        return _finding(site, op, answer.row.id, verdict, remedy)

    def _of_own(self, site: Site) -> Finding | None:
        """Returns the finding about a primitive of this project, whose decision is in it."""
        params = site.equation.params
        rules = spec.load()
        if "alerts" in params:
            alert = dict(params["alerts"]).get(self._platform)
            if alert is None:
                return None
            refused: Verdict = "raises" if alert.kind == "raise" else "varies"
            remedy = 'Pass `profile="complete"`, in which every operation is deterministic.'
            return _finding(site, alert.caller, alert.row, refused, remedy)
        decision = params.get("decision")
        if not isinstance(decision, Decision) or site.name == "samebits_alert_pullback":
            return None
        if not decision.actions:
            return _finding(site, site.name, None, "unknown", _MADE_OFF)
        action = decision.on(self._platform)
        if action.row is None or action.alert is not None or action.path != "ordered":
            return None
        row = rules.row(action.row)
        if not spec.varies(row, self._device, rules):
            return None
        if self._mode.enabled:
            return _finding(site, row.op, row.id, "deterministic", None)
        return _finding(site, row.op, row.id, "varies", _TURN_ON)


def _finding(
    site: Site, primitive: str, row: str | None, verdict: Verdict, remedy: str | None
) -> Finding:
    lines = site.lines
    source = lines.user or lines.library or "unknown source"
    library = lines.library if lines.user else None
    inside = _without_jits(site.path)
    return Finding(primitive, row, verdict, source, library, inside, site.shapes, remedy)


def _without_jits(path: Collection[str]) -> tuple[str, ...]:
    """Returns the path without equations that only call a function, which tell a person little."""
    calls = ("jit", "pjit", "closed_call", "core_call")
    return tuple(part for part in path if part.partition(" ")[0] not in calls)


def _in_words(mode: Mode) -> str:
    if not mode.enabled:
        return "the mode off"
    warns = ", warn_only=True" if mode.warn_only else ""
    return f"the mode on (profile={mode.profile!r}{warns})"
