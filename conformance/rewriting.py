"""Brings a file of expectations up to date with what a report shows to fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from conformance import report as reports
from conformance.expectations import Expectation, read, write
from conformance.report import Record


def rewrite(path: Path, report: Path) -> str:
    """Rewrites a file; what still holds keeps its reason, and what is new has to be given one.

    An entry loses the ids by which nothing fails, and goes when it has none left. Entries that the
    report cannot speak of stay: those of other versions or devices, those that expect a test to be
    skipped or to fail now and then, and those of ops that are missing still.

    Args:
        path: The file, which is made if it is not there.
        report: Of a run of the whole suite with that file.

    Returns:
        What was done, in a sentence.

    Raises:
        ValueError: The file or the report is malformed.
    """
    found = reports.read(report)
    versions = {name: value for name, value in found.environment.items() if _is_version(value)}
    tried = [record for record in found.records if record.profile and record.sample]
    failing = [record for record in tried if record.outcome == "failed"]
    old = read(path) if path.exists() else ()
    kept = [entry for entry in (_current(e, versions, tried, failing) for e in old) if entry]
    unknown = [r for r in failing if not any(e.matches(test(r), r.device) for e in kept)]
    new = list(_entries(unknown, tried))
    write(path, [*kept, *new])
    gone = sum(len(e.ids) for e in old) - sum(len(e.ids) for e in kept)
    text = f"{path}: {gone} id(s) removed, {sum(len(e.ids) for e in new)} added"
    return text + ("; write the reasons, without which the file is refused" if new else "")


def cell(record: Record) -> str:
    """The name of the cell that a record is about."""
    row = record.row or "unlisted"
    about = (row, record.op, record.direction, record.device, record.profile, record.sample)
    return "-".join(map(str, about))


def test(record: Record) -> str:
    """The name of the test that left a record."""
    return f"test_{record.check.replace(' ', '_')}[{cell(record)}]"


def _is_version(value: str) -> bool:
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415  # pytest brings it

    try:
        Version(value)
    except InvalidVersion:
        return False
    return True


def _current(
    entry: Expectation, versions: dict[str, str], tried: list[Record], failing: list[Record]
) -> Expectation | None:
    """The entry with the ids that still hold; None where none does."""
    if not entry.holds(versions):
        return entry
    if entry.outcome == "missing":
        ran = {record.op for record in tried if record.outcome == "passed"}
        ids = [id for id in entry.ids if id not in ran]
    elif entry.outcome == "skip" or not entry.strict or _elsewhere(entry, tried):
        return entry
    else:
        hit = {id for r in failing for id in entry.matches(test(r), r.device)}
        ids = [id for id in entry.ids if id in hit]
    return dataclasses.replace(entry, ids=tuple(ids)) if ids else None


def _elsewhere(entry: Expectation, tried: list[Record]) -> bool:
    """Whether it is of devices on which nothing was tried."""
    return bool(entry.device) and not {record.device for record in tried} & set(entry.device)


def _entries(failing: Iterable[Record], tried: list[Record]) -> Iterable[Expectation]:
    """An entry for each op and device, by as few ids as mean these tests and no other."""
    groups: dict[tuple[str, str], list[str]] = {}
    for record in failing:
        ids = groups.setdefault((record.op, record.device), [])
        made = _id(record, tried)
        if made not in ids:
            ids.append(made)
    for (_, device), ids in groups.items():
        yield Expectation(tuple(ids), "fail", "", (device,))


def _id(record: Record, tried: list[Record]) -> str:
    """Of the call under every profile, where all tests of it fail; otherwise of the one test."""
    same = [
        r
        for r in tried
        if (r.op, r.direction, r.device, r.sample)
        == (record.op, record.direction, record.device, record.sample)
    ]
    if all(r.outcome == "failed" for r in same):
        return f"*-{record.op}-{record.direction}-{record.device}-*-{record.sample}"
    return test(record)
