"""Renders what determinism costs, from the reports of the benchmarks and the counts of launches.

- ``cost-summary`` has a line for each part of a family of benchmarks: the median, the least and the
  greatest ratio of the ordered side to plain JAX.
- ``cost-at-a-glance`` has the times of training programs, compiled and run under each guarantee,
  on one device and on eight. README has a copy of it.
- ``cost-of-gpu`` has a line for each kind of call that was compiled for a GPU.
- ``measured-tables`` has every case behind them. Its lines name the tables: ``scatter-cpu`` is the
  family ``scatter`` of the report ``cpu.json``, with its pictures.

No figure is written by hand, so a page cannot cite a measurement that was repeated since. Suppose
that three cases of a call, counted in compiled code, move 1, 4.2 and 2.5 times the bytes of plain
JAX. The line of ``cost-of-gpu`` is::

    | Call | Cases | Median | Least | Greatest |
    | --- | ---: | ---: | ---: | ---: |
    | index_add | 3 | 2.5 | 1 | 4.2 |
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

import cost_files
import engine_tables
import pictures
from conformance.benchmarks import machine, tables
from conformance.benchmarks.measurements import Family, Report
from conformance.lab.elementary import findings
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


def of_gpu(path: Path) -> str:
    """Returns the ratios of the bytes of compiled calls, a line for each op, as Markdown."""
    groups: dict[str, list[float]] = {}
    for each in cost_files.of_benchmarks(path):
        if (ratio := each.times_plain) is not None:
            groups.setdefault(each.label, []).append(ratio)
    if not groups:
        return "No program was counted."
    return "\n".join(_gpu_lines(cost_files.read_counts(path), groups))


def _gpu_lines(counts: Mapping[str, str], groups: Mapping[str, Sequence[float]]) -> Iterator[str]:
    target, release = counts["target"].upper(), counts["jax"]
    yield f"Bytes moved in units of plain JAX's, compiled for one {target} with jax {release};"
    yield "nothing ran:"
    yield ""
    yield "| Call | Cases | Median | Least | Greatest |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for op, ratios in groups.items():
        yield f"| {op} | {len(ratios)} | {_spread(ratios)} |"


def every_case(path: Path = cost_files.COUNTED) -> Iterator[str]:
    """Yields the launches and bytes of each call at the sizes of benchmarks, as Markdown."""
    yield "# Launches and bytes of calls"
    yield ""
    yield f"- {_compiled(cost_files.read_counts(path))}"
    yield "- A floor: each operand read once and each result written once."
    yield "- In brackets: the bytes with the mode on, as a multiple of the bytes of this side."
    yield "- A sort counts as one launch. On a device it takes several."
    yield (
        "- *Other branch*: a program that samples its data takes this branch if the sample does not"
        " represent them. The bits are the same."
    )
    yield ""
    yield (
        "| case | launches | bytes | floors | sorts | plain: launches | bytes "
        "| mode off: launches | bytes |"
    )
    yield "| --- |" + " ---: |" * 8
    for each in cost_files.of_benchmarks(path):
        on = each.sides["on"]
        cells = [*_own(on, each.floor), str(on["sorts"])]
        for side in ("plain", "off"):
            cells += _beside(on, each.sides[side]) if side in each.sides else ["", ""]
        yield f"| {each.name} | {' | '.join(cells)} |"
        if "unlikely" in each.sides:
            cells = [*_own(each.sides["unlikely"], each.floor), *[""] * 5]
            yield f"| {each.name}, other branch | {' | '.join(cells)} |"


def _own(side: Mapping[str, int], floor: int) -> list[str]:
    floors = side["bytes"] / max(1, floor)
    return [str(side["launches"]), _bytes(side["bytes"]), f"{floors:.1f}"]


def _beside(on: Mapping[str, int], other: Mapping[str, int]) -> list[str]:
    ratio = on["bytes"] / max(1, other["bytes"])
    return [str(other["launches"]), f"{_bytes(other['bytes'])} ({ratio:.1f})"]


def _bytes(number: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} B"


def portable_steps(path: Path = cost_files.STEPS) -> Iterator[str]:
    """Yields the launches and bytes of portable training steps, as Markdown."""
    counts = cost_files.read_counts(path)
    yield "# Portable training steps by their compiled code"
    yield ""
    yield f"- {_compiled(counts)}"
    yield "- In brackets: the ratio to plain."
    yield ""
    yield "| step | launches, plain | launches, portable | bytes, plain | bytes, portable |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, sides in counts["cases"].items():
        cells = []
        for key in ("launches", "bytes"):
            plain, portable = sides["plain"][key], sides["portable"][key]
            cells += [f"{plain:,}", f"{portable:,} ({portable / plain:.1f})"]
        yield f"| {name} | {' | '.join(cells)} |"


def without_kernels(path: Path = cost_files.WITHOUT_KERNELS) -> Iterator[str]:
    """Yields the launches and bytes of calls with kernels and without, as Markdown."""
    counts = cost_files.read_counts(path)
    yield "# Calls with kernels and without them"
    yield ""
    yield f"- {_compiled(counts)}"
    yield "- In brackets: the bytes without kernels, as a multiple of the bytes with kernels."
    yield "- *Unknown*: the loop runs as often as the values of the indices ask for."
    yield ""
    yield "| call | without kernels | launches | bytes | launches, without | bytes, without |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for name, case in counts["cases"].items():
        own, other = case["with"], case["without"]
        cells = [case["replacement"], str(own["launches"]), _bytes(own["bytes"])]
        if other is None:
            cells += ["unknown", "unknown"]
        else:
            times = other["bytes"] / own["bytes"]
            cells += [str(other["launches"]), f"{_bytes(other['bytes'])} ({times:.1f})"]
        yield f"| {name} | {' | '.join(cells)} |"


def _compiled(counts: Mapping[str, Any]) -> str:
    target, release = counts["target"].upper(), counts["jax"]
    return f"Compiled for one {target} by XLA of jax {release}; nothing ran."


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
    known = {
        "costs": Table(cost_files.COUNTED, every_case),
        "portable_steps": Table(cost_files.STEPS, portable_steps),
        "without_kernels": Table(cost_files.WITHOUT_KERNELS, without_kernels),
        "engine_steps": Table(
            cost_files.ENGINES, lambda: engine_tables.programs_by_engine(cost_files.ENGINES)
        ),
        "tpu": Table(cost_files.TPU, lambda: engine_tables.programs_for_tpu(cost_files.TPU)),
        "elementary_arguments": Table(findings.REPORT, findings.table),
    }
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
    return tables.table(report, family).splitlines()


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


class CostOfGpu(MarkdownDirective):
    """One table of the calls that were compiled for a GPU."""

    def run(self) -> list[nodes.Node]:
        """Makes the table."""
        return self.parsed(of_gpu(cost_files.COUNTED), cost_files.COUNTED)


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
    app.add_directive("cost-of-gpu", CostOfGpu)
    app.add_directive("measured-tables", MeasuredTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
