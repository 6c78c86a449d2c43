"""Reads the files that keep the costs of calls: reports of benchmarks, and counts of launches.

Tables, pictures and the pages of ops take their figures from this module, so that an op has one
name on all of them, and a ratio one meaning.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conformance.benchmarks.measurements import Family, Measurement, Report
from conformance.lab.compiled.costs import command
from conformance.lab.compiled.costs.case import CostCase
from conformance.lab.compiled.costs.case import label as in_short

ROOT = Path(__file__).parents[2]
#: The folder of the reports of benchmarks.
RESULTS = ROOT / "conformance/benchmarks/results"
#: The report of a CPU.
OF_CPU = RESULTS / "cpu.json"
#: The launches and bytes of calls, and of portable training steps, as compiled for a GPU.
COUNTED = ROOT / "conformance/lab/compiled/costs.json"
STEPS = ROOT / "conformance/lab/compiled/portable_steps.json"
#: The same of calls with kernels and without them.
WITHOUT_KERNELS = ROOT / "conformance/lab/compiled/without_kernels.json"
#: Portable programs as compiled for GPUs with little float64, by engine.
ENGINES = ROOT / "conformance/lab/compiled/engine_steps.json"
#: Portable programs as compiled for TPUs.
TPU = ROOT / "conformance/lab/compiled/tpu.json"
#: The sides of a case of these files.
SIDES = ("on", "unlikely", "off", "plain")
#: The prefix of the names of calls of the suite, whose sizes are too small for a user.
SAMPLE = "sample-"


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


@dataclasses.dataclass(frozen=True)
class Counted:
    """A call whose compiled programs were counted.

    Attributes:
        name: The name of the case.
        sides: The counts with the mode ``on``, with it ``off``, and of ``plain`` JAX, as far as
            there are such programs; and ``unlikely``, with the mode on and the branch that random
            data does not take, if the program chooses by its data.
        floor: The bytes of the operands and the results.
    """

    name: str
    sides: Mapping[str, Mapping[str, Any]]
    floor: int

    @property
    def case(self) -> CostCase | None:
        """The call; None if no such case is counted any more."""
        return command.by_name().get(self.name)

    @property
    def label(self) -> str:
        """The call that was counted, without the size: ``conv2d, gradient of the weights``."""
        words = re.split(r"-(?=\d)", self.name, maxsplit=1)[0].removeprefix(SAMPLE).split("-")
        words = [word for word in words if word != "forward"]
        if "backward" not in words:
            return " ".join(words)
        at = words.index("backward")
        part = f" of the {' '.join(words[at + 1 :])}" if words[at + 1 :] else ""
        return f"{' '.join(words[:at])}, gradient{part}"

    def launches(self, side: str) -> int | None:
        """Returns the launches of a side; None if it has no program."""
        return int(self.sides[side]["launches"]) if side in self.sides else None

    @property
    def inputs(self) -> list[str]:
        """The arrays of the call: ``float32[100k, 64]``."""
        shapes = self.case.inputs if self.case is not None else ()
        return [f"{each.dtype.name}[{', '.join(map(in_short, each.shape))}]" for each in shapes]

    @property
    def floors(self) -> float:
        """The bytes that are moved with the mode on, as a multiple of the bytes of the arrays."""
        return float(self.sides["on"]["bytes"] / max(1, self.floor))

    @property
    def plain_floors(self) -> float | None:
        """The same for plain JAX; None without plain JAX."""
        return self.sides["plain"]["bytes"] / max(1, self.floor) if "plain" in self.sides else None

    @property
    def times_plain(self) -> float | None:
        """The bytes with the mode on, as a multiple of plain JAX's; None without plain JAX."""
        return self.floors / self.plain_floors if self.plain_floors else None


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


def counted(path: Path = COUNTED) -> Iterator[Counted]:
    """Yields the calls that were counted with the mode on; none without the file."""
    cases = read_counts(path)["cases"] if path.exists() else {}
    for name, case in cases.items():
        sides = {side: case[side] for side in SIDES if case.get(side)}
        if "on" in sides:
            yield Counted(name, sides, case["floor"])


def of_benchmarks(path: Path = COUNTED) -> Iterator[Counted]:
    """Yields the calls that were counted at the sizes of benchmarks."""
    yield from (each for each in counted(path) if not each.name.startswith(SAMPLE))


def read_counts(path: Path = COUNTED) -> dict[str, Any]:
    """Returns the document of the counts."""
    counts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return counts
