"""The pairs that hunts have tried, and the faults of XLA and JAX that they meet again.

A pair is a primitive with a dtype, a cut of axes, or a call.
``conformance/hunt/report.json`` keeps the pairs of the hunts so far, and the site shows them::

    {"programs": 8000, "runs": 41000, "seconds": 21600, "faults": [],
     "dtypes": {"add float32": 912}, "cuts": {"add jit 2x4": 31}, "calls": {"add vmap": 88}}

The page *The same bits everywhere* lists the known faults under *What it does not cover*.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from conformance.hunt.checks import Finding
from conformance.hunt.settings import Setting

#: The report that the site shows.
REPORT = Path(__file__).parent / "report.json"
#: The file of the known faults.
KNOWN_FAULTS = Path(__file__).parent / "known_faults.toml"
_TABLES = ("dtypes", "cuts", "calls")
_NUMBERS = ("programs", "runs", "seconds")


class Memory:
    """The counts of a hunt."""

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        self.tables: dict[str, Counter[str]] = {name: Counter() for name in _TABLES}
        self.faults: list[str] = []

    def add(self, equations: Iterable[Sequence[str]], settings: Sequence[Setting]) -> None:
        """Counts a program: the primitives and dtypes of its equations, in each setting."""
        self.numbers["programs"] += 1
        pairs = [(name, dtype) for name, dtype in equations]
        self.tables["dtypes"].update(f"{name} {dtype}" for name, dtype in pairs)
        for name in {name for name, _ in pairs}:
            for setting in settings:
                cut = f"{setting.partition} {'x'.join(map(str, setting.mesh))}".strip()
                self.tables["cuts"][f"{name} {cut}"] += 1
                self.tables["calls"][f"{name} {setting.call}"] += 1

    def write(self, path: Path) -> None:
        """Adds the counts to the report at a path, which is made if it is not there."""
        old = read(path) if path.is_file() else {}
        report: dict[str, Any] = {name: old.get(name, 0) + self.numbers[name] for name in _NUMBERS}
        report["faults"] = [*old.get("faults", []), *self.faults]
        for name, table in self.tables.items():
            report[name] = Counter(old.get(name, {})) + table
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Returns a report."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: it is no report of a hunt: {error}") from error
    missing = {*_NUMBERS, *_TABLES, "faults"} - set(report)
    if missing:
        raise ValueError(
            f"{path}: it is no report of a hunt, and lacks {', '.join(sorted(missing))}"
        )
    return dict(report)


def markdown(report: dict[str, Any]) -> str:
    """Returns a report as a paragraph and a table of the primitives."""
    count = (
        f"{report['programs']:,} programs ran {report['runs']:,} times, in "
        f"{report['seconds'] / 3600:.1f} hours of CPU. {len(report['faults'])} faults were found."
    )
    heads = "Primitive | Dtypes | Meshes | Calls | Programs"
    lines = [count, "", f"| {heads} |", "| --- | --- | --- | --- | --- |"]
    # Of each table, the entries of each primitive: for example, the counts by dtype.
    tables: dict[str, dict[str, dict[str, int]]] = {name: {} for name in _TABLES}
    for table, own in tables.items():
        for pair, number in report[table].items():
            name, _, other = pair.partition(" ")
            own.setdefault(name, {})[other] = number
    for name, dtypes in sorted(tables["dtypes"].items()):
        meshes = tables["cuts"].get(name, {}).keys() - {"none"}
        cells = [
            ", ".join(sorted(dtypes)),
            str(len(meshes)),
            str(len(tables["calls"].get(name, {}))),
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {sum(dtypes.values())} |")
    return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class KnownFault:
    """A known fault, with a sentence for the page and its report or section.

    A finding is one of it by its kind, a primitive that its program has, the partition of its
    setting, a part of the message, and the least number of axes of the mesh. An empty list stands
    for any.
    """

    name: str
    kinds: Sequence[str]
    statement: str
    link: str
    primitives: Sequence[str] = ()
    partitions: Sequence[str] = ()
    message: str = ""
    axes: int = 0

    def matches(self, finding: Finding) -> bool:
        """Returns whether a finding, after it was shrunk, is this fault."""
        own = set(finding.primitives)
        return (
            finding.kind in self.kinds
            and (not self.primitives or bool(own & set(self.primitives)))
            and (not self.partitions or finding.setting.partition in self.partitions)
            and self.message in finding.detail
            and len(finding.setting.mesh) >= self.axes
        )


def known_faults() -> list[KnownFault]:
    """Returns the known faults; an entry without a field, or with an unknown one, is an error."""
    entries = tomllib.loads(KNOWN_FAULTS.read_text(encoding="utf-8")).get("fault", [])
    return [KnownFault(**entry) for entry in entries]
