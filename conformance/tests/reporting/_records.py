"""A record, and reports made of it."""

import dataclasses
import json
from importlib.resources import files

from conformance.reporting import report
from conformance.reporting.report import Record

SCHEMA = json.loads(
    (files("conformance.reporting") / "report_schema.json").read_text(encoding="utf-8")
)
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
