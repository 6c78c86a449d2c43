"""The doctor's report: items with a verdict each, as data, as text and for JSON."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from impl.programs._auditing.report import wrapped

Verdict: TypeAlias = Literal["fixed", "varies per process", "varies per machine", "unknown"]

#: The verdicts on items that are not fixed, in the sequence of the text.
_URGENT: tuple[Verdict, ...] = ("varies per process", "unknown", "varies per machine")
#: The sections about a file that ran, and those that come before the settings of the process.
_OF_A_FILE = ("Programs", "Generators")
_IMPORTANT = (*_OF_A_FILE, "Mode", "Seeds", "Compiler options of impl.jit")
#: The first entry of ``Report.as_dict()``: it changes when ``schema.json`` does.
SCHEMA = 2


@dataclasses.dataclass(frozen=True)
class Item:
    """A setting or a fact that can change bits.

    Attributes:
        section: The heading under which it is reported.
        name: Its name, unique in its section.
        value: Its value as text; None if it is not set or does not exist.
        verdict: ``fixed``; ``varies per process`` if two processes on this machine may compute
            other bits because of it; ``varies per machine`` if two machines with this installation
            and environment may; ``unknown`` if nothing tells.
        reason: The reason for the verdict, in a sentence or two.
        remedy: An instruction after which it no longer varies; None if it is fixed, or if no
            setting can fix it (the kind of device, for example).
    """

    section: str
    name: str
    value: str | None
    verdict: Verdict
    reason: str
    remedy: str | None = None

    @property
    def varies(self) -> bool:
        """True if the verdict is not ``fixed``."""
        return self.verdict != "fixed"


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of ``impl.doctor()``; ``python -m impl doctor`` prints it as text.

    Attributes:
        platform: ``cpu``, ``gpu`` or ``tpu``; None if JAX could not start.
        items: All items, section by section.
        ran: Facts about the file that ran before the report; None if none did.
    """

    platform: str | None
    items: tuple[Item, ...]
    ran: Mapping[str, str | int | None] | None = None

    @property
    def varying(self) -> tuple[Item, ...]:
        """The items that are not fixed and have a remedy: ``doctor --strict`` fails if one is."""
        return tuple(item for item in self.items if item.varies and item.remedy is not None)

    def item(self, name: str) -> Item:
        """Returns the first item of a name.

        Args:
            name: The name of a setting or a fact.

        Raises:
            KeyError: No item has that name.
        """
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(name)

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as plain data, in the form of ``schema.json``, next to this module."""
        return {
            "schema": SCHEMA,
            "platform": self.platform,
            "ran": None if self.ran is None else dict(self.ran),
            "varying": [item.name for item in self.varying],
            "items": [dataclasses.asdict(item) for item in self.items],
        }

    def text(self, width: int = 100, *, every: bool = False) -> str:
        """Returns the report as a table: first what varies, by importance, then what a file did.

        Args:
            width: Greatest length of a line in characters; a long value makes a line longer.
            every: True for the settings and facts that are fixed too.
        """
        varies = sorted((item for item in self.items if item.varies), key=_importance)
        fixed = [i for i in self.items if not i.varies and (every or i.section in _OF_A_FILE)]
        names = max((len(item.name) for item in (*varies, *fixed)), default=0)
        lines = []
        for verdict, items in itertools.groupby(varies, key=lambda item: item.verdict):
            lines += _lines(verdict.capitalize(), list(items), names, width)
        for section, items in itertools.groupby(fixed, key=lambda item: item.section):
            lines += _lines(f"Fixed: {section}", list(items), names, width)
        return "\n".join([*lines, _summary(self, len(varies) + len(fixed))])

    def __str__(self) -> str:
        return self.text()


def _importance(item: Item) -> tuple[int, int]:
    """Returns the position of an item that varies; equal items keep their order."""
    of_section = _IMPORTANT.index(item.section) if item.section in _IMPORTANT else len(_IMPORTANT)
    return _URGENT.index(item.verdict), of_section


def _lines(title: str, items: list[Item], names: int, width: int) -> list[str]:
    """Returns the lines of items under a title with their number."""
    lines = [f"{title} ({len(items)})"]
    # Neighbours with one explanation share it: it follows the last of them.
    for explanation, neighbours in itertools.groupby(items, key=_explanation):
        for item in neighbours:
            value = "not set" if item.value is None else item.value
            lines.append(f"  {item.name:<{names}}  {value}")
        lines += wrapped(explanation, width)
    return [*lines, ""]


def _explanation(item: Item) -> str:
    return item.reason if item.remedy is None else f"{item.reason} To do: {item.remedy}"


def _summary(report: Report, shown: int) -> str:
    varies = [item for item in report.items if item.varies]
    if not varies:
        text = f"None of {len(report.items)} items varies."
    else:
        counts = [
            f"{sum(item.verdict == verdict for item in varies)} {verdict.removeprefix('varies ')}"
            for verdict in ("varies per process", "varies per machine")
        ]
        unknown = sum(item.verdict == "unknown" for item in varies)
        also = f" and {unknown} {'is' if unknown == 1 else 'are'} unknown" if unknown else ""
        text = f"Of {len(report.items)} items {' and '.join(counts)} vary{also}; "
        text += f"{len(report.varying)} {'has' if len(report.varying) == 1 else 'have'} a remedy."
    fixed = len(report.items) - shown
    return f"{text} {fixed} more are fixed: --all lists them." if fixed else text
