"""Renders the field of a page in which a reader opens a report: ``report-viewer``.

The script ``report.js`` reads the file in the browser and shows it below. Nothing is sent.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from local_scripts import use_script

_HTML = """\
<div class="report-viewer">
<p><label for="report-file">Drag a report here, or choose the file:</label>
<input id="report-file" type="file" accept=".json,application/json"></p>
<noscript><p>This needs JavaScript. The command below does not.</p></noscript>
<div class="report-shown" role="status" aria-live="polite"></div>
</div>
"""


class ReportViewer(SphinxDirective):
    """A field for a file, and an empty element for its contents."""

    def run(self) -> list[nodes.Node]:
        """Makes the field."""
        use_script(self.env, "report.js")
        return [nodes.raw("", _HTML, format="html")]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directive."""
    app.setup_extension("local_scripts")
    app.add_directive("report-viewer", ReportViewer)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
