"""The report of an audit: findings with a verdict each, as data, as text and for JSON.

Findings with one piece of advice share it. Where many share it, the table names the lines of source
alone::

    45 x lax.dot_general  R0458
        train.py:31, 35 (6), 40
        To do: Compile with `impl.jit`, or call `impl.set_xla_flags()` before ...
"""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

Verdict: TypeAlias = Literal["deterministic", "raises", "varies", "unknown"]

#: The first entry of ``Report.as_dict()``: it changes when the form of the data does.
SCHEMA = 2
#: The verdicts in the order of the report, with a heading each.
_HEADINGS: dict[Verdict, str] = {
    "varies": "Varies from run to run",
    "unknown": "Unknown",
    "raises": "Raises",
    "deterministic": "Deterministic, because the mode is on",
}
#: The verdicts of a program that is not fine, in the order of the report.
FAULTS: tuple[Verdict, ...] = ("varies", "unknown", "raises")
#: The heading of deterministic findings that would not race with the mode off.
_NEEDLESS = "Ordered although nothing races"
#: The greatest number of findings with one piece of advice that get a line each.
_FEW = 5
_INDENT = " " * 6


@dataclasses.dataclass(frozen=True)
class Finding:
    """One or more equal equations of a program that can vary from run to run.

    Attributes:
        primitive: The name of the primitive, as users know it: ``lax.scatter_add``.
        row: The id of the row that decides; None if no row is about the equation.
        verdict: ``deterministic`` if the mode makes it so, ``raises`` if the mode refuses the
            program because of it, ``varies`` if two runs may differ because of it, ``unknown`` if
            nothing tells.
        source: The line of the user's own code, as ``file:line``. If no line of the program is
            the user's, the line of the library.
        library: The line and function of the library that the user's line calls, if one does.
        inside: The equations that it is inside of, such as ``scan``; the outermost first.
        shapes: The dtypes and shapes of its operands.
        remedy: Advice, in a sentence or two; None if nothing has to be done.
        races: Whether it could vary with the mode off. If it is False, the values of the operands
            show that it could not: the mode, which does not see values, orders it or refuses it
            nevertheless.
        count: The number of equal equations in the program. The body of a loop counts once.
    """

    primitive: str
    row: str | None
    verdict: Verdict
    source: str
    library: str | None
    inside: tuple[str, ...]
    shapes: str
    remedy: str | None
    races: bool = True
    count: int = 1


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of an audit.

    Attributes:
        device: The device that the verdicts are about.
        mode: The mode that they hold under, in words.
        findings: The equations that could vary, or that nothing is known of.
        equations: The number of equations that were looked at.
        level: The form that was read: "program", or "compiled" for the instructions that XLA made.
        notes: Sentences about faults that no finding shows.
        engine: The name of the engine of ``portable``, which stands for float64 on the device; None
            under another guarantee. Where the process has no GPU, and the audit names none, it is
            the engine of a GPU whose float64 is fast.
    """

    device: str
    mode: str
    findings: tuple[Finding, ...]
    equations: int
    level: str = "program"
    notes: tuple[str, ...] = ()
    engine: str | None = None

    @property
    def ok(self) -> bool:
        """True if nothing varies, nothing is unknown and nothing raises."""
        return all(f.verdict == "deterministic" for f in self.findings)

    def select(self, verdict: Verdict) -> tuple[Finding, ...]:
        """Returns the findings that have a verdict.

        Args:
            verdict: The verdict.
        """
        return tuple(f for f in self.findings if f.verdict == verdict)

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as plain data, which ``json.dumps`` takes."""
        return {
            "schema": SCHEMA,
            "device": self.device,
            "level": self.level,
            "mode": self.mode,
            "engine": self.engine,
            "ok": self.ok,
            "equations": self.equations,
            "notes": list(self.notes),
            "findings": [
                {**dataclasses.asdict(f), "inside": list(f.inside)} for f in self.findings
            ],
        }

    def text(self, width: int = 100, *, every: bool = False) -> str:
        """Returns the report as a table.

        Args:
            width: Greatest length of a line of advice in characters.
            every: Whether each finding gets a line with its shapes. If not, findings of which many
                share their advice are named by their lines of source alone.
        """
        parts = [self._setting()]
        for heading, findings in self._sections():
            if findings:
                parts += ["", f"{heading} ({_times(sum(f.count for f in findings))})"]
                parts += _table(findings, width, every=every)
        return "\n".join([*parts, "", self._counts(), *self.notes])

    def summary(self, width: int = 100) -> str:
        """Returns a few lines: how many equations of each primitive have a verdict, and the advice.

        Args:
            width: Greatest length of a line of advice in characters.
        """
        lines = _summary([f for verdict in _HEADINGS for f in self.select(verdict)], width)
        return "\n".join([self._setting(), *lines, self._counts(), *self.notes])

    def __str__(self) -> str:
        return self.text()

    def _sections(self) -> Iterator[tuple[str, tuple[Finding, ...]]]:
        ordered = self.select("deterministic")
        for verdict, heading in _HEADINGS.items():
            if verdict != "deterministic":
                yield heading, self.select(verdict)
        yield _HEADINGS["deterministic"], tuple(f for f in ordered if f.races)
        yield _NEEDLESS, tuple(f for f in ordered if not f.races)

    def _setting(self) -> str:
        read = ", as compiled" if self.level == "compiled" else ""
        by = f", by the engine {self.engine!r}" if self.engine else ""
        return f"On {self.device}, with {self.mode}{by}{read}:"

    def _counts(self) -> str:
        noun = "instruction" if self.level == "compiled" else "equation"
        every = _times(self.equations, noun)
        if self.ok:
            return f"Of {every} none varies, none is unknown and none raises."
        varying, unknown, raising = (
            sum(f.count for f in self.select(verdict)) for verdict in FAULTS
        )
        vary, are = "varies" if varying == 1 else "vary", "is" if unknown == 1 else "are"
        raises = "raises" if raising == 1 else "raise"
        return f"Of {every} {varying} {vary}, {unknown} {are} unknown and {raising} {raises}."


