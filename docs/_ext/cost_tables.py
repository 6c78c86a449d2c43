"""Renders what determinism costs, from the report of the benchmarks and the counts of costs.

The directive ``cost-summary`` has a line for each part of a family of benchmarks: the median, the
least and the greatest ratio of the ordered side to plain JAX. ``cost-of-gpu`` has a line for each
kind of call that was compiled for a GPU. ``measured_tables`` shows the tables behind them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

import cost_files
from conformance.benchmarks import machine, measurements
from conformance_tables import MarkdownDirective


def _ratio(value: float) -> str:
    return f"{value:.2g}"


def _spread(ratios: Sequence[float]) -> str:
    """Returns the median, the least and the greatest of some ratios, as cells of a table."""
    numbers = statistics.median(ratios), min(ratios), max(ratios)
    return " | ".join(_ratio(number) for number in numbers)


def of_benchmarks(path: Path) -> str:
    """Returns the ratios of a report, a line for each part of a family, as Markdown."""
    report = measurements.Report.read(path)
    ratios: dict[tuple[str, str], list[float]] = {}
    for each in cost_files.timed(path):
        if (ratio := each.times()) is not None:
            sides = f"{each.family.ours} beside {each.family.base}"
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


class CostSummary(MarkdownDirective):
    """One table for each report of the benchmarks."""

    def run(self) -> list[nodes.Node]:
        """Makes the tables."""
        return [
            node for path in cost_files.reports() for node in self.parsed(of_benchmarks(path), path)
        ]


class CostOfGpu(MarkdownDirective):
    """One table of the calls that were compiled for a GPU."""

    def run(self) -> list[nodes.Node]:
        """Makes the table."""
        return self.parsed(of_gpu(cost_files.COUNTED), cost_files.COUNTED)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.setup_extension("conformance_tables")
    app.add_directive("cost-summary", CostSummary)
    app.add_directive("cost-of-gpu", CostOfGpu)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
