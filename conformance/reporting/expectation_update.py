"""Brings a file of expectations up to date with the failures in a report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from conformance.reporting import report as reports
from conformance.reporting.expectations import Expectation, read, write
from conformance.reporting.report import Record


def rewrite(path: Path, report: Path) -> str:
    """Rewrites a file. An entry that still holds keeps its reason, and a new one gets none.

    An entry loses the ids that mean no failed test, and the file loses the entries without ids.
    An entry that the report tells nothing about stays: it is for other versions or devices, has the
    outcome ``skip``, is not strict, or names an op that is still missing.

    Args:
        path: The file. It is made if it does not exist.
        report: A report of a run of the whole suite with that file.

    Returns:
        A sentence with the numbers of ids removed and added.

    Raises:
        ValueError: The file or the report is malformed.
    """
    made = reports.read(report)
    versions = {name: value for name, value in made.environment.items() if _is_version(value)}
    tested = [record for record in made.records if record.profile and record.sample]
    failed = [record for record in tested if record.outcome == "failed"]
    old = read(path) if path.exists() else ()
    current = [entry for entry in (_current(e, versions, tested, failed) for e in old) if entry]
    unknown = [r for r in failed if not any(e.matches(test(r), r.device) for e in current)]
    new = list(_entries(unknown, tested))
    write(path, [*current, *new])
    removed = sum(len(e.ids) for e in old) - sum(len(e.ids) for e in current)
    text = f"{path}: {removed} id(s) removed, {sum(len(e.ids) for e in new)} added"
    return text + ("; write the reasons, without which the file is refused" if new else "")


def cell(record: Record) -> str:
    """Returns the name of the cell that a record is about."""
    row = record.row or "unlisted"
    about = (row, record.op, record.direction, record.device, record.profile, record.sample)
    return "-".join(map(str, about))


def test(record: Record) -> str:
    """Returns the name of the test that left a record."""
    return f"test_{record.check.replace(' ', '_')}[{cell(record)}]"


def _is_version(value: str) -> bool:
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415  # pytest brings it

    try:
        Version(value)
    except InvalidVersion:
        return False
    return True


def _current(
    entry: Expectation, versions: dict[str, str], tested: list[Record], failed: list[Record]
) -> Expectation | None:
    """Returns the entry with the ids that still hold, or None if none holds."""
    if not entry.holds(versions):
        return entry
    if entry.outcome == "missing":
        existing = {record.op for record in tested if record.outcome == "passed"}
        ids = [id for id in entry.ids if id not in existing]
    elif entry.outcome == "skip" or not entry.strict or _for_other_devices(entry, tested):
        return entry
    else:
        matched = {id for r in failed for id in entry.matches(test(r), r.device)}
        ids = [id for id in entry.ids if id in matched]
    return dataclasses.replace(entry, ids=tuple(ids)) if ids else None


def _for_other_devices(entry: Expectation, tested: list[Record]) -> bool:
    """Returns whether the entry names devices, and no test was for any of them."""
    return bool(entry.device) and not {record.device for record in tested} & set(entry.device)


def _entries(failed: Iterable[Record], tested: list[Record]) -> Iterable[Expectation]:
    """Yields an entry for each op and device, with as few ids as mean exactly the failed tests."""
    groups: dict[tuple[str, str], list[str]] = {}
    for record in failed:
        ids = groups.setdefault((record.op, record.device), [])
        id = _id(record, tested)
        if id not in ids:
            ids.append(id)
    for (_, device), ids in groups.items():
        yield Expectation(tuple(ids), "fail", "", (device,))


def _id(record: Record, tested: list[Record]) -> str:
    """Returns the id of a failed test.

    It means the call under every profile where all tests of the call failed, and otherwise the one
    test.
    """
    of_call = [
        r
        for r in tested
        if (r.op, r.direction, r.device, r.sample)
        == (record.op, record.direction, record.device, record.sample)
    ]
    if all(r.outcome == "failed" for r in of_call):
        return f"*-{record.op}-{record.direction}-{record.device}-*-{record.sample}"
    return test(record)
