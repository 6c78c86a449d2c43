"""The findings about the elementary functions, and the report that keeps them.

``exhaustive`` writes the report, ``exhaustive.json``, and the site shows it as a table.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: The report that is kept.
REPORT = Path(__file__).with_name("exhaustive.json")
#: The number of the hardest arguments that a report names.
_HARDEST = 4


@dataclasses.dataclass
class Outcome:
    """The findings about a function.

    Attributes:
        tried: The number of arguments.
        by_mpmath: The number of results that mpmath decided.
        wrong: The results that are not correctly rounded: the arguments and the result.
        error: The greatest error of those, in units in the last place.
        contracted: The arguments whose result depends on contraction.
        hardest: The arguments whose value is closest to the middle of two floats: the distance in
            units in the last place, and the arguments.
    """

    tried: int = 0
    by_mpmath: int = 0
    wrong: list[tuple[tuple[float, ...], float]] = dataclasses.field(default_factory=list)
    error: float = 0.5
    contracted: list[float] = dataclasses.field(default_factory=list)
    hardest: list[tuple[float, tuple[float, ...]]] = dataclasses.field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Adds the findings about other arguments."""
        self.tried += other.tried
        self.by_mpmath += other.by_mpmath
        self.wrong += other.wrong
        self.error = max(self.error, other.error)
        self.contracted += other.contracted
        self.hardest = sorted(self.hardest + other.hardest)[:_HARDEST]

    def is_faultless(self) -> bool:
        """Returns whether every result is correctly rounded, however products are contracted."""
        return not self.wrong and not self.contracted


def entry(kind: str, outcomes: Mapping[str, Outcome], seconds: float) -> dict[str, Any]:
    """Returns the entry of a function in a report.

    Args:
        kind: The arguments that were tried: ``every``, ``some``, ``significands`` or ``random``.
        outcomes: The findings of each dtype.
        seconds: The time that they took.
    """
    dtypes = {
        dtype: {
            "tried": each.tried,
            "wrong": len(each.wrong),
            "contracted": len(each.contracted),
            "by_mpmath": each.by_mpmath,
        }
        for dtype, each in outcomes.items()
    }
    hardest = [" ".join(map(float.hex, each)) for _, each in outcomes["float32"].hardest]
    return {"kind": kind, "seconds": round(seconds), "dtypes": dtypes, "hardest": hardest}


def write(entries: Mapping[str, Any], environment: str, path: Path) -> None:
    """Writes entries into a report. Other entries of it stay, with the environment of their run.

    Args:
        entries: The entries, by the name of the function.
        environment: The versions and the machine, in a line.
        path: The file of the report.
    """
    known = json.loads(path.read_text("utf-8")) if path.exists() else {"functions": {}}
    of_each = {name: {**each, "environment": environment} for name, each in entries.items()}
    functions = known["functions"] | of_each
    document = {"functions": dict(sorted(functions.items()))}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read(path: Path = REPORT) -> dict[str, Any]:
    """Returns the entries of a report, by the name of the function."""
    functions: dict[str, Any] = json.loads(path.read_text("utf-8"))["functions"]
    return functions


_KINDS = {
    "every": "every argument",
    "some": "one argument in 16; it divides two results of `log`",
    "significands": "every significand, exponents -64 to 64",
    "random": "random pairs",
}


def table(path: Path = REPORT) -> Iterator[str]:
    """Yields a title, and a line for each function, as Markdown."""
    functions = read(path)
    yield "# Elementary functions against correctly rounded values"
    yield ""
    for environment in dict.fromkeys(each["environment"] for each in functions.values()):
        yield f"- {environment}"
    yield ""
    yield "| function | tried | float32 | float16 | bfloat16 | by mpmath | wrong | seconds |"
    yield "| --- | --- |" + " ---: |" * 6
    for name, each in functions.items():
        dtypes = each["dtypes"]
        counts = [
            f"{dtypes[dtype]['tried']:,}" if dtype in dtypes else ""
            for dtype in ("float32", "float16", "bfloat16")
        ]
        sums = [sum(own[key] for own in dtypes.values()) for key in ("by_mpmath", "wrong")]
        cells = [_KINDS[each["kind"]], *counts, *map(str, sums), str(each["seconds"])]
        yield f"| `{name}` | {' | '.join(cells)} |"
