"""From a call and the mode to what each device does: the one place where code asks the spec."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Literal

import spec
from impl._mode import emulation, switches
from impl._mode import modes as _mode
from impl._mode.emulation import Emulation
from impl._mode.modes import Mode
from impl._mode.switches import Switches

Path = Literal["atomic", "ordered"]


@dataclasses.dataclass(frozen=True)
class Alert:
    """What a device says of an op that has no deterministic implementation in the profile.

    Attributes:
        kind: ``raise`` (RuntimeError) or ``warn`` (UserWarning).
        caller: The name that the row gives to the op.
        row: Id of the row.
        profile: Name of the profile.
    """

    kind: Literal["raise", "warn"]
    caller: str
    row: str | None
    profile: str


@dataclasses.dataclass(frozen=True)
class Action:
    """What one device does with a call.

    Attributes:
        path: The path that the op takes.
        alert: What it says first, if anything.
        fill: Whether fresh memory is filled with a known value.
        row: Id of the row that decided; None where no row did.
    """

    path: Path = "atomic"
    alert: Alert | None = None
    fill: bool = False
    row: str | None = None


@dataclasses.dataclass(frozen=True)
class Decision:
    """An action per platform; hashable, so that it can be a static parameter of a primitive.

    Attributes:
        actions: Pairs of platform and action.
        elsewhere: The action on platforms that are not named.
        emulation: How a CPU stands in for another device, in tests.
    """

    actions: tuple[tuple[str, Action], ...] = ()
    elsewhere: Action = Action()
    emulation: Emulation | None = None

    def on(self, platform: str) -> Action:
        """The action on a platform, or on the one that it stands in for."""
        if self.emulation is not None and platform == "cpu":
            platform = self.emulation.platform
        return dict(self.actions).get(platform, self.elsewhere)

    @property
    def of_derivatives(self) -> Decision:
        """For derivatives that add up, of an op that gives the same bits in every order.

        A platform that keeps no order because the op needs none keeps one for them.
        """

        def ordered(action: Action) -> Action:
            free = action.row is not None and action.alert is None and not action.fill
            return dataclasses.replace(action, path="ordered") if free else action

        return dataclasses.replace(
            self,
            actions=tuple((platform, ordered(action)) for platform, action in self.actions),
            elsewhere=ordered(self.elsewhere),
        )

    @property
    def alerts(self) -> tuple[tuple[str, Alert], ...]:
        """The platforms that say something, as they are after emulation."""
        named = ((platform, self.on(platform).alert) for platform in spec.load().platforms)
        return tuple((platform, alert) for platform, alert in named if alert is not None)


@dataclasses.dataclass(frozen=True)
class Question:
    """What an op asked: which op, which direction, and what it stated of the call."""

    op: str
    direction: spec.Direction
    facts: spec.Facts


_listening: ContextVar[tuple[list[Question], ...]] = ContextVar("_listening", default=())


@contextlib.contextmanager
def questions() -> Iterator[list[Question]]:
    """Collects, inside, what ops ask in this thread; a traced function asks when it is traced."""
    asked: list[Question] = []
    token = _listening.set((*_listening.get(), asked))
    try:
        yield asked
    finally:
        _listening.reset(token)


def decide(op: str, direction: spec.Direction = "forward", /, **facts: spec.FactValue) -> Decision:
    """Asks the spec what a call does on each platform under the mode and switches of this thread.

    Args:
        op: Dotted name of the op, as the rows have it.
        direction: ``forward``, or ``backward`` for the decision of its pullback. Decide in the
            forward pass and carry the decision: the mode is that of the forward pass.
        **facts: What the op knows of this call; names and values are those of ``facts.toml``.

    Raises:
        spec.SpecError: A fact is unknown, of the wrong type, or was asked for and not stated.
    """
    for questions in _listening.get():
        questions.append(Question(op, direction, MappingProxyType(dict(facts))))
    emulated = emulation.current()
    mode, turned = _mode.current(), switches.current()
    if not mode.enabled and turned == Switches():
        return Decision(emulation=emulated)
    return _decide(op, direction, tuple(sorted(facts.items())), mode, turned, emulated)


@functools.lru_cache(maxsize=4096)
def _decide(
    op: str,
    direction: spec.Direction,
    facts: tuple[tuple[str, spec.FactValue], ...],
    mode: Mode,
    turned: Switches,
    emulated: Emulation | None,
) -> Decision:
    stated = dict(facts)
    spec.check_facts(stated, spec.load().facts)
    on = {name for name, value in turned.facts(mode).items() if value is True}
    return Decision(
        actions=tuple(
            (platform, _action(op, direction, device.name, stated, mode, on))
            for platform, device in spec.load().platforms.items()
        ),
        elsewhere=_action(op, direction, "any", stated, mode, on),
        emulation=emulated,
    )


def _action(
    op: str,
    direction: spec.Direction,
    device: str,
    facts: spec.Facts,
    mode: Mode,
    on: Collection[str],
) -> Action:
    rules = spec.load()
    row = spec.deciding_row(rules.rows, op, direction, device, facts, mode.profile)
    if row is None or not (mode.enabled or row.switch in on):
        return Action()
    behaviour = row.behaviour[mode.profile]
    if behaviour == "raise":
        # The path stays atomic: with warn_only the op runs as it would with the mode off.
        kind: Literal["raise", "warn"] = "warn" if mode.warn_only else "raise"
        return Action(alert=Alert(kind, row.caller or row.op, row.id, mode.profile), row=row.id)
    if behaviour == "fill":
        return Action(fill=True, row=row.id)
    order = rules.orders[row.order] if row.order is not None else None
    free = order is not None and any(_states(when, facts) for when in order.order_free_when)
    return Action(path="atomic" if free else "ordered", row=row.id)


def _states(when: Mapping[str, spec.model.Test], facts: spec.Facts) -> bool:
    """Whether the op stated these facts and they hold; not every op has every fact."""
    return set(when) <= set(facts) and spec.holds(when, facts)
