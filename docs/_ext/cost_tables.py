"""Renders what determinism costs, from the report of the benchmarks and the counts of costs.

The directive ``cost-summary`` has a line for each family of benchmarks: the middle, the least
and the greatest ratio of the ordered side to plain JAX. ``cost-of-gpu`` has a line for each kind of
call that was compiled for a GPU. ``measured_tables`` shows the tables behind them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

import cost_files
from conformance.benchmarks import machine, measurements
from conformance_tables import MarkdownDirective


def _ratio(value: float) -> str:
    return f"{value:.2g}"


def _spread(ratios: list[float]) -> str:
    """Returns the middle, the least and the greatest of some ratios, as cells of a table."""
    numbers = statistics.median(ratios), min(ratios), max(ratios)
    return " | ".join(_ratio(number) for number in numbers)


def of_benchmarks(path: Path) -> str:
    """Returns the ratios of a report of the benchmarks, a line for each family, as Markdown."""
    report = measurements.Report.read(path)
    lines = [
        f"Time in units of plain JAX's, on {machine.line(report.environment)}:",
        "",
        "| Benchmarks | What is measured | Cases | Middle | Least | Greatest |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for family in report.families.values():
        ratios = [
            each.sides[family.ours].median / each.sides[family.base].median
            for each in family.measurements
            if family.ours in each.sides and family.base in each.sides
        ]
        if ratios and family.base != family.ours:
            sides = f"{family.ours} beside {family.base}"
            lines.append(f"| {family.title} | {sides} | {len(ratios)} | {_spread(ratios)} |")
    return "\n".join(lines)


def of_gpu(path: Path) -> str:
    """Returns the ratios of the bytes of compiled calls, a line for each op, as Markdown."""
    counts = cost_files.read_counts(path)
    groups: dict[str, list[float]] = {}
    for name, case in cost_files.of_benchmarks(counts).items():
        if case.get("plain"):
            op = _op(name)
            groups.setdefault(op, []).append(case["on"]["bytes"] / case["plain"]["bytes"])
    return "\n".join(_gpu_lines(counts, groups))


def _op(case: str) -> str:
    """Returns the op of a case: its name without the sizes."""
    words = case.split("-")
    return " ".join(word for word in words if not word[:1].isdigit())


def _gpu_lines(counts: dict[str, str], groups: dict[str, list[float]]) -> Iterator[str]:
    target, release = counts["target"].upper(), counts["jax"]
    yield f"Bytes moved in units of plain JAX's, compiled for one {target} with jax {release};"
    yield "nothing ran:"
    yield ""
    yield "| Call | Cases | Middle | Least | Greatest |"
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
