"""Renders what determinism costs, from the reports of the benchmarks.

- ``cost-summary`` has a line for each part of a family of benchmarks: the median, the least and the
  greatest ratio of the ordered side to plain JAX.
- ``cost-at-a-glance`` has the times of training programs, compiled and run under each guarantee,
  on one device and on eight. README has a copy of it.
- ``measured-tables`` has every case behind them. Its lines name the tables: ``scatter-cpu`` is the
  family ``scatter`` of the report ``cpu.json``, with its pictures.

No figure is written by hand, so a page cannot cite a measurement that was repeated since. Suppose
that three cases of a family took 1, 4.2 and 2.5 times the time of plain JAX. The line of
``cost-summary`` is::

    | index_add, float32 | ordered compared with plain | 3 | 2.5 | 1 | 4.2 |
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

import cost_files
import pictures
from conformance.benchmarks import machine, measurements
from conformance.benchmarks.measurements import Family, Report
from conformance_tables import MarkdownDirective


def _ratio(value: float) -> str:
    return f"{value:.2g}"


def _spread(ratios: Sequence[float]) -> str:
    """Returns the median, the least and the greatest of some ratios, as cells of a table."""
    numbers = statistics.median(ratios), min(ratios), max(ratios)
    return " | ".join(_ratio(number) for number in numbers)


def of_benchmarks(path: Path) -> str:
    """Returns the ratios of a report, a line for each part of a family, as Markdown."""
    report = Report.read(path)
    ratios: dict[tuple[str, str], list[float]] = {}
    for each in cost_files.timed(path):
        if (ratio := each.times()) is not None:
            sides = f"{each.family.ours} compared with {each.family.base}"
            part = f"{each.part}, {sides}" if each.part else sides
            ratios.setdefault((each.family.title, part), []).append(ratio)
    lines = [
        f"Time in units of plain JAX's, on {machine.line(report.environment)}:",
        "",
        "| Benchmarks | What is measured | Cases | Median | Least | Greatest |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for (title, part), own in ratios.items():
        lines.append(f"| {title} | {part} | {len(own)} | {_spread(own)} |")
    return "\n".join(lines)


def at_a_glance(path: Path) -> str:
    """Returns the times of the training programs of a report under each guarantee, as Markdown.

    A cell has milliseconds, and in brackets their ratio to plain JAX's.
    """
    report = Report.read(path)
    family = report.families["portable"]
    sides = [side for side in family.measurements[0].sides if side != family.base]
    head = ["Program", "Devices", "Part", family.base, *(f"`{side}`" for side in sides)]
    lines = [f"| {' | '.join(head)} |", "| --- | ---: | --- |" + " ---: |" * (len(sides) + 1)]
    programs = {each.case["program"] for each in family.measurements if each.case["devices"] != "1"}
    for each in family.measurements:
        if each.case["program"] not in programs:
            continue
        times = {side: each.sides[side].median for side in (family.base, *sides)}
        plain = times.pop(family.base)
        cells = [each.case["program"], each.case["devices"], each.case["part"], f"{plain:,.0f}"]
        cells += [f"{time:,.0f} ({time / plain:.1f})" for time in times.values()]
        lines.append(f"| {' | '.join(cells)} |")
    where = machine.line(report.environment)
    return "\n".join(
        [*lines, "", f"Milliseconds, in brackets as a multiple of plain JAX's, on {where}."]
    )


@dataclasses.dataclass(frozen=True)
class Table:
    """A table that ``measured-tables`` can show.

    Attributes:
        file: The file that has its figures.
        text: Returns the title and the table, as lines of Markdown.
        pictures: The names of its pictures.
    """

    file: Path
    text: Callable[[], Iterable[str]]
    pictures: tuple[str, ...] = ()


def all_tables() -> Mapping[str, Table]:
    """Returns the tables that ``measured-tables`` can show, by their names."""
    known = {}
    drawn = pictures.pictures()
    for name, report, family in cost_files.families():
        names = (pictures.of_benchmark(each) for each in (name, f"{name}-curve"))
        known[name] = Table(
            cost_files.RESULTS / f"{name.rpartition('-')[2]}.json",
            functools.partial(_of_family, report, family),
            tuple(each for each in names if each in drawn),
        )
    return known


def _of_family(report: Report, family: Family) -> list[str]:
    return measurements.table(report, family).splitlines()


class CostSummary(MarkdownDirective):
    """One table for each report of the benchmarks."""

    def run(self) -> list[nodes.Node]:
        """Makes the tables."""
        return [
            node for path in cost_files.reports() for node in self.parsed(of_benchmarks(path), path)
        ]


class CostAtAGlance(MarkdownDirective):
    """The times of training programs under each guarantee, on a CPU."""

    def run(self) -> list[nodes.Node]:
        """Makes the table."""
        return self.parsed(at_a_glance(cost_files.OF_CPU), cost_files.OF_CPU)


class MeasuredTables(MarkdownDirective):
    """The tables that the lines of the directive name; each title is a rubric."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Makes a rubric, the table and the pictures of each name."""
        known = all_tables()
        result: list[nodes.Node] = []
        for name in filter(None, map(str.strip, self.content)):
            if name not in known:
                raise self.error(f"no table {name!r}; there are {sorted(known)}")
            table = known[name]
            self.env.note_dependency(str(table.file))
            title, *lines = table.text()
            result.append(nodes.rubric("", title.removeprefix("# ")))
            result += self.parsed("\n".join(lines), table.file)
            for picture in table.pictures:
                result += pictures.images(picture, self.env)
        return result


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.setup_extension("conformance_tables")
    app.add_directive("cost-summary", CostSummary)
    app.add_directive("cost-at-a-glance", CostAtAGlance)
    app.add_directive("measured-tables", MeasuredTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
