"""What a report shows to differ from what PyTorch's documents list, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import spec
from conformance import report as reports
from conformance.case import samples
from conformance.report import Record

_EXPECTED = "expected: "


def markdown(path: Path) -> str:
    """Three tables: other behaviours, what was expected to fail and did, and other values.

    Raises:
        ValueError: The file is no report.
    """
    report = reports.read(path)
    found = report.environment
    versions = ", ".join(
        f"{name} {found[name]}" for name in ("torch", "cuda", "jax") if found.get(name)
    )
    tried = [record for record in report.records if record.profile and record.sample]
    unexplained = [r for r in tried if r.outcome == "failed" and not _expected(r)]
    devices = " and ".join(sorted({record.device for record in tried}))
    count = f"{len(tried)} checks, of which {len(unexplained)} failed unexplained"
    lines = [
        f"Found with {versions}, on {devices}: {count}.",
        "",
        *_table(
            ("Op", "Direction", "Device", "Profile", "Listed", "Found", "Why"),
            _behaviours(tried),
            "No behaviour differs from what is listed.",
        ),
        "",
        *_table(
            ("Op", "Direction", "Device", "Call", "Why it cannot be tried, or fails"),
            _failures(tried),
            "Nothing fails.",
        ),
        "",
        *_table(
            ("Op", "Direction", "Call", "Why values are not compared"),
            _values(tried) if found.get("namespace") != "impl" else [],
            "All values are compared.",
        ),
    ]
    return "\n".join(lines) + "\n"


def _expected(record: Record) -> bool:
    return (record.detail or "").startswith(_EXPECTED)


def _behaviours(tried: list[Record]) -> list[tuple[str, ...]]:
    rows: dict[tuple[str, ...], list[str]] = {}
    order = list(spec.load().profiles)
    for record in tried:
        if record.detail and not _expected(record) and record.outcome == "passed":
            behaviour, _, why = record.detail.partition("; ")
            listed = record.behaviour or "unaffected"
            key = (record.op, str(record.direction), record.device, listed, behaviour, why)
            profiles = rows.setdefault(key, [])
            if record.profile and record.profile not in profiles:
                profiles.append(record.profile)
    return sorted(
        (*key[:3], ", ".join(sorted(profiles, key=order.index)), *key[3:])
        for key, profiles in rows.items()
    )


def _failures(tried: list[Record]) -> list[tuple[str, ...]]:
    return sorted(
        {
            (r.op, str(r.direction), r.device, str(r.sample), (r.detail or "")[len(_EXPECTED) :])
            for r in tried
            if r.outcome == "failed" and _expected(r)
        }
    )


def _values(tried: list[Record]) -> list[tuple[str, ...]]:
    """The calls whose right answer is this project's alone."""
    about = {(record.op, record.direction, record.sample) for record in tried}
    return sorted(
        (op, direction, sample.name, why)
        for op in {record.op for record in tried}
        for sample in samples(op)
        for direction, why in sample.own.items()
        if (op, direction, sample.name) in about
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]], none: str) -> Iterator[str]:
    if not rows:
        yield none
        return
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"
