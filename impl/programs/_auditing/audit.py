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

import spec
from impl._core import native_scatter
from impl._core.jax_internals import jaxprs
from impl._mode import checks, flags, modes
from impl._mode.decide import Decision
from impl._mode.modes import Mode
from impl._portable import refusal, unknown
from impl._reading import compiled, facts
from impl._reading.compiled import Instruction
from impl._reading.source import Lines
from impl._reading.tracing import check_device, check_gpu, compiled_text, trace
from impl._reading.values import Scope
from impl._reading.walk import Site, walk
from impl._run_to_run import rules as _rules
from impl.programs._auditing import notes as _portable_notes
from impl.programs._auditing.report import Finding, Report, Verdict, grouped

LEVELS = ("program", "compiled")
#: How the names of equations start whose kernels no compiled program shows.
_KERNELS = ("pallas_call", "samebits_")
_NO_ROW = (
    "No row is about this primitive. Ask its author whether it adds floats with atomics, or run "
    "the program twice and compare the bits."
)
_TURN_ON = "Turn the mode on: `impl.use_deterministic_algorithms(True)`."
_NEEDLESS = (
    "The values show that no element gets two updates, which a lowering rule does not see. With "
    "`unique_indices=True`, in `.at[].get()` for the gradient of a gather, the mode orders nothing."
)
_SHARDED = (
    "Arguments are on several devices: XLA may add sums over devices, which no equation shows. "
    'level="compiled" shows them.'
)
_COMPLETE = 'Pass `profile="complete"`, in which every operation is deterministic.'
#: Of `impl.alert_not_deterministic`: no profile has an algorithm of an op that has no row.
_OF_ANOTHER_LIBRARY = (
    "Call another op. Its author states that it varies on this device. Or wrap it in "
    "`with impl.deterministic(False)`, to let it vary."
)
_MADE_OFF = "Call the op outside of `with impl.deterministic(False)`."
_LEFT = (
    "Nothing, if it may vary: it is inside of `with impl.deterministic(False)`, which lets it. "
    "Otherwise end the scope before it."
)


