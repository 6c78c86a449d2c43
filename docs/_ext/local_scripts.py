"""Adds a script of ``docs/_static`` to the pages that need it, and to no other page.

A directive calls ``use_script`` for the page that it is on. The scripts come with the site: none is
fetched from elsewhere, and a page is complete without them.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import ExtensionMetadata

_KEY = "local_scripts"


def use_script(env: BuildEnvironment, name: str) -> None:
    """Adds a script to the page that is read."""
    scripts = env.metadata[env.docname].setdefault(_KEY, [])
    if name not in scripts:
        scripts.append(name)


def _add_scripts(
    app: Sphinx, page: str, _template: str, _context: dict[str, Any], _tree: nodes.document | None
) -> None:
    for name in app.env.metadata.get(page, {}).get(_KEY, []):
        app.add_js_file(name, loading_method="defer")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Adds the scripts of each page."""
    app.connect("html-page-context", _add_scripts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
