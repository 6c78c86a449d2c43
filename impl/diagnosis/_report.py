"""What the doctor reports: items with a verdict each, as data, as text and as JSON."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from typing import Any, Literal, TypeAlias

Verdict: TypeAlias = Literal["fixed", "varies per process", "varies per machine"]

#: The first entry of ``Report.as_dict()``: it changes when ``schema.json`` does.
SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class Item:
    """One thing that can change bits.

    Attributes:
        section: The heading that it stands under.
        name: What it is; unique in its section.
        value: What was found, as text; None where it is not set or there is none.
        verdict: Whether two processes on this machine, or on two machines with this installation
            and environment, may find another value or compute other bits because of it.
        reason: Why, in a sentence or two.
        remedy: What to do so that it varies no more; None where it is fixed, or where nothing that
            is set can fix it, as the device that there is.
    """

    section: str
    name: str
    value: str | None
    verdict: Verdict
    reason: str
    remedy: str | None = None

    @property
    def varies(self) -> bool:
        """Whether the verdict is another than ``fixed``."""
        return self.verdict != "fixed"


@dataclasses.dataclass(frozen=True)
class Report:
    """What ``impl.doctor()`` returns; as text it is what ``python -m impl doctor`` prints.

    Attributes:
        platform: ``cpu``, ``gpu`` or ``tpu``; None where JAX could not start.
        items: All that was looked at, section by section.
    """

    platform: str | None
    items: tuple[Item, ...]

    @property
    def varying(self) -> tuple[Item, ...]:
        """The items that vary and have a remedy. ``--strict`` fails where there is one."""
        return tuple(item for item in self.items if item.varies and item.remedy is not None)

    def item(self, name: str) -> Item:
        """The item of a name.

        Raises:
            KeyError: There is none.
        """
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(name)

    def as_dict(self) -> dict[str, Any]:
        """The report as ``schema.json``, beside this module, describes it."""
        return {
            "schema": SCHEMA,
            "platform": self.platform,
            "varying": [item.name for item in self.varying],
            "items": [dataclasses.asdict(item) for item in self.items],
        }

    def text(self, width: int = 100) -> str:
        """The report for a reader, in lines of up to ``width`` characters where values allow."""
        names = max((len(item.name) for item in self.items), default=0)
        lines = []
        for section, items in itertools.groupby(self.items, key=lambda item: item.section):
            lines.append(section)
            # What is said of several in a row is said once, after the last of them.
            for said, alike in itertools.groupby(items, key=_said):
                lines += [_line(item, names) for item in alike]
                lines += _wrapped(said, width)
            lines.append("")
        return "\n".join([*lines, _summary(self)])

    def __str__(self) -> str:
        return self.text()


def _line(item: Item, names: int) -> str:
    value = "not set" if item.value is None else item.value
    return f"  {item.name:<{names}}  {item.verdict:<18}  {value}"


def _said(item: Item) -> str:
    return item.reason if item.remedy is None else f"{item.reason} To do: {item.remedy}"


def _wrapped(text: str, width: int) -> list[str]:
    indent = "      "
    return textwrap.wrap(
        text,
        max(width, 60),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _summary(report: Report) -> str:
    varies = [item for item in report.items if item.varies]
    if not varies:
        return "Nothing here varies."
    counts = [
        f"{sum(item.verdict == verdict for item in varies)} {verdict.removeprefix('varies ')}"
        for verdict in ("varies per process", "varies per machine")
    ]
    remedied = len(report.varying)
    return f"Of {len(report.items)} items {' and '.join(counts)} vary; {remedied} have a remedy."
