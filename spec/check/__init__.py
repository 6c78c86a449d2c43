"""The lint of the spec: ``python -m spec check``.

``schema`` checks the shape of each file. The other modules check what a schema cannot express:
names that one file uses and another declares, also in errata and alerts (``names``), wording, the
ledger of ids, whether the rows of an op agree and leave out no call (``coherence``), the locks, and
the version of the data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Any

from spec import loader
from spec.check import coherence, ledger, locks, names, schema, versions, wording
from spec.check.names import FileRow
from spec.model import Spec, SpecError

VOCABULARIES = (*loader.TABLES, "ids", "locks")


@dataclasses.dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        file: The file that has the problem.
        id: The row, or the name within a vocabulary; empty if there is none.
        text: A description of the problem and of the remedy.
    """

    file: str
    id: str
    text: str

    def __str__(self) -> str:
        """Returns the problem on one line."""
        return ": ".join(part for part in dataclasses.astuple(self) if part)


def problems(root: Traversable = loader.ROOT) -> list[Problem]:
    """Returns everything that is wrong with the spec in the folder ``root``, sorted."""
    try:
        tables = {name: loader.read_table(root, f"{name}.toml") for name in VOCABULARIES}
        files = loader.row_files(root)
    except (OSError, SpecError) as error:
        return [Problem("", "", f"{error}; nothing else was checked")]
    found = list(_vocabularies(tables))
    if found:
        # The names of the rows cannot be looked up in a malformed vocabulary.
        return sorted(found)
    rows = [
        (file, row)
        for file, content in files.items()
        for row in _list(content.get("row"))
        if isinstance(row, dict)
    ]
    well_formed: list[FileRow] = []
    for file, content in files.items():
        malformed, good = _row_file(file, content, tables)
        found += malformed
        well_formed += good
    for check in (names.findings, wording.findings):
        found += [Problem(*finding) for finding in check(well_formed, tables)]
    used = [(file, str(row.get("id")), str(row.get("op"))) for file, row in rows]
    found += [Problem(*finding) for finding in ledger.findings(used, tables["ids"])]
    if not found:
        # Rows can only be compared with one another if each of them is right.
        spec = loader.assemble(tables, files)
        found += _together(spec, tables, {row["id"]: file for file, row in rows})
        # Rows get a version when they are right.
        locked = tables["data"]["digests"]
        found = found or [Problem(file, "", t) for file, t in versions.findings(spec, locked, root)]
    return sorted(found)


def _vocabularies(tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields the problems of the shape of the files that are not files of rows."""
    for name, table in tables.items():
        for path, text in schema.findings(name, table):
            yield Problem(f"{name}.toml", _dotted(path[:1]), _at(path[1:], text))


def _row_file(
    file: str, content: Mapping[str, Any], tables: Mapping[str, Any]
) -> tuple[list[Problem], list[FileRow]]:
    """Returns the problems of the shape of a file of rows, and the rows that have none."""
    rows = [
        loader.completed(row, tables["profiles"], tables["devices"])
        if isinstance(row, dict)
        else row
        for row in _list(content.get("row"))
    ]
    full = {**content, "row": rows} if isinstance(content.get("row"), list) else content
    found: list[Problem] = []
    malformed: set[int] = set()
    for path, text in schema.findings("row_file", full):
        if len(path) < 2:
            found.append(Problem(file, "", _at(path, text)))
            malformed.update(range(len(rows)))
            continue
        number = int(path[1])
        row = rows[number]
        id = row.get("id") if isinstance(row, dict) else None
        found.append(Problem(file, str(id or f"row {number}"), _at(path[2:], text)))
        malformed.add(number)
    return found, [(file, row) for number, row in enumerate(rows) if number not in malformed]


def _together(
    spec: Spec, tables: Mapping[str, Any], file_of: Mapping[str, str]
) -> Iterator[Problem]:
    """Yields the problems between rows that are each right."""
    for id, text in coherence.findings(spec):
        yield Problem(file_of[id], id, text)
    for profile, text in locks.findings(spec, tables["locks"]):
        yield Problem("locks.toml", profile, text)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _at(path: list[str | int], text: str) -> str:
    return f"{_dotted(path)} {text}".strip()


def _dotted(path: list[str | int]) -> str:
    return ".".join(map(str, path))
