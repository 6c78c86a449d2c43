"""Adds to each page what screen readers, search engines and printers need.

Heading cells name their scope, tables have a caption, pages have a description,
and the landmarks of the theme have names. ``docs/tests/browser`` checks the pages with axe-core.
"""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import quoteattr

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

#: The length to which search engines show a description.
DESCRIPTION = 160
#: The descriptions of the pages that Sphinx makes, which have no first paragraph.
GENERATED = {
    "genindex": "Every name that the library samebits exports, in alphabetical order.",
    "py-modindex": "The Python modules of samebits.",
    "search": "Search the site of samebits for an operation, an error or a word.",
}


class Translator(HTML5Translator):
    """Writes the scope of each cell that is a heading, and a caption of each table."""

    def starttag(
        self,
        node: nodes.Element,
        tagname: str,
        suffix: str = "\n",
        empty: bool = False,
        **attributes: Any,
    ) -> str:
        """Returns the tag that begins an element."""
        if tagname == "th":
            heads_column = "head" in attributes.get("classes", ())
            attributes.setdefault("scope", "col" if heads_column else "row")
        return str(super().starttag(node, tagname, suffix, empty, **attributes))

    def visit_table(self, node: nodes.table) -> None:
        """Begins a table. Without a caption, it gets the heading above it, for screen readers."""
        super().visit_table(node)
        if not isinstance(node[0], nodes.title):
            text = self.encode(heading(node))
            self.body.append(f'<caption class="visually-hidden">{text}</caption>')


def heading(node: nodes.Node) -> str:
    """Returns the text of the heading that a node stands under."""
    section = node.parent
    while section is not None and not isinstance(section, nodes.section):
        section = section.parent
    title = section.next_node(nodes.title) if section is not None else None
    return title.astext() if title is not None else "Table"


def description(document: nodes.document) -> str:
    """Returns the first paragraph of a page, cut after a word."""
    own = (p for p in document.findall(nodes.paragraph) if isinstance(p.parent, nodes.section))
    first = next(own, None) or document.next_node(nodes.paragraph)
    words = first.astext().split() if first is not None else []
    text = " ".join(words)
    if len(text) <= DESCRIPTION:
        return text
    return text[: DESCRIPTION - 1].rpartition(" ")[0] + "…"


def complete_page(
    _: Sphinx, page: str, _template: str, context: dict[str, Any], document: nodes.document | None
) -> None:
    """Adds the description, and the level of the captions of the navigation."""
    text = description(document) if document is not None else GENERATED.get(page, "")
    if text and 'name="description"' not in context.get("metatags", ""):
        meta = f'<meta name="description" content={quoteattr(text)}>'
        context["metatags"] = context.get("metatags", "") + meta
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the translator and the additions to pages."""
    app.set_translator("html", Translator)
    # Furo makes its navigation at the default priority.
    app.connect("html-page-context", complete_page, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
