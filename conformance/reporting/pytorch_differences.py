"""Renders the differences between a report and PyTorch's documents, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import spec
from conformance.cases.table import samples
from conformance.reporting import report as reports
from conformance.reporting.report import Record

_EXPECTED = "expected: "


def markdown(path: Path) -> str:
    """Returns three tables: other behaviours, expected failures, and values not compared."""
    report = reports.read(path)
    environment = report.environment
    versions = ", ".join(
        f"{name} {environment[name]}" for name in ("torch", "cuda", "jax") if environment.get(name)
    )
    tested = [record for record in report.records if record.profile and record.sample]
    unexplained = [r for r in tested if r.outcome == "failed" and not _is_expected(r)]
    devices = " and ".join(sorted({record.device for record in tested}))
    count = f"{len(tested)} checks, of which {len(unexplained)} failed unexplained"
    lines = [
        f"Found with {versions}, on {devices}: {count}.",
        "",
        *_table(
            ("Op", "Direction", "Device", "Profile", "Listed", "Found", "Why"),
            _behaviours(tested),
            "No behaviour differs from the listed one.",
        ),
        "",
        *_table(
            ("Op", "Direction", "Device", "Call", "Why it cannot be tried, or fails"),
            _failures(tested),
            "Nothing fails.",
        ),
        "",
        *_table(
            ("Op", "Direction", "Call", "Why values are not compared"),
            _choices(tested) if environment.get("namespace") != "impl" else [],
            "All values are compared.",
        ),
    ]
    return "\n".join(lines) + "\n"


def _is_expected(record: Record) -> bool:
    return (record.detail or "").startswith(_EXPECTED)


def _behaviours(tested: list[Record]) -> list[tuple[str, ...]]:
    rows: dict[tuple[str, ...], list[str]] = {}
    order = list(spec.load().profiles)
    for record in tested:
        if record.detail and not _is_expected(record) and record.outcome == "passed":
            behaviour, _, reason = record.detail.partition("; ")
            listed = record.behaviour or "unaffected"
            key = (record.op, str(record.direction), record.device, listed, behaviour, reason)
            profiles = rows.setdefault(key, [])
            if record.profile and record.profile not in profiles:
                profiles.append(record.profile)
    return sorted(
        (*key[:3], ", ".join(sorted(profiles, key=order.index)), *key[3:])
        for key, profiles in rows.items()
    )


def _failures(tested: list[Record]) -> list[tuple[str, ...]]:
    return sorted(
        {
            (r.op, str(r.direction), r.device, str(r.sample), (r.detail or "")[len(_EXPECTED) :])
            for r in tested
            if r.outcome == "failed" and _is_expected(r)
        }
    )


def _choices(tested: list[Record]) -> list[tuple[str, ...]]:
    """Returns the calls whose expected values are a choice of this project."""
    calls = {(record.op, record.direction, record.sample) for record in tested}
    return sorted(
        (op, direction, sample.name, reason)
        for op in {record.op for record in tested}
        for sample in samples(op)
        for direction, reason in sample.choices.items()
        if (op, direction, sample.name) in calls
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]], none: str) -> Iterator[str]:
    if not rows:
        yield none
        return
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"
