"""Files of expectations: the known faults of an implementation, each with its reason.

An entry has these fields::

    [[expect]]
    ids = ["R0095", "index_put", "*-cpu-torch-2.12-written", "test_bits[R0095-*"]
    outcome = "fail"            # or "missing", for ops that do not exist; or "skip"
    when = { device = "cpu", torch = ">=2.12,<2.14" }
    reason = "Why."
    strict = true               # the default: a test that passes unexpectedly is an error

``rewrite`` brings a file up to date with the failures in a report.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from conformance.reporting import report as reports
from conformance.reporting.report import Record

Outcome: TypeAlias = Literal["fail", "missing", "skip"]
_KEYS = {"ids", "outcome", "when", "reason", "strict"}


@dataclasses.dataclass(frozen=True, eq=False)
class Expectation:
    """An entry.

    Attributes:
        ids: The tests that the entry means: a row's id, an op, the part of a test's name in
            brackets, or the whole name. ``*`` stands for any text. With the outcome ``missing``,
            the ops.
        outcome: The outcome to expect.
        reason: The reason for it.
        device: The devices for which the entry holds. Empty means any device.
        versions: By name, the versions for which the entry holds.
        strict: Whether a test that passes unexpectedly is an error.
    """

    ids: tuple[str, ...]
    outcome: Outcome
    reason: str
    device: tuple[str, ...] = ()
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    strict: bool = True

    def holds(self, versions: Mapping[str, str]) -> bool:
        """Returns whether the entry is about an implementation with these versions."""
        return all(
            name in versions
            and SpecifierSet(versions_range, prereleases=True).contains(Version(versions[name]))
            for name, versions_range in self.versions.items()
        )

    def matches(self, test: str, device: str | None = None) -> list[str]:
        """Returns the ids of the entry that mean a test.

        A test has its parameters, as ``test_off[R0001-index_add-...]``. Without the device of a
        cell, only its whole name can mean it.
        """
        if self.device and device not in self.device:
            return []
        aliases = names(test) if device else (test,)
        return [id for id in self.ids if any(_pattern(id).fullmatch(name) for name in aliases)]


@functools.cache
def names(test: str) -> tuple[str, ...]:
    """Returns the names of a test of a cell: its own, the cell's, the row's and the op's."""
    cell = test[test.index("[") + 1 : -1]
    row, op, *_ = cell.split("-")
    return test, cell, row, op


@functools.cache
def _pattern(id: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in id.split("*")))


def read(path: Path) -> tuple[Expectation, ...]:
    """Returns the entries of a file.

    Raises:
        ValueError: The file is malformed: a key, an outcome or a version is unknown, an entry has
            no reason or no ids, or two entries have one id under the same conditions.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from error
    unknown = sorted(set(table) - {"expect"})
    if unknown:
        raise ValueError(f"{path}: unknown {unknown}; entries are [[expect]]")
    entries = tuple(_entry(path, entry) for entry in table.get("expect", []))
    seen: set[Any] = set()
    for entry in entries:
        for id in entry.ids:
            key = id, entry.device, tuple(sorted(entry.versions.items()))
            if key in seen:
                raise ValueError(f"{path}: {id} stands in two entries; remove one")
            seen.add(key)
    return entries


def _entry(path: Path, table: Mapping[str, Any]) -> Expectation:
    ids = table.get("ids")
    if not isinstance(ids, list) or not ids or not all(isinstance(id, str) and id for id in ids):
        raise ValueError(f"{path}: an entry has ids {ids!r}; it needs a list of one or more names")
    entry = f"{path}: the entry of {ids}"
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise ValueError(f"{entry} has unknown keys {unknown}; there are {sorted(_KEYS)}")
    if not str(table.get("reason", "")).strip():
        raise ValueError(f"{entry} gives no reason; say why it is expected")
    outcome: Any = table.get("outcome")
    if outcome not in get_args(Outcome):
        raise ValueError(f"{entry} has outcome {outcome!r}; allowed: {get_args(Outcome)}")
    if not isinstance(table.get("strict", True), bool):
        raise ValueError(  # noqa: TRY004  # the file is wrong
            f"{entry} has strict {table['strict']!r}; allowed: true, false"
        )
    when = dict(table.get("when", {}))
    device = when.pop("device", ())
    for name, versions_range in when.items():
        try:
            SpecifierSet(versions_range)
        except (InvalidSpecifier, TypeError, AttributeError) as error:
            raise ValueError(f"{entry}: when.{name} is not a range of versions: {error}") from error
    return Expectation(
        ids=tuple(ids),
        outcome=outcome,
        reason=table["reason"].strip(),
        device=(device,) if isinstance(device, str) else tuple(device),
        versions=when,
        strict=table.get("strict", True),
    )


def missing_ops(entries: Iterable[Expectation]) -> dict[str, str]:
    """Returns each op that is expected to be missing, with the reason."""
    return {id: e.reason for e in entries if e.outcome == "missing" for id in e.ids}


def write(path: Path, entries: Iterable[Expectation]) -> None:
    """Writes a file with these entries, and keeps the comment at its top."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    head = re.match(r"(?:#[^\n]*\n)*", text)
    blocks = [head[0].rstrip() if head else "", *map(_block, entries)]
    path.write_text("\n\n".join(filter(None, blocks)) + "\n", encoding="utf-8")


def _block(entry: Expectation) -> str:
    when = {**({"device": list(entry.device)} if entry.device else {}), **entry.versions}
    lines = ["[[expect]]", "ids = [", *(f"    {_toml(id)}," for id in entry.ids), "]"]
    lines.append(f"outcome = {_toml(entry.outcome)}")
    if when:
        lines.append(f"when = {_toml(when)}")
    lines.append(f"reason = {_toml(entry.reason)}")
    lines += ["strict = false"] * (not entry.strict)
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(of)}" for name, of in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


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