def audit(
    function: Callable[..., Any],
    *,
    device: str = "cuda",
    level: str = "program",
    gpu: str | None = None,
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
    of the kind ``primitive`` decide. Equations that give the same bits anyway are not listed,
    unless the mode orders or refuses them nevertheless: its rules do not see values, the audit sees
    some.

    Under the guarantee ``portable`` the findings are also the equations that it refuses, with their
    lines and with advice.

    Args:
        function: The program.
        device: The device that the verdicts are about: "cpu" or "cuda".
        level: "program" reads the equations of the program. "compiled" has XLA compile it for the
            device at hand, and reads its instructions: also the sums over devices that XLA adds,
            and without what it drops. Kernels of Pallas are read as equations.
        gpu: The name of a GPU that "compiled" compiles for, such as "h100"; it need not be there,
            but JAX's plugins for CUDA must be installed. None takes the device at hand.

    Returns:
        A function of the program's arguments, which may be arrays or ``jax.ShapeDtypeStruct``. It
        returns a ``Report`` with the attributes ``findings`` and ``ok``, which is True if nothing
        varies, is unknown or raises. Each finding has the
        attributes ``primitive``, ``row``, ``verdict``, ``source``, ``shapes``, ``remedy`` and
        ``count``. ``str()`` of the report is a table, and ``as_dict()`` returns plain data.

    Raises:
        TypeError: ``function`` is not callable.
        ValueError: ``device`` is not a device of the spec that JAX has a platform for, or there is
            no such level or GPU.
        RuntimeError: ``level`` is "compiled", and the device at hand is another one, or this
            process cannot compile for ``gpu``.
    """
    checks.check_callable("audit", "function", function)
    checks.check_choice("audit", "device", device, spec.DEVICES)
    checks.check_choice("audit", "level", level, LEVELS)
    if gpu is not None:
        check_gpu(device, level, gpu)
    elif level == "compiled":
        check_device(device)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Report:
        mode = modes.current()
        closed, options = trace(function, args, kwargs, mode)
        rules = spec.load()
        timed = times_kernels(options)
        judge = Judge(device, mode, timed)
        scope = Scope(closed.jaxpr, jaxprs.constants(closed))
        platform = rules.devices[device].platforms[0]
        is_leaf = rules.op_of_primitive.__contains__
        sites = list(walk(scope, is_leaf, platform=platform, computed=judge.computed))
        if level == "compiled":
            sites = [site for site in sites if site.name.startswith(_KERNELS)]
        findings = [finding for site in sites if (finding := judge.finding(site)) is not None]
        count = len(sites)
        if level == "compiled":
            text = compiled_text(function, args, kwargs, gpu)
            made, count = compiled.instructions(text, timed_kernels=timed)
            findings += [f for each in made if (f := judge.of_instruction(each)) is not None]
        notes: tuple[str, ...] = ()
        if not mode.portable and level != "compiled":
            notes = _notes(args, kwargs)
        if _rules.holds():
            notes += _portable_notes.notes(sites, mode)
        return Report(device, in_words(mode), grouped(findings), count, level, notes)

    return run


def _notes(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns what no equation of a program with these arguments shows."""
    arrays = [leaf for leaf in jax.tree.leaves((args, dict(kwargs))) if isinstance(leaf, jax.Array)]
    if any(len(array.sharding.device_set) > 1 for array in arrays):
        return (_SHARDED,)
    return ()


def times_kernels(options: Mapping[str, Any]) -> bool:
    """Returns whether XLA may pick kernels by timing, under a program's compiler options."""
    given = flags.parsed(os.environ.get(flags.VARIABLE, ""))
    given |= {name: str(value).lower() for name, value in options.items()}
    rows = spec.load().select(op="compiler.templates")
    required = {name: value for row in rows for name, value in row.options.items()}
    return any(
        flags.one_spelling(given.get(name, "")) != flags.one_spelling(str(value).lower())
        for name, value in required.items()
    )


class Judge:
    """Gives a verdict on equations.

    Args:
        device: The device.
        mode: The mode that holds when the program is compiled. A scope inside of the program has a
            mode of its own.
        timed_kernels: Whether XLA may pick kernels by timing.
    """

    def __init__(self, device: str, mode: Mode, timed_kernels: bool) -> None:
        self._device = device
        self._platform = spec.load().devices[device].platforms[0]
        self._mode = mode
        self._timed = timed_kernels
        self._replaced = {primitive.name for primitive in native_scatter.replaced_primitives()}

    def computed(self, equation: Any, mode: Mode | None) -> Any:
        """Returns the closed jaxpr that is lowered for a primitive that no row or class is about.

        It is None for any other, and where nothing tells what the primitive computes.

        Args:
            equation: The equation.
            mode: The mode of the scope inside of the program that it is in; None for no scope.
        """
        portable = (mode or self._mode).portable and _rules.holds()
        return unknown.equations(equation, self._platform, portable=portable)

    def finding(self, site: Site) -> Finding | None:
        """Returns the finding about an equation; None if it gives the same bits anyway."""
        if site.name.startswith("samebits_"):
            return self._of_own(site)
        rules = spec.load()
        own = isinstance(site.equation.params.get("decision"), Decision)
        portable = self._mode_of(site).portable and _rules.holds() and not own
        if portable:
            found = _portable_notes.portability(site.name, site.equation, self._platform)
            if found is not None and found.answer == "refused":
                return self._of_refusal(site, found)
            if found is not None and found.answer == "rule":
                return None
        answer = spec.resolve_primitive(site.name, self._device, self._facts(site), rules)
        races = answer.row is not None and spec.varies(answer.row, self._device, rules)
        lowered = self._lowered(site)
        if lowered is not None and lowered.row is not None:
            made = lowered.effect == "ordered" and rules.devices[self._device].races
            verdict: Verdict = "deterministic" if made else "raises"
            if verdict == "raises" and lowered.effect != "raises":
                return None
            remedy = lowered.remedy if verdict == "raises" else self._spared(site, races)
            return _finding(site, lowered.row.op, lowered.row.id, verdict, remedy, races)
        if answer.effect == "same" or (
            answer.row is not None and answer.row.mode_off and not races
        ):
            return None
        op = rules.op_of_primitive.get(site.name, site.name)
        if answer.row is None and portable:
            return None
        if answer.row is None:
            return _finding(site, op, None, "unknown", _NO_ROW)
        remedy = refusal.remedy(site.name, site.lines, answer.remedy)
        if site.mode is not None and not site.mode.enabled:
            remedy = _LEFT
        elif answer.effect == "ordered" and not _rules.holds():
            remedy = f"{_rules.how_to_enable()} {remedy}"
        return _finding(site, op, answer.row.id, "varies" if races else "unknown", remedy)

    def _of_refusal(self, site: Site, found: spec.Portability) -> Finding:
        """Returns the finding about an equation that the guarantee ``portable`` refuses."""
        op = refusal.shown(site.name)
        reason = str(found.reason)
        remedy = refusal.remedy(site.name, site.lines, found.remedy)
        remedy = f"{reason[0].upper()}{reason[1:]}. {remedy}"
        refused: Verdict = "varies" if self._mode_of(site).warn_only else "raises"
        return _finding(site, op, None, refused, remedy)

    def _mode_of(self, site: Site) -> Mode:
        return site.mode or self._mode

    def _facts(self, site: Site, *, with_values: bool = True) -> dict[str, spec.FactValue]:
        equation = site.equation
        avals = [operand.aval for operand in equation.invars]
        values = site.operands if with_values else None
        return facts.facts_of(site.name, avals, equation.params, values, timed_kernels=self._timed)

    def _lowered(self, site: Site) -> spec.Answer | None:
        """Returns what the lowering rule does, which sees no values; None if it does nothing."""
        mode = self._mode_of(site)
        if not (mode.enabled and _rules.holds() and site.name in self._replaced):
            return None
        device = _rules.device_of(self._platform, mode)
        answer = spec.resolve_primitive(site.name, device, self._facts(site, with_values=False))
        if answer.effect == "same" or (answer.effect == "raises" and mode.warn_only):
            return None
        return answer

    def _spared(self, site: Site, races: bool) -> str | None:
        """Returns advice about an equation that is ordered although it does not race."""
        return None if races or not self._facts(site).get("iota_indices") else _NEEDLESS

    def of_instruction(self, instruction: Instruction) -> Finding | None:
        """Returns the finding about a compiled instruction; None if it gives the same bits."""
        rules = spec.load()
        name = instruction.primitive
        answer = spec.resolve_primitive(name, self._device, instruction.facts, rules)
        row = answer.row
        races = row is not None and spec.varies(row, self._device, rules)
        if answer.effect == "same" or (row is not None and row.mode_off and not races):
            return None
        source, library = _named(instruction.lines)
        op = rules.op_of_primitive.get(name, name)
        remedy, row_id = (_NO_ROW, None) if row is None else (answer.remedy, row.id)
        verdict: Verdict = "varies" if races else "unknown"
        return Finding(op, row_id, verdict, source, library, (), instruction.shapes, remedy)

    def _of_own(self, site: Site) -> Finding | None:
        """Returns the finding about a primitive of this project, whose decision is in it."""
        params = site.equation.params
        rules = spec.load()
        if "alerts" in params:
            alert = dict(params["alerts"]).get(self._platform)
            if alert is None:
                return None
            refused: Verdict = "raises" if alert.kind == "raise" else "varies"
            remedy = _OF_ANOTHER_LIBRARY if alert.row is None else _COMPLETE
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
        if self._mode_of(site).enabled:
            return _finding(site, row.op, row.id, "deterministic", None)
        return _finding(site, row.op, row.id, "varies", _TURN_ON)


def _finding(
    site: Site,
    primitive: str,
    row: str | None,
    verdict: Verdict,
    remedy: str | None,
    races: bool = True,
) -> Finding:
    source, library = _named(site.lines)
    inside = _without_jits(site.path)
    return Finding(primitive, row, verdict, source, library, inside, site.shapes, remedy, races)


def _named(lines: Lines) -> tuple[str, str | None]:
    """Returns the line that a person acts on, and that of the library beside it."""
    return lines.user or lines.library or "unknown source", lines.library if lines.user else None


def _without_jits(path: Collection[str]) -> tuple[str, ...]:
    """Returns the path without equations that only call a function, which tell a person little."""
    calls = ("jit", "pjit", "closed_call", "core_call")
    return tuple(part for part in path if part.partition(" ")[0] not in calls)


def in_words(mode: Mode) -> str:
    """Returns the mode in words, and whether it holds for JAX's own primitives."""
    if not mode.enabled:
        return "the mode off"
    warns = ", warn_only=True" if mode.warn_only else ""
    part = "" if _rules.holds() else ", but not for JAX's own primitives"
    asks = f", guarantee={mode.guarantee!r}" if mode.portable else ""
    return f"the mode on (profile={mode.profile!r}{warns}{asks}){part}"
