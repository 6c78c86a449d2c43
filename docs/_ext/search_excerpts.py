"""Writes the text of each page as a script, from which the search takes the excerpts of results.

Sphinx's own search fetches the pages that it found, which a browser refuses for a site that is
opened as a file. A browser loads scripts there, so ``_static/search.js`` loads these.
"""

from __future__ import annotations

import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

#: The folder of the scripts, below the root of the site.
FOLDER = "_excerpts"


def text_of(node: nodes.Node) -> str:
    """Returns the text of a node without its sections, on one line."""
    if isinstance(node, nodes.Text):
        return str(node)
    if isinstance(node, nodes.comment | nodes.raw | nodes.substitution_definition):
        return ""
    separator = "" if isinstance(node, nodes.TextElement) else " "
    own = (child for child in node.children if not isinstance(child, nodes.section))
    return separator.join(map(text_of, own))


def sections(document: nodes.document) -> list[tuple[list[str], str]]:
    """Returns the ids and the text of each section of a page, in order.

    The text of a section lacks its heading, which the result shows already.
    """
    found = []
    for section in document.findall(nodes.section):
        body = [child for child in section.children if not isinstance(child, nodes.title)]
        texts = (text_of(child) for child in body if not isinstance(child, nodes.section))
        found.append((list(section["ids"]), " ".join(" ".join(texts).split())))
    return found


def write_excerpts(app: Sphinx, error: Exception | None) -> None:
    """Writes the scripts of all pages, after a build that succeeded."""
    if error is not None or app.builder.name != "html":
        return
    folder = Path(app.outdir) / FOLDER
    for page in sorted(app.env.found_docs):
        file = folder / f"{page}.js"
        file.parent.mkdir(parents=True, exist_ok=True)
        data = json.dumps([page, sections(app.env.get_doctree(page))], separators=(",", ":"))
        file.write_text(f"addExcerpts({data});\n", encoding="utf-8", newline="\n")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the writing of the scripts."""
    app.connect("build-finished", write_excerpts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
