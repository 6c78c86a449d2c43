"""Counts the pairs that a hunt has tried: a primitive with a dtype, a cut of axes, or a call.

``conformance/hunt/report.json`` keeps the pairs of the hunts so far, and the site shows them::

    {"programs": 8000, "runs": 41000, "seconds": 21600, "faults": [],
     "dtypes": {"add float32": 912}, "cuts": {"add jit 2x4": 31}, "calls": {"add vmap": 88}}
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from conformance.hunt.settings import Setting

#: The report that the site shows.
REPORT = Path(__file__).parent / "report.json"
_TABLES = ("dtypes", "cuts", "calls")
_NUMBERS = ("programs", "runs", "seconds")


class Memory:
    """The counts of a hunt.

    Attributes:
        numbers: The programs, the runs, the seconds of CPU, and the findings not shown again.
        tables: A table of counts for each kind of pair.
        faults: A sentence for each finding.
    """

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
        report = self.merged(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def merged(self, path: Path) -> dict[str, Any]:
        """Returns the report at a path with the counts of this hunt added."""
        old = read(path) if path.is_file() else {}
        report: dict[str, Any] = {name: old.get(name, 0) + self.numbers[name] for name in _NUMBERS}
        report["faults"] = [*old.get("faults", []), *self.faults]
        for name, table in self.tables.items():
            report[name] = dict(Counter(old.get(name, {})) + table)
        return report


def read(path: Path) -> dict[str, Any]:
    """Returns a report.

    Raises:
        ValueError: The file holds something else.
    """
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
    names = sorted({pair.split()[0] for pair in report["dtypes"]})
    count = (
        f"{report['programs']:,} programs ran {report['runs']:,} times, in "
        f"{report['seconds'] / 3600:.1f} hours of CPU. {len(report['faults'])} faults were found."
    )
    lines = [
        count,
        "",
        "| Primitive | Dtypes | Meshes | Calls | Programs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in names:
        own = {
            table: {
                pair.split(" ", 1)[1]: n
                for pair, n in report[table].items()
                if pair.split()[0] == name
            }
            for table in _TABLES
        }
        meshes = sorted({cut for cut in own["cuts"] if cut != "none"})
        cells = [", ".join(sorted(own["dtypes"])), str(len(meshes)), str(len(own["calls"]))]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {sum(own['dtypes'].values())} |")
    return "\n".join(lines) + "\n"