def grouped(findings: list[Finding]) -> tuple[Finding, ...]:
    """Returns the findings with equal ones counted, in the order in which they first occur."""
    return tuple(dataclasses.replace(f, count=count) for f, count in Counter(findings).items())


def _times(count: int, noun: str = "equation") -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def _table(findings: Sequence[Finding], width: int, *, every: bool) -> list[str]:
    """Returns the lines about findings of one verdict, as ``Report.text`` has them."""
    lines = []
    for remedy, advised in _by(findings, lambda f: f.remedy):
        if every or len(advised) <= _FEW:
            lines += _each(advised)
        else:
            for (name, row), alike in _by(advised, lambda f: (f.primitive, f.row)):
                lines.append(f"  {sum(f.count for f in alike)} x {name}  {row or 'no row'}")
                lines += wrapped(", ".join(_places(alike)), width)
        lines += [] if remedy is None else wrapped(f"To do: {remedy}", width)
    return lines


def _summary(findings: Sequence[Finding], width: int) -> list[str]:
    """Returns a line for each verdict, primitive and piece of advice, which follows it."""
    lines: list[str] = []
    verdicts = max((len(f.verdict) for f in findings), default=0)
    for (verdict, remedy), advised in _by(findings, lambda f: (f.verdict, f.remedy)):
        for name, alike in _by(advised, lambda f: f.primitive):
            lines.append(f"  {verdict:<{verdicts}}  {sum(f.count for f in alike):>4}  {name}")
        lines += [] if remedy is None else wrapped(f"To do: {remedy}", width)
    return lines


def _by(
    findings: Sequence[Finding], key: Callable[[Finding], Any]
) -> Iterator[tuple[Any, list[Finding]]]:
    """Yields the findings of each key, in the order in which the keys first occur."""
    groups: dict[Any, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(key(finding), []).append(finding)
    yield from groups.items()


def _each(findings: Sequence[Finding]) -> list[str]:
    """Returns a line for each finding, and the notes that neighbours share once."""
    sources = max(len(f.source) for f in findings)
    names = max(len(_name(f)) for f in findings)
    lines = []
    for notes, neighbours in itertools.groupby(findings, key=_notes):
        for finding in neighbours:
            row = finding.row or "no row"
            line = f"  {finding.source:<{sources}}  {_name(finding):<{names}}  {row:<6}"
            lines.append(f"{line}  {finding.shapes}".rstrip())
        lines += [f"{_INDENT}{note}" for note in notes]
    return lines


def _places(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields the lines of source, the file once for all of its lines, with their counts."""
    for file, alike in _by(findings, lambda f: f.source.rpartition(":")[0]):
        counts: Counter[str] = Counter()
        for finding in alike:
            counts[finding.source.rpartition(":")[2]] += finding.count
        lines = sorted(counts, key=lambda line: (len(line), line))
        named = [line if counts[line] == 1 else f"{line} ({counts[line]})" for line in lines]
        yield f"{file}:{', '.join(named)}" if file else ", ".join(named)


def _name(finding: Finding) -> str:
    return finding.primitive if finding.count == 1 else f"{finding.count} x {finding.primitive}"


def _notes(finding: Finding) -> list[str]:
    notes = [f"by {finding.library}"] if finding.library else []
    return [*notes, f"in {' > '.join(finding.inside)}"] if finding.inside else notes


def wrapped(text: str, width: int, indent: str = _INDENT) -> list[str]:
    """Wraps a text into lines of up to ``width`` characters, or 60 if ``width`` is less."""
    return textwrap.wrap(
        text,
        max(width, 60),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
