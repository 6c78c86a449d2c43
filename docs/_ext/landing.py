"""Renders what the first page and the guides state about the project itself, from its data.

Directives: ``evidence-state`` counts the rows of each device that ran on hardware, or whose
programs were compiled for it, and ``repository`` links the repository and its tracker, as far as
``pyproject.toml`` names them under ``project.urls``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import row_evidence
import spec
from conformance_tables import MarkdownDirective

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def urls() -> Mapping[str, str]:
    """Returns the addresses that pyproject.toml names, by their labels."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    addresses: Mapping[str, str] = project.get("urls", {})
    return addresses


def evidence(folder: Path) -> str:
    """Returns a table of the evidence of each device, as Markdown.

    Args:
        folder: The folder of the reports.
    """
    reports = row_evidence.our_reports(folder)
    active = spec.load().select(active=True)
    by_device = row_evidence.by_device(active, row_evidence.by_row(reports))
    lines = [
        "| Device | Rows | Ran on it | Compiled for it | Devices |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for device, entries in by_device.items():
        good = [entry.devices for entry in entries if not entry.failures]
        ran, compiled = ([e for e in good if level in e] for level in ("hardware", "compiled"))
        names = {name for each in good for level in each for name in each[level]}
        if entries:
            counts = f"{len(entries)} | {len(ran)} | {len(compiled)}"
            lines.append(f"| `{device}` | {counts} | {', '.join(sorted(names))} |")
    if not row_evidence.ran_on_gpu(reports.values()):
        lines += ["", row_evidence.NO_GPU]
    return "\n".join(lines)


class EvidenceState(MarkdownDirective):
    """A table: how many rows ran on each device, and how many were compiled for it."""

    def run(self) -> list[nodes.Node]:
        """Makes the table."""
        folder = Path(self.config.conformance_reports)
        return self.parsed(evidence(folder), folder)


class Repository(SphinxDirective):
    """A line with the addresses of the project; the content, if it has none, or nothing."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Makes a paragraph of links."""
        self.env.note_dependency(str(PYPROJECT))
        addresses = urls()
        if not addresses:
            text = " ".join(self.content)
            return [nodes.paragraph(text, text)] if text else []
        line = nodes.paragraph()
        for label, address in addresses.items():
            line += [nodes.Text(" · ")] if len(line) else []
            line += nodes.reference("", label, refuri=address)
        return [line]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directives."""
    app.setup_extension("conformance_tables")
    app.add_directive("evidence-state", EvidenceState)
    app.add_directive("repository", Repository)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
