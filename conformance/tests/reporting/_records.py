"""A record, reports made of it, and the lines that a text names."""

import dataclasses
from pathlib import Path

import spec
from conformance.reporting import report
from conformance.reporting.report import Record

ROOT = Path(spec.__file__).parents[1]

PASSED = Record(
    row="R0001",
    op="index_add",
    direction="forward",
    device="cuda",
    profile="complete",
    lowering="kernel",
    check="bits",
    sample="many",
    behaviour="deterministic",
    outcome="passed",
    evidence="scheduled",
    seconds=0.5,
    sha256="0" * 64,
)


def changed(**fields):
    return dataclasses.replace(PASSED, **fields)


def written(path, *records):
    report.write(path, {"jax": "0"}, records)
    return path


def line_of(text):
    """Returns the file that a line of text names, and its line of that number."""
    path, _, number = text.removeprefix("edit:").strip().partition(",")[0].partition(":")
    return path, (ROOT / path).read_text().splitlines()[int(number or 1) - 1]
