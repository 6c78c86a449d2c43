"""Links each file of the repository that a page names in inline code.

A page names ``impl/ops/_scatters.py`` in inline code, and needs no target for it: the reader gets
the file. Inline code in another link stays as it is, and so does the name of a folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata

ROOT = Path(__file__).parents[2]
#: A path in one of the packages. Readers have a ``pyproject.toml`` of their own.
NAMED = re.compile(r"(?:spec|impl|conformance|docs)/[\w./-]+", re.ASCII)


def is_file(text: str) -> bool:
    """Returns whether a text is the path of a file, from the root of the repository."""
    return NAMED.fullmatch(text) is not None and (ROOT / text).is_file()


class FileLinks(SphinxTransform):
    """Wraps inline code that names a file into a link that downloads the file."""

    default_priority = 500

    def apply(self, **_: object) -> None:
        """Changes the page."""
        links = (nodes.reference, addnodes.pending_xref, addnodes.download_reference)
        linked = {
            id(literal)
            for link in self.document.findall(lambda node: isinstance(node, links))
            for literal in link.findall(nodes.literal)
        }
        for literal in list(self.document.findall(nodes.literal)):
            if id(literal) not in linked and is_file(literal.astext()):
                path = os.path.relpath(ROOT / literal.astext(), self.env.srcdir)
                link = addnodes.download_reference(reftarget=f"/{Path(path).as_posix()}")
                literal.replace_self(link)
                link += literal


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the transform."""
    app.add_transform(FileLinks)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
