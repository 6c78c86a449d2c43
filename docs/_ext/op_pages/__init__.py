"""Writes a page for each op and for each primitive of JAX, before Sphinx reads the sources.

``ops/<dotted name>`` and ``primitives/<name>`` are made of the answers, the rows, the orders, the
kept costs and the reports. No page is written by hand, so that a new row, op or report is on the
site without further work.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

import answers
import generated
import row_evidence
import spec
from op_pages import _op, _primitive, _sections

_LOGGER = logging.getLogger(__name__)


def write_pages(app: Sphinx) -> None:
    """Writes the pages, and the lists of them."""
    rules = spec.load()
    source = Path(app.srcdir)
    folder = Path(app.config.conformance_reports)
    reports = row_evidence.our_reports(folder)
    relative = _sections.folder_of_reports(folder, source)
    ops = {}
    for op in answers.ops(rules):
        subject = _sections.Subject(op, rules, answers.of_op(op, rules), reports, relative)
        runs = bool(app.config.op_examples)
        ops[op] = _op.page(dataclasses.replace(subject, runs=runs))
    generated.write(source / "ops", {**ops, "index": _op.index(rules)})
    primitives = {op: _primitive.page(op, rules) for op in answers.primitives(rules)}
    generated.write(source / "primitives", {**primitives, "index": _primitive.index(rules)})
    jax.clear_caches()  # The programs of the examples take memory.
    _LOGGER.info("wrote the pages of %d ops and %d primitives", len(ops), len(primitives))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the writing of the pages."""
    app.setup_extension("spec_lists")  # It has the roles, and the option of the folder of reports.
    # Without the examples a build takes half of the time.
    app.add_config_value("op_examples", True, "env", bool)
    app.connect("builder-inited", write_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
