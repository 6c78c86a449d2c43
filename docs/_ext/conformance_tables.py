"""Renders reports of the conformance suite as tables.

The directive ``conformance-differences`` compares a report of PyTorch with PyTorch's documents. The
directive ``conformance-evidence`` counts the evidence of all rows. The directive ``report-records``
has a line for each record of a check that belongs to no row, such as ``program compiled``::

    | transformer | h200 | 332 launches, 5,486,806 bytes; with the mode off 50 launches, ... |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import row_evidence
from conformance.reporting import pytorch_differences
from conformance.reporting.report import Report


class MarkdownDirective(SphinxDirective):
    """A directive whose content is rendered from Markdown that a function returns."""

    def parsed(self, text: str, path: Path) -> list[nodes.Node]:
        """Returns the nodes of Markdown that was made from ``path``."""
        container = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), str(path)), 0, container)
        return list(container.children)


class ConformanceDifferences(MarkdownDirective):
    """Three tables: the differences between a report and PyTorch's documents.

    The argument is the file name of the report.
    """

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = row_evidence.REPORTS / self.arguments[0]
        self.env.note_dependency(str(path))
        try:
            text = pytorch_differences.markdown(path)
        except ValueError as error:
            raise self.error(str(error)) from error
        return self.parsed(text, path)


class ConformanceEvidence(MarkdownDirective):
    """Two tables: the evidence of all rows, and the reports that have it."""

    def run(self) -> list[nodes.Node]:
        folder = Path(self.config.conformance_reports)
        return self.parsed(row_evidence.page(folder, Path(self.env.srcdir)), folder)


def records(reports: Iterable[Report], check: str) -> Iterator[str]:
    """Yields a table of the records of a check, as Markdown."""
    yield "| Program | For | Result |"
    yield "| --- | --- | --- |"
    for record in (each for report in reports for each in report.records if each.check == check):
        outcome = "" if record.outcome == "passed" else f"{record.outcome}: "
        of = record.lowering or record.sample
        yield f"| {record.op} | {of} | {outcome}{record.detail} |"


class ReportRecords(MarkdownDirective):
    """A table of the records of the check that the argument names."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        folder = Path(self.config.conformance_reports)
        reports = row_evidence.our_reports(folder)
        for name in reports:
            self.env.note_dependency(str(folder / name))
        lines = [*records(reports.values(), self.arguments[0])]
        if len(lines) == 2:
            raise self.error(f"no record is of the check {self.arguments[0]!r}")
        return self.parsed("\n".join(lines), folder)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    # It checks the reports before any page is read, and has the option of their folder.
    app.setup_extension("spec_lists")
    app.add_directive("conformance-differences", ConformanceDifferences)
    app.add_directive("conformance-evidence", ConformanceEvidence)
    app.add_directive("report-records", ReportRecords)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
