"""The costs of determinism, from the reports of the benchmarks and of compiled programs.

Tables, pictures and the pages of ops take their figures from this module, so that an op has one
name on all of them, and a ratio one meaning. No figure is written by hand, so a page cannot cite a
measurement that was repeated since. Suppose that two benchmarks of ``index_add`` took 0.67 and 4
times the time of the fast path on a CPU, and that its code was compiled for an H200. The card on
its page, by ``card``, is::

    **on a CPU**, measured: 0.67 to 4.0 times the time of plain `.at[].add`
    **on a GPU**, as compiled for an H200: 15 launches, ...; with the mode off 2 launches, ...
"""

from __future__ import annotations

import dataclasses
import functools
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import row_evidence
from answers import grouped
from conformance.benchmarks import measurements
from conformance.benchmarks.measurements import Family, Measurement, Report
from conformance.lab.compiled import PROGRAM_CHECK, programs
from conformance.reporting.report import Record

#: The folder of the reports of benchmarks.
RESULTS = Path(__file__).parents[2] / "conformance/benchmarks/results"
#: The report of a CPU.
OF_CPU = RESULTS / "cpu.json"
#: The side of a benchmark to compare with, where plain JAX has no such function.
PEER = "PyTorch, deterministic"


@dataclasses.dataclass(frozen=True)
class Timed:
    """A measurement of a benchmark."""

    report: Report
    family: Family
    measurement: Measurement

    @property
    def name(self) -> str:
        """The call that was measured, as tables name it: ``max_pool2d(3, 2, 1)``."""
        return self.measurement.case.get("op") or self.family.title.partition(",")[0]

    @property
    def compared(self) -> str:
        """The part of a program, such as ``run`` or ``compile``, and the sides of its ratio."""
        part = self.measurement.case.get("part") or self.measurement.case.get("work", "")
        return f"{part}{', ' if part else ''}{self.family.ours} compared with {self.family.base}"

    @property
    def size(self) -> str:
        """The size of the case in words."""
        return ", ".join(
            str(value) if key in ("size", "input", "direction", "op", "work") else f"{value} {key}"
            for key, value in self.measurement.case.items()
            if key != "beside"
        )

    def times(self, base: str | None = None, side: str | None = None) -> float | None:
        """Returns the ratio of the times of two sides, by default of the family's, or None."""
        sides = self.measurement.sides
        side, base = side or self.family.ours, base or self.family.base
        if side == base or side not in sides or base not in sides:
            return None
        return sides[side].median / sides[base].median


@functools.cache
def families() -> Mapping[str, tuple[Report, Family]]:
    """Returns each family of each report, by its name on pages: ``scatter-cpu``."""
    reports = [(path.stem, Report.read(path)) for path in sorted(RESULTS.glob("*.json"))]
    return {
        f"{name}-{stem}": (report, family)
        for stem, report in reports
        for name, family in report.families.items()
    }


@functools.cache
def timed() -> Sequence[Timed]:
    """Returns the measurements of all reports."""
    return [
        Timed(report, family, measurement)
        for report, family in families().values()
        for measurement in family.measurements
        if family.ours in measurement.sides
    ]


def table(name: str) -> tuple[str, str]:
    """Returns the title and the table of a family, as Markdown."""
    if name not in families():
        raise ValueError(f"no table {name!r}; there are {sorted(families())}")
    title, _, body = measurements.table(*families()[name]).partition("\n")
    return title.removeprefix("# "), body


def summary() -> Mapping[str, Sequence[tuple[str, str, int, str]]]:
    """Returns the ratios by machine: the title, the sides, the cases, and the cells of the ratios.

    The cells are the median, the least and the greatest ratio.
    """
    ratios = grouped(
        ((measurements.line(each.report.environment), each.family.title, each.compared), ratio)
        for each in timed()
        if (ratio := each.times()) is not None
    )
    return grouped(
        (where, (title, compared, len(own), " | ".join(map("{:.2g}".format, _spread(own)))))
        for (where, title, compared), own in ratios.items()
    )


def _spread(ratios: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(ratios), min(ratios), max(ratios)


def at_a_glance() -> tuple[str, Sequence[str], Sequence[tuple[Mapping[str, str], Sequence[float]]]]:
    """Returns the machine, the sides, and the case and the times of each training program on a CPU.

    The first side is plain JAX. A program stands there if it was measured on several devices too.
    """
    report = Report.read(OF_CPU)
    family = report.families["portable"]
    sides = dict.fromkeys([family.base, *family.measurements[0].sides])
    several = {m.case["program"] for m in family.measurements if m.case["devices"] != "1"}
    lines = [
        (each.case, [each.sides[side].median for side in sides])
        for each in family.measurements
        if each.case["program"] in several
    ]
    return measurements.line(report.environment), list(sides), lines


@functools.cache
def compiled() -> Sequence[Record]:
    """Returns the records of the compiled calls of ops."""
    reports = row_evidence.our_reports(row_evidence.REPORTS).values()
    records = (record for each in reports for record in each.records)
    return [r for r in records if r.check == PROGRAM_CHECK and r.op in programs.CALLS]


def of_op(op: str) -> list[Timed]:
    """Returns the measurements of an op, which a report names without the module."""
    name = op.rpartition(".")[2]
    return [each for each in timed() if re.match(rf"{name}(?!\w)", each.name)]


def card(op: str) -> Iterator[str]:
    """Yields lines: the time on a CPU compared with the fast path, and the launches on a GPU."""
    yield f"**on a CPU**{_on_cpu(of_op(op))}"
    for record in compiled():
        name, *others = re.split(r"\b", record.op, maxsplit=2)[1:]
        if name == op.rpartition(".")[2]:
            device = f"an {str(record.lowering).upper()}"
            yield f"**on a GPU**{''.join(others)}, as compiled for {device}: {record.detail}"


def _on_cpu(own: Sequence[Timed]) -> str:
    for beside in (None, PEER):
        ratios = sorted(ratio for each in own if (ratio := each.times(beside)) is not None)
        if ratios:
            base = beside or next(each.family.base for each in own if each.times())
            whose = "PyTorch's deterministic mode" if base == PEER else base
            ends = dict.fromkeys((ratios[0], *ratios[1:][-1:]))
            span = " to ".join(f"{end:.1f}" if end >= 1 else f"{end:.2g}" for end in ends)
            return f", measured: {span} times the time of {whose}"
    if not own:
        return ": no benchmark of it is kept"
    ours = [(each.measurement.sides[each.family.ours].median, each.size) for each in own[:2]]
    return f", measured: {'; '.join(f'{time:.2g} ms ({size})' for time, size in ours)}"
