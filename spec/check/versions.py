"""The version of the rows as data: a version always means the same data.

``data.toml`` has the version and a digest of every row and vocabulary. Changed rows need
another version and an entry in ``CHANGELOG.md``; ``write`` makes both.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from spec import export
from spec.loader import read_table
from spec.model import Spec

#: The part of a version that a change raises; ``same`` if the version is not published yet.
Part: TypeAlias = Literal["major", "minor", "patch", "same"]

TABLE = "data.toml"
CHANGELOG = "CHANGELOG.md"
COMMAND = "python -m spec version --write"
#: The greatest number of rows that a line names.
_MOST = 20
_HEAD = f"""\
# The version of the rows as data, with a digest of each row and of each vocabulary of the export.
# If they change, `{COMMAND}` writes this file anew, and an entry of {CHANGELOG}.
"""


@dataclasses.dataclass(frozen=True)
class Changes:
    """The names of the rows and vocabularies that differ from the version."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def part(self) -> Part:
        """The least part to raise, as far as the names of the changes tell."""
        if self.removed:
            return "major"
        return "minor" if self.added or self.changed else "same"

    def lines(self) -> list[str]:
        """Returns a line for each kind of change that there is. Many rows are only counted."""
        kinds = {"Added": self.added, "Changed": self.changed, "Removed": self.removed}
        return [f"{kind}: {', '.join(_listed(names))}." for kind, names in kinds.items() if names]


def _listed(names: tuple[str, ...]) -> list[str]:
    rows = [name for name in names if name.startswith("R")]
    others = [name for name in names if name not in rows]
    return [*(rows if len(rows) <= _MOST else [f"{len(rows)} rows"]), *others]


def digests(spec: Spec) -> dict[str, str]:
    """Returns the digest of each vocabulary, of the schema, and of each row by its id."""
    document = export.document(spec)
    del document["meta"]
    rows = document.pop("rows") + document.pop("primitives")
    parts = {**document, "schema": export.schema(), **{row["id"]: row for row in rows}}
    return {name: _digest(part) for name, part in parts.items()}


def changes(spec: Spec, locked: Mapping[str, str]) -> Changes:
    """Returns the differences from the digests of a version."""
    now = digests(spec)
    return Changes(
        added=tuple(sorted(now.keys() - locked.keys())),
        changed=tuple(sorted(name for name in now.keys() & locked if now[name] != locked[name])),
        removed=tuple(sorted(locked.keys() - now.keys())),
    )


def findings(spec: Spec, locked: Mapping[str, str], root: Traversable) -> Iterator[tuple[str, str]]:
    """Yields a finding if the data differ from their version, or the changelog does not have it."""
    lines = changes(spec, locked).lines()
    if lines:
        text = f"the rows differ from version {spec.data.version}: {' '.join(lines)}"
        yield TABLE, f"{text} Run `{COMMAND}`"
    changelog = root / CHANGELOG
    text = changelog.read_text(encoding="utf-8") if changelog.is_file() else ""
    heading, _, entry = _newest(text).partition("\n")
    if heading != _heading(spec.data.version, spec.data.changed) or not entry.strip():
        text = (
            f"the newest entry is not one of version {spec.data.version} with the date of {TABLE}"
        )
        yield CHANGELOG, f"{text}; describe the change there, or run `{COMMAND}`"


def write(root: Path, spec: Spec, part: Part | None = None) -> str:
    """Gives changed rows a new version, and describes them in the changelog.

    Args:
        root: The folder of the spec.
        spec: Its content.
        part: The part of the version to raise; the lowest that the changes call for by default.

    Returns:
        The version.
    """
    table = read_table(root, TABLE)
    difference = changes(spec, table["digests"])
    if difference.lines():
        part = part or difference.part
        table |= {
            "version": raised(spec.data.version, part),
            "changed": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        _add_entry(root / CHANGELOG, table, difference, same=part == "same")
    table["digests"] = digests(spec)
    (root / TABLE).write_text(_toml(table), encoding="utf-8", newline="\n")
    version: str = table["version"]
    return version


def raised(version: str, part: Part) -> str:
    """Returns the version after ``version``."""
    major, minor, patch = map(int, version.split("."))
    following = {
        "major": (major + 1, 0, 0),
        "minor": (major, minor + 1, 0),
        "patch": (major, minor, patch + 1),
        "same": (major, minor, patch),
    }[part]
    return ".".join(map(str, following))


def _add_entry(file: Path, table: Mapping[str, Any], difference: Changes, *, same: bool) -> None:
    """Adds the changes above the newest entry, or to the newest entry, whose date it renews."""
    text = file.read_text(encoding="utf-8")
    newest = _newest(text)
    before = text.removesuffix(newest)
    heading = _heading(table["version"], table["changed"])
    lines = "\n".join(f"- {line}" for line in difference.lines())
    rest = newest.partition("\n")[2].strip("\n") + "\n" if same else f"\n{newest}"
    file.write_text(f"{before}{heading}\n\n{lines}\n{rest}", encoding="utf-8", newline="\n")


def _newest(changelog: str) -> str:
    """Returns the changelog from its newest entry on."""
    start = changelog.find("\n## ")
    return changelog[start + 1 :] if start >= 0 else ""


def _heading(version: str, changed: str) -> str:
    return f"## [{version}] - {changed[:10]}"


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _toml(table: Mapping[str, Any]) -> str:
    """Returns the content of ``data.toml``: a string for each key, and the digests."""
    keys = [f"{key} = {json.dumps(table[key])}" for key in ("version", "changed", "licence")]
    digests = [f"{name} = {json.dumps(value)}" for name, value in sorted(table["digests"].items())]
    return "\n".join([_HEAD, *keys, "", "[digests]", *digests, ""])
