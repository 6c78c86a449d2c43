"""Renders what hunts have tried, and known faults of XLA: ``hunt-report``, ``hunt-faults``."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from conformance.hunt import memory
from conformance_tables import MarkdownDirective


class HuntReport(MarkdownDirective):
    """A sentence and a table: the primitives that hunts have drawn."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(memory.REPORT))
        return self.parsed(memory.markdown(memory.read(memory.REPORT)), memory.REPORT)


class HuntFaults(MarkdownDirective):
    """A list of the known faults of XLA and JAX that hunts meet."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(memory.KNOWN_FAULTS))
        lines = [
            f"- **{each.name.capitalize()}.** {each.statement}" for each in memory.known_faults()
        ]
        return self.parsed("\n".join(lines) + "\n", memory.KNOWN_FAULTS)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.setup_extension("conformance_tables")
    app.add_directive("hunt-report", HuntReport)
    app.add_directive("hunt-faults", HuntFaults)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
