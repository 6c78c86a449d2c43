"""Decides what each platform does with a call of an op, from the mode and the spec's rows.

No other module asks the spec about an op. A decision is made when a call is traced, when the
device is not known yet, so it has an action for each platform; lowering rules carry it out. With
the mode on, ``impl.index_add`` of floats asks and gets:

    decide("index_add", "forward", dtype="floating", input_ndim=1, unique_indices=False)

    cpu        row R0002      no alert, and nothing to fill
    cuda       row R0001      the same; under the profile torch-2.12, `put_` has an alert there
    elsewhere  no row         no row is about any other platform
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Collection, Iterator
from contextvars import ContextVar
from types import MappingProxyType
from typing import Literal

import spec
from impl._core import eager, ordered_primitives
from impl._mode import emulation, switches
from impl._mode import modes as _mode
from impl._mode.emulation import Emulation
from impl._mode.modes import Mode
from impl._mode.switches import Switches


@dataclasses.dataclass(frozen=True)
class Alert:
    """The error or warning of an op that has no deterministic implementation in the profile.

    The row is None for an op without one, and so is the remedy of a row that gives no advice.
    """

    kind: Literal["raise", "warn"]
    caller: str
    row: str | None
    profile: str
    remedy: str | None = None


@dataclasses.dataclass(frozen=True)
class Action:
    """The behaviour of one platform in one call: an alert before it, and whether memory is filled.

    The row is the one that decided, if any did.
    """

    alert: Alert | None = None
    fill: bool = False
    row: str | None = None


@dataclasses.dataclass(frozen=True)
class Decision:
    """An action for each platform; hashable, so that it can be a static parameter of a primitive.

    ``emulation`` is the stand-in of tests, in which a CPU acts as another device.
    """

    actions: tuple[tuple[str, Action], ...] = ()
    elsewhere: Action = Action()
    emulation: Emulation | None = None

    def on(self, platform: str) -> Action:
        """Returns the action on a platform, or on the platform that it stands in for."""
        if self.emulation is not None and platform == "cpu":
            platform = self.emulation.platform
        return dict(self.actions).get(platform, self.elsewhere)

    @property
    def alerts(self) -> tuple[tuple[str, Alert], ...]:
        """Pairs of a platform and its alert; a stand-in has the alert of its other platform."""
        alerts = ((platform, self.on(platform).alert) for platform in spec.platforms())
        return tuple((platform, alert) for platform, alert in alerts if alert is not None)


@dataclasses.dataclass(frozen=True)
class Question:
    """The arguments of one ``decide``: an op asks what to do with a call.

    Attributes:
        op: Dotted name of the op.
        direction: ``forward`` or ``backward``.
        facts: The facts that the op states of the call, by name.
    """

    op: str
    direction: spec.Direction
    facts: spec.Facts


#: The lists of the open ``questions()`` scopes of this thread.
_records: ContextVar[tuple[list[Question], ...]] = ContextVar("_records", default=())


@contextlib.contextmanager
def questions() -> Iterator[list[Question]]:
    """Records the questions that ops ask in this thread; a jitted function asks when traced.

    Inside the scope, each ``Question`` is appended to the list.
    """
    record: list[Question] = []
    token = _records.set((*_records.get(), record))
    try:
        with eager.as_written():
            yield record
    finally:
        _records.reset(token)


def decide(op: str, direction: spec.Direction = "forward", /, **facts: spec.FactValue) -> Decision:
    """Returns what each platform does with a call, under the mode and switches of this thread.

    Args:
        op: Dotted name of the op, as in the rows.
        direction: ``forward``, or ``backward`` for the gradient function. Decide both in the
            forward pass and pass the decision on, since the mode of the forward pass counts.
        **facts: The facts of this call; ``facts.toml`` has the names and values.

    Raises:
        spec.SpecError: In any mode: no row is about the op or the direction, or no row of the op
            asks for one of the facts. With the mode or a switch on: a fact has the wrong type, or a
            row needs a fact that is not stated.
    """
    _check(op, direction, frozenset(facts))
    for record in _records.get():
        record.append(Question(op, direction, MappingProxyType(dict(facts))))
    stand_in = emulation.current()
    mode, state = _mode.current(), switches.current()
    if not mode.enabled and state == Switches():
        return Decision(emulation=stand_in)
    given = tuple(sorted(facts.items()))
    return _decide(op, direction, given, mode, state, stand_in, ordered_primitives.holds())


def decide_both(op: str, /, **facts: spec.FactValue) -> tuple[Decision, Decision]:
    """Returns the decisions about a call and about its gradient function."""
    return decide(op, **facts), decide(op, "backward", **facts)


@functools.lru_cache(maxsize=4096)
def _check(op: str, direction: spec.Direction, names: frozenset[str]) -> None:
    """Refuses a question that no row can answer: a misspelt name must not pass for safe."""
    spec.check_question(op, direction, names, spec.load())


@functools.lru_cache(maxsize=4096)
def _decide(
    op: str,
    direction: spec.Direction,
    facts: tuple[tuple[str, spec.FactValue], ...],
    mode: Mode,
    state: Switches,
    stand_in: Emulation | None,
    are_ordered: bool,
) -> Decision:
    by_name = dict(facts)
    spec.check_facts(by_name, spec.load().facts)
    switches_on = {name for name, value in state.facts(mode).items() if value is True}
    return Decision(
        actions=tuple(
            (platform, _action(op, direction, device.name, by_name, mode, switches_on, are_ordered))
            for platform, device in spec.load().platforms.items()
        ),
        elsewhere=_action(op, direction, "any", by_name, mode, switches_on, are_ordered),
        emulation=stand_in,
    )


def _action(
    op: str,
    direction: spec.Direction,
    device: str,
    facts: spec.Facts,
    mode: Mode,
    switches_on: Collection[str],
    are_ordered: bool,
) -> Action:
    rules = spec.load()
    answer = spec.resolve(op, direction, device, facts, mode.profile, rules)
    row = answer.row
    if row is None or not (mode.enabled or row.switch in switches_on):
        return Action()
    if answer.behaviour == "raise":
        kind: Literal["raise", "warn"] = "warn" if mode.warn_only else "raise"
        caller = row.callers.get(mode.profile, row.op)
        return Action(alert=Alert(kind, caller, row.id, mode.profile), row=row.id)
    if answer.behaviour == "fill":
        return Action(fill=True, row=row.id)
    alert = None
    if not are_ordered and mode.enabled and spec.varies(row, device, rules):
        remedy = ordered_primitives.how_to_enable()
        alert = Alert("warn" if mode.warn_only else "raise", row.op, row.id, mode.profile, remedy)
    return Action(alert=alert, row=row.id)
