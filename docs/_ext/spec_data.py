"""Writes the rows as data, with their schema, to ``_data``, so that the site has them at its root.

``html_extra_path`` of the configuration copies the folder, and pages link the files as downloads.
"""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.typing import ExtensionMetadata

import spec
from spec import export


def write_data(app: Sphinx, _: Config) -> None:
    """Writes the document, the table and the schema."""
    folder = Path(app.srcdir) / "_data"
    folder.mkdir(exist_ok=True)
    entries = spec.load()
    texts = {
        "rows.json": export.as_json(entries),
        "rows.csv": export.as_csv(entries),
        export.SCHEMA: export.schema_as_json(),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the writing of the files, before Sphinx checks that the folder exists."""
    app.connect("config-inited", write_data)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
