"""Judges equations of a program, and instructions of a compiled one: which of them can vary.

The judgements about an equation are an ordered list, ``_JUDGEMENTS``. Each either decides, by a
``Finding`` or by ``SAME_BITS``, or leaves the equation to the next:

====================  ==============================================  ===========================
judgement             decides about                                   finding
====================  ==============================================  ===========================
``_by_own_decision``  primitives of this project, which hold the      deterministic, varies,
                      decision that the mode made                     raises, unknown
``_by_guarantee``     what ``portable`` refuses, or computes by a     raises
                      rule of its own
``_by_rule``          scatters that the mode orders or refuses        deterministic, raises
``_by_effect``        rows whose equations give the same bits         none
``_by_row``           any other row                                   varies, unknown
``_without_row``      primitives that no row is about                 unknown
====================  ==============================================  ===========================

For example the scatter-add of ``x.at[i].add(u)`` for a GPU: with the mode off, ``_by_row`` finds
that it varies; with the mode on, ``_by_rule`` finds that it is deterministic; and if ``i`` is an
iota, ``_by_effect`` finds nothing with the mode off.

The lowering rules, which order scatters, know shapes and no values. The audit knows some values
too, so ``_by_rule`` asks without them what the rule does, and with them whether it had to.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import spec
from impl._core import ordered_primitives
from impl._jax import rules as lowering_rules
from impl._mode.decide import Decision
from impl._mode.modes import Mode
from impl._portable import classes, refusal, unknown
from impl._reading import facts
from impl._reading.compiled import Instruction
from impl._reading.walk import Site, without_calls
from impl._run_to_run import rules
from impl.programs._auditing.report import Finding, Verdict

#: How the names of this project's primitives start.
OWN = "samebits_"
#: The judgement that an equation gives the same bits in each run.
SAME_BITS: Literal["same bits"] = "same bits"
_Judgement: TypeAlias = Finding | Literal["same bits"] | None

_NO_ROW = (
    "No row is about this primitive. Ask its author whether it adds floats with atomics, or run "
    "the program twice and compare the bits."
)
_TURN_ON = "Turn the mode on: `impl.use_deterministic_algorithms(True)`."
_NEEDLESS = (
    "The values show that no element gets two updates, which a lowering rule does not see. With "
    "`unique_indices=True`, in `.at[].get()` for the gradient of a gather, the mode orders nothing."
)
_COMPLETE = 'Pass `profile="complete"`, in which every operation is deterministic.'
#: Of `impl.alert_not_deterministic`: no profile has an algorithm of an op that has no row.
_OF_ANOTHER_LIBRARY = (
    "Call another op: the author of this one states that it varies on this device. Or let this one "
    "vary, inside of `with impl.deterministic(False)`."
)
_TRACED_OFF = "Call the op outside of `with impl.deterministic(False)`."
_EXEMPT = (
    "Nothing, if it may vary: it is inside of `with impl.deterministic(False)`, which lets "
    "it vary. Otherwise end that scope before it."
)
#: The primitives whose random bits depend on the device, by the implementation of the key.
_OF_A_DEVICE = {
    "rbg": frozenset({"random_bits"}),
    "unsafe_rbg": frozenset({"random_bits", "random_fold_in", "random_split"}),
}


class Judge:
    """Gives a verdict on equations.

    The mode holds when the program is compiled; a scope inside of it has a mode of its own. With
    ``timed_kernels``, XLA may pick kernels by timing.
    """

    def __init__(self, device: str, mode: Mode, timed_kernels: bool) -> None:
        self.device = device
        self.platform = spec.load().devices[device].platforms[0]
        self.mode = mode
        self.timed_kernels = timed_kernels
        self.replaced = {primitive.name for primitive in ordered_primitives.PRIMITIVES}

    def computed(self, equation: Any, mode: Mode | None) -> Any:
        """Returns the closed jaxpr that is lowered for a primitive that no row or class is about.

        It is None for any other, and where nothing tells what the primitive computes. The
        equation may be in a scope inside of the program, which has the mode.
        """
        portable = (mode or self.mode).portable and ordered_primitives.holds()
        return unknown.equations(equation, self.platform, portable=portable)

    def finding(self, site: Site) -> Finding | None:
        """Returns the finding about an equation; None if it gives the same bits anyway."""
        case = _Case(self, site)
        judged = (judgement(case) for judgement in _JUDGEMENTS)
        decided = next(each for each in judged if each is not None)
        return None if decided == SAME_BITS else decided

    def combining(self, site: Site) -> spec.Portability | None:
        """Returns the class of an equation that combines elements in an order of XLA's; else None.

        No order shows where no index repeats. A scatter that the mode orders has whole arrays on
        each device.
        """
        case = _Case(self, site)
        row, lowered = case.answer_for("any").row, case.lowered()
        has_no_order = row is not None and row.guarantee == "portable" and row.mode_off is None
        is_ordered = lowered is not None and lowered.effect == "ordered" and case.device.races
        if case.is_portable or has_no_order or is_ordered:
            return None
        stated = portability(site.name, site.equation, self.platform)
        return stated if stated is not None and stated.combines else None

    def of_instruction(self, instruction: Instruction) -> Finding | None:
        """Returns the finding about a compiled instruction; None if it gives the same bits."""
        name, loaded = instruction.primitive, spec.load()
        answer = spec.resolve_primitive(name, self.device, instruction.facts, loaded)
        row = answer.row
        races = row is not None and spec.varies(row, self.device, loaded)
        if _gives_the_same_bits(answer, races):
            return None
        source, library = instruction.lines.shown
        op = loaded.op_of_primitive.get(name, name)
        remedy, row_id = (_NO_ROW, None) if row is None else (answer.remedy, row.id)
        verdict: Verdict = "varies" if races else "unknown"
        return Finding(op, row_id, verdict, source, library, (), instruction.shapes, remedy)


class _Case:
    """One equation, and what the judgements ask about it."""

    def __init__(self, judge: Judge, site: Site) -> None:
        self.judge = judge
        self.site = site
        self.mode = site.mode or judge.mode
        self.has_decision = isinstance(site.equation.params.get("decision"), Decision)
        self.device = spec.load().devices[judge.device]

    @property
    def is_portable(self) -> bool:
        """Whether the guarantee ``portable`` decides about it."""
        return self.mode.portable and ordered_primitives.holds() and not self.has_decision

    @functools.cached_property
    def answer(self) -> spec.Answer:
        """The answer of the rows, with the values that are known."""
        return self.answer_for(self.judge.device)

    def answer_for(self, device: str) -> spec.Answer:
        """Returns the answer of the rows about a device, or about "any"."""
        return spec.resolve_primitive(self.site.name, device, self._facts())

    @functools.cached_property
    def races(self) -> bool:
        """Whether it varies on the device with the mode off."""
        row = self.answer.row
        return row is not None and spec.varies(row, self.judge.device, spec.load())

    @property
    def has_distinct_indices(self) -> bool:
        """Whether the values of its indices show that no element gets two updates."""
        return bool(self._facts().get("iota_indices"))

    def lowered(self) -> spec.Answer | None:
        """Returns what the lowering rule does, which sees no values; None if it does nothing."""
        holds = self.mode.enabled and ordered_primitives.holds()
        if not holds or self.site.name not in self.judge.replaced:
            return None
        device = rules.device_of(self.judge.platform, self.mode)
        stated = self._facts(with_values=False)
        answer = spec.resolve_primitive(self.site.name, device, stated)
        if answer.effect == "same" or (answer.effect == "raises" and self.mode.warn_only):
            return None
        return answer

    @property
    def op(self) -> str:
        """The name of the primitive, as users know it."""
        return spec.load().op_of_primitive.get(self.site.name, self.site.name)

    def found(
        self, op: str, row: str | None, verdict: Verdict, remedy: str | None, races: bool = True
    ) -> Finding:
        """Returns a finding about the equation."""
        source, library = self.site.lines.shown
        inside = without_calls(self.site.path)
        return Finding(op, row, verdict, source, library, inside, self.site.shapes, remedy, races)

    def _facts(self, *, with_values: bool = True) -> dict[str, spec.FactValue]:
        avals = [operand.aval for operand in self.site.equation.invars]
        return facts.facts_of(
            self.site.name,
            avals,
            self.site.equation.params,
            self.site.operands if with_values else None,
            timed_kernels=self.judge.timed_kernels,
        )


def _by_own_decision(case: _Case) -> _Judgement:
    """Decides about a primitive of this project, whose decision is among its parameters."""
    if not case.site.name.startswith(OWN):
        return None
    params = case.site.equation.params
    if "alerts" in params:
        alert = dict(params["alerts"]).get(case.judge.platform)
        if alert is None:
            return SAME_BITS
        verdict: Verdict = "raises" if alert.kind == "raise" else "varies"
        remedy = _OF_ANOTHER_LIBRARY if alert.row is None else _COMPLETE
        return case.found(alert.caller, alert.row, verdict, remedy)
    if not case.has_decision or case.site.name == "samebits_alert_pullback":
        return SAME_BITS
    decision: Decision = params["decision"]
    if not decision.actions:
        return case.found(case.site.name, None, "unknown", _TRACED_OFF)
    return SAME_BITS


def _by_platform(case: _Case) -> _Judgement:
    """Decides about an equation of floats that ``portable`` refuses on the platform."""
    if not (case.mode.portable and ordered_primitives.holds()):
        return None
    equation = case.site.equation
    avals = [variable.aval for variable in (*equation.invars, *equation.outvars)]
    refused = refusal.by_platform(case.judge.platform, avals)
    return None if refused is None else _refused(case, refused)


def portability(name: str, equation: Any, platform: str) -> spec.Portability | None:
    """Returns the class that decides about an equation, as it is lowered for a platform.

    An equation that draws from a key is lowered as another primitive than ``name``.
    """
    avals = [variable.aval for variable in (*equation.invars, *equation.outvars)]
    if unknown.is_unknown(
        equation.primitive, lowering_rules.registered(equation.primitive, platform)[0]
    ):
        return unknown.portability(classes.dtypes(avals))
    for aval in avals:
        kind = getattr(getattr(getattr(aval, "dtype", None), "_impl", None), "name", None)
        if name in _OF_A_DEVICE.get(str(kind), ()):
            return spec.portability("rng_bit_generator", ())
    return classes.class_of(name, avals, equation.params)


def _by_guarantee(case: _Case) -> _Judgement:
    """Decides about an equation that ``portable`` refuses, or computes by a rule of its own."""
    if not case.is_portable:
        return None
    site = case.site
    stated = portability(site.name, site.equation, case.judge.platform)
    if stated is None or stated.answer not in ("refused", "rule"):
        return None
    return SAME_BITS if stated.answer == "rule" else _refused(case, stated)


def _refused(case: _Case, stated: spec.Portability) -> Finding:
    site, reason = case.site, str(stated.reason)
    remedy = refusal.remedy(site.name, site.lines, stated.remedy)
    remedy = f"{reason[0].upper()}{reason[1:]}. {remedy}"
    verdict: Verdict = "varies" if case.mode.warn_only else "raises"
    return case.found(refusal.shown(site.name), None, verdict, remedy)


def _by_rule(case: _Case) -> _Judgement:
    """Decides about a scatter that the mode orders or refuses, also where it need not."""
    lowered = case.lowered()
    row = None if lowered is None else lowered.row
    if lowered is None or row is None:
        return None
    if lowered.effect == "raises":
        return case.found(row.op, row.id, "raises", lowered.remedy, case.races)
    if lowered.effect != "ordered" or not case.device.races:
        return SAME_BITS
    is_needless = not case.races and case.has_distinct_indices
    remedy = _NEEDLESS if is_needless else None
    return case.found(row.op, row.id, "deterministic", remedy, case.races)


def _by_effect(case: _Case) -> _Judgement:
    """Decides about an equation that gives the same bits with the mode off."""
    return SAME_BITS if _gives_the_same_bits(case.answer, case.races) else None


def _gives_the_same_bits(answer: spec.Answer, races: bool) -> bool:
    may_race = answer.row is not None and answer.row.mode_off is not None
    return answer.effect == "same" or (may_race and not races)


def _by_row(case: _Case) -> _Judgement:
    """Decides by a row about an equation that the mode does not order."""
    answer, site = case.answer, case.site
    if answer.row is None:
        return None
    remedy = refusal.remedy(site.name, site.lines, answer.remedy)
    if site.mode is not None and not site.mode.enabled:
        remedy = _EXEMPT
    elif answer.effect == "ordered" and not ordered_primitives.holds():
        remedy = f"{ordered_primitives.how_to_enable()} {remedy}"
    return case.found(case.op, answer.row.id, "varies" if case.races else "unknown", remedy)


def _without_row(case: _Case) -> _Judgement:
    """Decides about any other equation: only a class of ``portable`` may know it."""
    return SAME_BITS if case.is_portable else case.found(case.op, None, "unknown", _NO_ROW)


#: The judgements, in the order in which they are asked. The last one always decides.
_JUDGEMENTS: Sequence[Callable[[_Case], _Judgement]] = (
    _by_platform,
    _by_own_decision,
    _by_guarantee,
    _by_rule,
    _by_effect,
    _by_row,
    _without_row,
)
