"""Tests, records and results that several tests use."""

from conformance.hardware.jobs import PlannedTest
from conformance.hardware.journal import FinishedTest
from conformance.report import Record
from conformance.tests.hardware.scripted_worker import ABOUT


def planned(*names):
    return [PlannedTest(name, name, again=True) for name in names]


def record(**fields):
    values = {**ABOUT, "lowering": "native", "evidence": "hardware", "sha256": "0" * 64, **fields}
    return Record(**{"outcome": "passed", "seconds": 0.1, **values})


def passed(name, number=1, **fields):
    return FinishedTest(number, name, "passed", (record(**fields),))
