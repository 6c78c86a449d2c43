"""Writes a page for each op, primitive of JAX and profile, before Sphinx reads the sources.

``ops/<dotted name>``, ``primitives/<name>`` and ``profiles/<name>`` are made of facts by
``docs/_templates/pages``. No page is written by hand, so that a new row, op or report is on the
site without further work. The rows as data, with their schema, go to the root of the site.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import jax
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError
from sphinx.util.typing import ExtensionMetadata

import answers
import costs
import examples
import page_facts
import row_evidence
import spec
from conformance.hunt import memory
from conformance.reporting.report import ReportError
from spec import export
from templates import FOLDER, render

#: The folders of the files from which pages are made.
SOURCES = (Path(__file__).parent, FOLDER, Path(spec.__file__).parent, row_evidence.REPORTS)


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Makes a folder, which git ignores, hold these files alone: texts by their names.

    An unchanged file is left alone, because Sphinx reads a page again if its date is new.
    """
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if file.name not in texts:
            file.unlink()
    for name, text in texts.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8", newline="\n")


def write_pages(app: Sphinx, config: Config) -> None:
    """Writes the pages, the lists of them, and the data, which ``html_extra_path`` copies."""
    try:
        row_evidence.every_report(row_evidence.REPORTS)
    except ReportError as error:
        raise ExtensionError(str(error)) from error
    rules, reports, source = spec.load(), row_evidence.our_reports(), Path(app.srcdir)
    ops = {}
    for op in answers.ops(rules):
        facts = page_facts.of_op(op, rules, reports)
        if config.op_examples:
            facts |= {"ran": True, "example": examples.example(op), "errors": examples.errors(op)}
        ops[op] = render("pages/op.md", **facts)
    jax.clear_caches()  # The programs of the examples take memory.
    primitives = {
        op: render("pages/primitive.md", **page_facts.of_primitive(op, rules))
        for op in answers.primitives(rules)
    }
    profiles = {
        name: render("pages/profile.md", profile=profile)
        for name, profile in rules.profiles.items()
    }
    ops["index"], primitives["index"] = render("pages/ops.md"), render("pages/primitives.md")
    for name, pages in {"ops": ops, "primitives": primitives, "profiles": profiles}.items():
        write(source / name, {f"{page}.md": text for page, text in pages.items()})
    data = {
        "rows.json": export.as_json(rules),
        "rows.csv": export.as_csv(rules),
        export.SCHEMA: export.schema_as_json(),
    }
    write(source / "_data", data)
    # Sphinx reads all pages again if one of these files changed.
    files = [memory.REPORT, *costs.RESULTS.glob("*.json")]
    files += [f for folder in SOURCES for f in folder.rglob("*") if f.suffix != ".pyc"]
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file()):
        digest.update(file.read_bytes())
    config["site_digest"] = digest.hexdigest()


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the writing of the pages, before Sphinx verifies that the folders exist."""
    # Without the examples a build takes half of the time.
    app.add_config_value("op_examples", True, "env", bool)
    app.add_config_value("site_digest", "", "env", str)
    app.connect("config-inited", write_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
