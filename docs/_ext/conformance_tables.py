"""Renders reports of the conformance suite.

Directives: ``conformance-differences`` and ``conformance-evidence``.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import row_evidence
from conformance.reporting import pytorch_differences


class Tables(SphinxDirective):
    """What the directives of this module share."""

    def tables(self, text: str, path: Path) -> list[nodes.Node]:
        """What Markdown that was made of ``path`` says."""
        made = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), str(path)), 0, made)
        return list(made.children)


class Differences(Tables):
    """What the report of this name shows to differ from PyTorch's documents."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Makes three tables."""
        path = row_evidence.REPORTS / self.arguments[0]
        self.env.note_dependency(str(path))
        try:
            text = pytorch_differences.markdown(path)
        except ValueError as error:
            raise self.error(str(error)) from error
        return self.tables(text, path)


class AllEvidence(Tables):
    """What the reports of this implementation show of all rows, and what made them."""

    def run(self) -> list[nodes.Node]:
        """Makes two tables, and a sentence where nothing ran on a GPU."""
        folder = Path(self.config.conformance_reports)
        return self.tables(row_evidence.page(folder, Path(self.env.srcdir)), folder)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.setup_extension("spec_lists")  # it reads the reports first, and says where they are
    app.add_directive("conformance-differences", Differences)
    app.add_directive("conformance-evidence", AllEvidence)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
