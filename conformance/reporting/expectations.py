"""Files of expectations: the known faults of an implementation, each with its reason.

[[expect]]
ids = ["R0095", "index_put", "*-cpu-torch-2.12-written", "test_bits[R0095-*"]
outcome = "fail"            # or "missing", for ops that do not exist; or "skip"
when = { device = "cpu", torch = ">=2.12,<2.14" }
reason = "Why."
strict = true               # the default: a test that passes unexpectedly is an error
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
from packaging.version import Version

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

        Args:
            test: The name of the test with its parameters, as ``test_off[R0001-index_add-...]``.
            device: The device of its cell. None for a test without a cell, which only its whole
                name can mean.
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
