"""The sections of the page of an op, as Markdown.

Each function takes the subject of a page, which has the rows, the answers and the reports, and
returns one section, so that a new op has a whole page as soon as it has rows and samples. For the
subject of ``index_add``, ``why`` returns::

    Several terms meet in one result. A GPU adds them with atomic operations, in the order in which
    its threads arrive. Another order rounds otherwise.

and ``names`` returns::

    - in PyTorch: `torch.index_add`
    - in JAX: `x.at[i].add`, `jax.ops.segment_sum`
    - here: `impl.index_add`
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import answers
import row_evidence
import spec
from conformance.reporting.report import Report
from conformance.suite.sample import samples
from op_pages import _examples, _jax_names, _text
from spec import english, oracles

#: The text in place of a program and its output.
NOT_RUN = "This build ran no programs.\n"


@dataclasses.dataclass(frozen=True)
class Subject:
    """The subject of a page, and the source of its facts.

    Attributes:
        op: Dotted name of the op.
        rules: The spec.
        cells: The answers.
        reports: The reports that are evidence, by file name.
        folder: Their folder, from the folder of the site's sources.
        runs: Whether programs are run, for their output.
    """

    op: str
    rules: spec.Spec
    cells: Sequence[answers.Cell]
    reports: Mapping[str, Report]
    folder: str
    runs: bool = True

    @property
    def rows(self) -> tuple[spec.Row, ...]:
        """The active rows about calls of the op."""
        return self.rules.select(op=self.op, kind="op", active=True)

    @property
    def orders(self) -> list[spec.Order]:
        """The orders of its paths, each once."""
        names = [row.order for row in self.rows if row.order]
        return [self.rules.orders[name] for name in dict.fromkeys(names)]

    def under(self, profile: str | None, guarantee: str | None) -> list[answers.Cell]:
        """Returns the answers under a profile and a guarantee."""
        found = (cell for cell in self.cells if cell.guarantee == guarantee)
        return [cell for cell in found if profile is None or cell.profile == profile]


def answers_table(subject: Subject) -> str:
    """Returns every answer."""
    legend = "\n".join(
        f"`{word}`\n: {meaning}\n"
        for word, meaning in answers.WORDS.items()
        if any(cell.word == word for cell in subject.cells)
    )
    table = _text.list_table(
        f"Answers for the calls of {subject.op}",
        _text.ANSWER_HEADINGS,
        _text.answer_rows(subject.cells),
    )
    silent = "".join(
        f"No row is about {_text.SUBJECTS[direction]}, since nothing in it depends on timing: each"
        " run gives the same bits.\n\n"
        for direction in dict.fromkeys(d for s in samples(subject.op) for d in s.directions)
        if not any(cell.direction == direction for cell in subject.cells)
    )
    return (
        f"{silent}If several lines are about one call, device and profile, the first one whose"
        f" condition holds is right.\n\n{table}\nThe words:\n\n{legend}"
    )


def why(subject: Subject) -> str:
    """Returns why two runs can differ with the mode off."""
    varying = {cell.row for cell in subject.under(None, answers.OFF) if cell.word == "may vary"}
    rows = [row for row in subject.rows if row.id in varying]
    reasons = (subject.rules.orders[row.order].varies for row in rows if row.order)
    texts = dict.fromkeys(reason for reason in reasons if reason)
    if texts:
        return "\n\n".join(texts) + "\n"
    if any(cell.word == "may vary" for cell in subject.under(None, answers.OFF)):
        return "The memory of the result is not written, so it holds its earlier contents.\n"
    return "It does not: each run gives the same bits, also with the mode off.\n"


def pytorch(subject: Subject) -> str:
    """Returns what PyTorch documents and does."""
    lines: list[str] = []
    for row in subject.rules.select(op=subject.op, kind="op"):
        listed = [name for name, found in row.behaviour.items() if found]
        of_torch = [name for name in listed if subject.rules.profiles[name].release]
        if not of_torch and not row.errata and not row.note:
            continue
        lines.append(f"`{row.torch}` {row.condition} ({{row}}`{row.id}`)")
        parts = [] if row.active else [f"Out of scope here: {row.reason}"]
        parts += list(_documented(row, of_torch, subject.rules))
        parts += [row.note] if row.note else []
        for erratum in row.errata:
            does = english.behaviour_of_code(erratum, subject.rules.facts, subject.rules.devices)
            parts.append(f"**The documents differ from the code.** {erratum.statement} {does}")
            parts += [f"Seen in {_source(s, subject.rules)}" for s in erratum.sources]
        parts += [f"Source: {_source(source, subject.rules)}" for source in row.sources]
        lines.append(": " + "\n\n  ".join([parts[0], *(f"- {part}" for part in parts[1:])]))
        lines.append("")
    return "\n".join(lines) + "\n" if lines else "PyTorch's documents do not name it.\n"


def _documented(row: spec.Row, profiles: Sequence[str], rules: spec.Spec) -> Iterator[str]:
    """Yields what the documents of releases list, those that list one thing together."""
    found: dict[str, list[str]] = {}
    for name in profiles:
        found.setdefault(english.verb(row.behaviour[name]), []).append(rules.profiles[name].title)
    for verb, titles in found.items():
        yield f"Documented for {', '.join(titles)}: {verb}."


def _source(source: spec.Source, rules: spec.Spec) -> str:
    document = rules.documents[source.document]
    releases = ", ".join(
        f"[{release}]({document.url.format(release=release)})" if document.url else release
        for release in source.releases
    )
    file = f", `{source.file}`" if source.file else ""
    return f"{document.title}, {releases}{file}: “`{source.phrase}`”"


def orders(subject: Subject) -> str:
    """Returns each order as a sentence, and its oracle."""
    parts = []
    for order in subject.orders:
        statement = order.statement
        parts.append(f"{order.title} ({{order}}`{order.name}`)\n: {statement}\n")
        function: Callable[..., object] | None = getattr(oracles, order.name, None)
        if function is not None:
            parts.append(_text.code(inspect.getsource(function), "python"))
    if not parts:
        return "It adds nothing and has no ties, so that no order is fixed.\n"
    lead = (
        "The code is a copy of `spec.oracles`, by which the tests judge each path. It is written to"
        " be read.\n"
    )
    return "\n".join([lead, *parts])


def errors(subject: Subject) -> str:
    """Returns the errors that the op raises, as they were raised when the site was built."""
    parts = []
    if not subject.runs:
        return NOT_RUN
    seen: set[frozenset[str]] = set()
    default = subject.rules.default_profile
    for profile in sorted(subject.rules.profiles, key=lambda name: name != default):
        raising = [c for c in subject.under(profile, "run_to_run") if c.word == "raises"]
        said = frozenset(cell.sentence for cell in raising)
        found = _examples.error(subject.op, profile) if said and said not in seen else None
        if found is None:
            continue
        seen.add(said)
        parts.append(f"Under {{profile}}`{profile}`, on a GPU:\n")
        parts += [_text.code(found.code, "python")] if found.code else []
        parts.append(_text.code(textwrap.fill(found.output, 90, break_on_hyphens=False), "text"))
    return "\n".join(parts) if parts else "No profile refuses a call of it.\n"


def example(subject: Subject) -> str:
    """Returns a program and what it printed."""
    if not subject.runs:
        return NOT_RUN
    found = _examples.example(subject.op)
    if found is None:
        return "[The library](../api.md) describes its arguments.\n"
    return (
        f"{_text.code(found.code, 'python')}\nIt printed this when the site was built, on a CPU:"
        f" the shape, and the first digits of the SHA-256 of the bits.\n\n"
        f"{_text.code(found.output, 'text')}"
    )


def evidence(subject: Subject) -> str:
    """Returns the evidence of each row, with the reports."""
    lines = []
    for row in subject.rows:
        for device in row_evidence.deciding_devices(row):
            lines += list(_evidence(subject, row, device))
    table = _text.list_table(
        f"Evidence about {subject.op}", ["Row", "Device", "Evidence", "Report", "Made"], lines, 2
    )
    lead = "[Guarantees and evidence](../guarantees.md#evidence) explains the words.\n"
    return f"{lead}\n{table or 'No report is about it.'}\n"


def _evidence(subject: Subject, row: spec.Row, device: str) -> Iterator[list[str]]:
    found = False
    for name, report in subject.reports.items():
        entry = _by_row(report, name).get((row.id, device))
        if entry is None:
            continue
        found = True
        link = f"{{download}}`{name} </{subject.folder}/{name}>`"
        named = f"{{row}}`{row.id}`"
        yield [named, _text.device_name(device), str(entry), link, report.made[:10]]
    if not found:
        yield [f"{{row}}`{row.id}`", _text.device_name(device), "none", "no report", ""]


_CACHE: dict[str, tuple[Report, Mapping[tuple[str, str], row_evidence.RowEvidence]]] = {}


def _by_row(report: Report, name: str) -> Mapping[tuple[str, str], row_evidence.RowEvidence]:
    """Returns the evidence of one report. A page of each op asks for it."""
    kept = _CACHE.get(name)
    if kept is None or kept[0] is not report:
        kept = _CACHE[name] = report, row_evidence.by_row({name: report})
    return kept[1]


def evidence_card(subject: Subject) -> Iterator[str]:
    """Yields a line for each device with the evidence that all rows have there."""
    merged = row_evidence.by_row(subject.reports)
    for device in answers.devices():
        rows = [r for r in subject.rows if device in row_evidence.deciding_devices(r)]
        levels = [merged.get((row.id, device), row_evidence.NO_EVIDENCE) for row in rows]
        texts = dict.fromkeys(str(level) for level in levels)
        if texts:
            yield f"**on {_text.device_name(device)}**: {'; '.join(texts)}"
    if not row_evidence.ran_on_gpu(subject.reports.values()):
        yield "not yet verified on a GPU"


def callers(subject: Subject) -> list[str]:
    """Returns the names of the op in errors of PyTorch, each once."""
    found = (
        caller
        for row in subject.rules.select(op=subject.op, kind="op")
        for caller in (*row.callers.values(), *(e.caller for e in row.errata if e.caller))
    )
    return list(dict.fromkeys(found))


def names(subject: Subject) -> str:
    """Returns the names by which people look for the op."""
    rows = subject.rules.select(op=subject.op, kind="op")
    torch = dict.fromkeys(row.torch for row in rows if row.torch)
    lines = [f"- in PyTorch: {', '.join(f'`{name}`' for name in torch)}"] if torch else []
    errors = ", ".join(f"`{name}`" for name in callers(subject))
    lines += [f"- in errors: {errors}"] if errors else []
    messages = dict.fromkeys(row.message for row in rows if row.message)
    lines += [f"- PyTorch's error begins “{message}”" for message in messages]
    others = _jax_names.of_op(subject.op)
    lines += [f"- in JAX: {', '.join(f'`{name}`' for name in others)}"] if others else []
    lines.append(f"- here: `impl.{subject.op}`")
    return "\n".join(lines) + "\n"


def folder_of_reports(reports: Path, source: Path) -> str:
    """Returns the path of the folder of reports, relative to the folder of the sources."""
    return Path(os.path.relpath(reports, source)).as_posix()
