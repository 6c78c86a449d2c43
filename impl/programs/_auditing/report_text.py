"""The lines of an audit's report: a table of findings, or a few lines of what to do.

Findings with one piece of advice share it. Where many share it, the table names the lines of source
alone::

    45 x lax.dot_general  R0458
        train.py:31, 35 (6), 40
        To do: Compile with `impl.jit`, or call `impl.set_xla_flags()` before ...
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from impl.programs._auditing.report import Finding

#: The greatest number of findings with one piece of advice that get a line each.
_FEW = 5
_INDENT = " " * 6


def table(findings: Sequence[Finding], width: int, *, every: bool) -> list[str]:
    """Returns the lines about findings of one verdict.

    Args:
        findings: The findings.
        width: Greatest length of a line of advice in characters.
        every: Whether each finding gets a line, however many share their advice.
    """
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


def summary(findings: Sequence[Finding], width: int) -> list[str]:
    """Returns a line for each verdict, primitive and piece of advice, which follows it.

    Args:
        findings: The findings, in the order of their verdicts.
        width: Greatest length of a line of advice in characters.
    """
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
        counts: dict[str, int] = {}
        for finding in alike:
            line = finding.source.rpartition(":")[2]
            counts[line] = counts.get(line, 0) + finding.count
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
