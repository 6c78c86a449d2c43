"""Reads the reports of benchmarks.

Tables, pictures and the pages of ops take their figures from this module, so that an op has one
name on all of them, and a ratio one meaning.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from conformance.benchmarks.measurements import Family, Measurement, Report

ROOT = Path(__file__).parents[2]
#: The folder of the reports of benchmarks.
RESULTS = ROOT / "conformance/benchmarks/results"
#: The report of a CPU.
OF_CPU = RESULTS / "cpu.json"


@dataclasses.dataclass(frozen=True)
class Timed:
    """A measurement of a benchmark.

    Attributes:
        report: The report that has it.
        family: Its family.
        measurement: The times of each side.
    """

    report: Report
    family: Family
    measurement: Measurement

    @property
    def name(self) -> str:
        """The call that was measured, as tables name it: ``max_pool2d(3, 2, 1)``."""
        return self.measurement.case.get("op") or self.family.title.partition(",")[0]

    @property
    def part(self) -> str:
        """The part of a program that was measured, ``run`` or ``compile``; empty for all of it."""
        return self.measurement.case.get("part") or self.measurement.case.get("work", "")

    @property
    def ordered(self) -> float:
        """Milliseconds of the deterministic side."""
        return self.measurement.sides[self.family.ours].median

    def is_of(self, op: str) -> bool:
        """Returns whether it measures an op, which its report names without the module."""
        word = re.match(r"\w+", self.name)
        return word is not None and word[0] == op.rpartition(".")[2]

    def times(self, base: str | None = None, side: str | None = None) -> float | None:
        """Returns the ratio of the times of two sides; None if either was not measured.

        Args:
            base: The other side; None for the base of the family.
            side: The side; None for the deterministic one.
        """
        sides = self.measurement.sides
        side, base = side or self.family.ours, base or self.family.base
        if side == base or side not in sides or base not in sides:
            return None
        return sides[side].median / sides[base].median


def reports() -> list[Path]:
    """Returns the reports of benchmarks."""
    return sorted(RESULTS.glob("*.json"))


def families() -> Iterator[tuple[str, Report, Family]]:
    """Yields each family of each report, after its name on pages: ``scatter-cpu``."""
    for path in reports():
        report = Report.read(path)
        for name, family in report.families.items():
            yield f"{name}-{path.stem}", report, family


def timed(path: Path) -> Iterator[Timed]:
    """Yields the measurements of a report."""
    report = Report.read(path)
    for family in report.families.values():
        for measurement in family.measurements:
            if family.ours in measurement.sides:
                yield Timed(report, family, measurement)
