"""Renders reports of the conformance suite: the directive ``conformance-differences``."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import conformance
from conformance import differences

REPORTS = Path(conformance.__file__).parent / "reports"


class Differences(SphinxDirective):
    """What the report of this name shows to differ from PyTorch's documents."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Makes three tables."""
        path = REPORTS / self.arguments[0]
        self.env.note_dependency(str(path))
        try:
            text = differences.markdown(path)
        except ValueError as error:
            raise self.error(str(error)) from error
        made = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), str(path)), 0, made)
        return list(made.children)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directive."""
    app.add_directive("conformance-differences", Differences)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
