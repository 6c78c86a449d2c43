"""Adds to the pages what screen readers, search engines, printers and the search need.

Heading cells name their scope, tables have a caption, pages have a description, and the landmarks
of the theme have names. ``docs/tests/browser`` checks the pages with axe-core. Inline code that
names a file of the repository is a link to the file, and the words of answers have their colours.
Each page has a script with its text, from which the search takes excerpts: Sphinx's own search
fetches pages, which a browser refuses for a site that is opened as a file. ``llms.txt`` lists the
pages for programs that read text, in the form of https://llmstxt.org::

    ## Operations

    - [index_add](ops/index_add.html): impl.index_add is PyTorch's torch.index_add for JAX. ...
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

import answers

ROOT = Path(__file__).parents[2]
#: A path in one of the packages. Readers have a ``pyproject.toml`` of their own.
NAMED = re.compile(r"(?:spec|impl|conformance|docs)/[\w./-]+", re.ASCII)
#: The length to which search engines show a description.
DESCRIPTION = 160
#: The descriptions of the pages that Sphinx makes, which have no first paragraph.
GENERATED = {
    "genindex": "Every name that the library samebits exports, in alphabetical order.",
    "py-modindex": "The Python modules of samebits.",
    "search": "Search the site of samebits for an operation, an error or a word.",
}
#: The headings of ``llms.txt``, by the folder of the pages.
FOLDERS = {
    "": "Pages",
    "ops": "Operations",
    "primitives": "Primitives of JAX",
    "profiles": "Profiles",
}
_DATA = """\
## Data

- [rows.json](rows.json): every row, order, fact and document, as one JSON document
- [export.schema.json](export.schema.json): its JSON Schema
- [rows.csv](rows.csv): the rows as a table
"""


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


def colour_words(_: Sphinx, tree: nodes.document, _page: str) -> None:
    """Gives the words of answers their colours on every page that says one in bold."""
    for strong in tree.findall(nodes.strong):
        for word in answers.WORDS:
            if strong.astext() == word:
                strong["classes"].append(f"w{answers.number(word)}")


class FileLinks(SphinxTransform):
    """Wraps inline code that names a file into a link that downloads the file.

    Inline code in another link stays as it is, and so does the name of a folder.
    """

    default_priority = 500

    def apply(self, **_: object) -> None:
        """Changes the page."""
        links = (nodes.reference, addnodes.pending_xref, addnodes.download_reference)
        for literal in list(self.document.findall(nodes.literal)):
            text = literal.astext()
            named = NAMED.fullmatch(text) and (ROOT / text).is_file()
            if named and not isinstance(literal.parent, links):
                path = os.path.relpath(ROOT / text, self.env.srcdir)
                link = addnodes.download_reference(reftarget=f"/{Path(path).as_posix()}")
                literal.replace_self(link)
                link += literal


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


def write_texts(app: Sphinx, error: Exception | None) -> None:
    """Writes the scripts of all pages and ``llms.txt``, after a build that succeeded."""
    if error is not None or app.builder.name != "html":
        return
    lists: dict[str, list[str]] = {folder: [] for folder in FOLDERS}
    for page in sorted(app.env.found_docs):
        document = app.env.get_doctree(page)
        file = Path(app.outdir, "_excerpts", f"{page}.js")
        file.parent.mkdir(parents=True, exist_ok=True)
        data = json.dumps([page, sections(document)], separators=(",", ":"))
        file.write_text(f"addExcerpts({data});\n", encoding="utf-8", newline="\n")
        title, uri = app.env.titles[page].astext(), app.builder.get_target_uri(page)
        folder = page.partition("/")[0]
        line = f"- [{title}]({uri}): {description(document)}"
        lists[folder if folder in lists else ""].append(line)
    summary = description(app.env.get_doctree(str(app.config.root_doc)))
    blocks = [f"# {app.config.project}\n\n> {summary}\n", _DATA]
    blocks += [f"## {FOLDERS[folder]}\n\n" + "\n".join(lines) for folder, lines in lists.items()]
    Path(app.outdir, "llms.txt").write_text("\n".join(blocks) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the additions."""
    app.set_translator("html", Translator)
    app.add_transform(FileLinks)
    # Furo makes its navigation at the default priority.
    app.connect("html-page-context", complete_page, priority=900)
    app.connect("doctree-resolved", colour_words)
    app.connect("build-finished", write_texts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
