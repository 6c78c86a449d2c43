"""Renders tables and plots that commands wrote and that are committed: ``measured-tables``.

The table and the plots of a benchmark are files of ``conformance/benchmarks/results/``. A page
names the benchmarks, so that they appear on it as soon as the files do.
"""

from __future__ import annotations

import os
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import cost_files

FOLDERS = (cost_files.RESULTS, cost_files.COUNTED.parent)


def files(names: list[str]) -> list[Path]:
    """Returns the files of tables, by their names without ``.md``, as far as they exist."""
    paths = [folder / f"{name}.md" for name in names for folder in FOLDERS]
    return [path for path in paths if path.exists()]


def plots(table: Path) -> list[Path]:
    """Returns the plots of a table, as far as they exist."""
    paths = [table.with_name(f"{table.stem}{ending}.svg") for ending in ("", "-curve")]
    return [path for path in paths if path.exists()]


class MeasuredTables(SphinxDirective):
    """The tables of the files that the lines of the directive name; each title is a rubric."""

    has_content = True

    def _plot(self, path: Path) -> nodes.image:
        """Returns a plot. The table says the same in words."""
        self.env.note_dependency(str(path))
        source = Path(self.env.doc2path(self.env.docname)).parent
        return nodes.image(uri=os.path.relpath(path, source), alt="The table above, as a plot")

    def run(self) -> list[nodes.Node]:
        """Makes a rubric, and what follows the title, of each file."""
        result: list[nodes.Node] = []
        for path in files([line.strip() for line in self.content if line.strip()]):
            self.env.note_dependency(str(path))
            title, _, text = path.read_text(encoding="utf-8").partition("\n")
            result.append(nodes.rubric("", title.removeprefix("# ")))
            body = nodes.container()
            self.state.nested_parse(StringList(text.splitlines(), str(path)), 0, body)
            result += body.children
            result += [self._plot(plot) for plot in plots(path)]
        return result


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directive."""
    app.add_directive("measured-tables", MeasuredTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
