"""Renders the engines of ``portable``: a line for each engine of ``spec/engines.toml``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from conformance_tables import MarkdownDirective
from spec.engines import engines

_TABLE = Path(__file__).parents[2] / "spec/engines.toml"


def engine_lines() -> Iterator[str]:
    """Yields a table of the engines and their devices, as Markdown."""
    yield "| Engine | The program computes with | Devices |"
    yield "| --- | --- | --- |"
    for engine in engines().values():
        devices = [f"`{platform}`" for platform in engine.platforms]
        if engine.capabilities:
            devices.append(f"compute capability {', '.join(engine.capabilities)}")
        yield f"| `{engine.name}` | {engine.statement} | {', '.join(devices)} |"


class Engines(MarkdownDirective):
    """A table of the engines."""

    def run(self) -> list[nodes.Node]:
        """Makes the table."""
        self.env.note_dependency(str(_TABLE))
        return self.parsed("\n".join(engine_lines()), _TABLE)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directive."""
    app.setup_extension("conformance_tables")
    app.add_directive("engines", Engines)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
