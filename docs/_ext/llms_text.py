"""Writes ``llms.txt``: the pages of the site with a line about each, for programs that read text.

The form follows https://llmstxt.org: a title, a summary, and lists of links.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from accessible_html import description

NAME = "llms.txt"
#: The folders whose pages have a list of their own, with its heading.
FOLDERS = {"ops": "Operations", "primitives": "Primitives of JAX", "profiles": "Profiles"}


def text(app: Sphinx) -> str:
    """Returns the text."""
    summary = description(app.env.get_doctree(str(app.config.root_doc)))
    parts = {"": "Pages", **FOLDERS}
    lines: dict[str, list[str]] = {folder: [] for folder in parts}
    for page in sorted(app.env.found_docs):
        folder = page.partition("/")[0]
        lines[folder if folder in lines else ""].append(_line(app, page))
    data = [
        "- [rows.json](rows.json): every row, order, fact and document, as one JSON document",
        "- [export.schema.json](export.schema.json): its JSON Schema",
        "- [rows.csv](rows.csv): the rows as a table",
    ]
    blocks = [f"# {app.config.project}", f"> {summary}", "## Data\n\n" + "\n".join(data)]
    blocks += [f"## {parts[folder]}\n\n" + "\n".join(found) for folder, found in lines.items()]
    return "\n\n".join(blocks) + "\n"


def _line(app: Sphinx, page: str) -> str:
    document: nodes.document = app.env.get_doctree(page)
    title = app.env.titles[page].astext()
    uri = app.builder.get_target_uri(page)
    return f"- [{title}]({uri}): {description(document)}"


def write(app: Sphinx, error: Exception | None) -> None:
    """Writes the file into the folder of the pages."""
    if error is None and app.builder.format == "html":
        Path(app.outdir, NAME).write_text(text(app), encoding="utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the writing of the file."""
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
