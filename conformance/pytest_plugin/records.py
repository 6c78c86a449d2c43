"""Collects a record of each check and writes them as a report.

A test leaves its record before its check, through the fixture ``record``. The outcome of the test
completes the record. Under pytest-xdist, the workers send their records to the process that writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.adapters.base import Adapter
from conformance.pytest_plugin import options
from conformance.reporting.report import Outcome, Record, environment, from_property, table, write

_PROPERTY = "samebits"


def pytest_configure(config: pytest.Config) -> None:
    """Starts the report, in the process that collects the results, if there is no journal."""
    if not hasattr(config, "workerinput") and not config.getoption("journal", None):
        config.pluginmanager.register(Collector(config), "samebits-report")


class Collector:
    """Collects the records of a run.

    Attributes:
        path: The file to write. None writes no report.
        adapter: The adapter of the implementation under test.
        records: The records so far.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.path: Path | None = config.getoption("--report")
        self.adapter = options.implementation(config)
        self.records: list[Record] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.records += records(report)

    def pytest_sessionfinish(self) -> None:
        if self.path is not None:
            write(self.path, environment_of(self.adapter), self.records)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints how many rows have which evidence at best."""
        terminalreporter.section("rows by evidence")
        for line in table(self.records):
            terminalreporter.line(line)
        if self.path is not None:
            terminalreporter.line(f"report: {self.path}")


def environment_of(adapter: Adapter) -> dict[str, str]:
    """Returns the environment that a report of this process states."""
    return {**environment(adapter.hardware()), "namespace": adapter.name, **adapter.versions()}


def records(report: pytest.TestReport) -> list[Record]:
    """Returns the records that a test left, with the outcome of this phase of the test."""
    if report.when != "call" and report.outcome == "passed":
        return []
    properties: list[tuple[str, Any]] = report.user_properties
    entries = [dict(value) for name, value in properties if name == _PROPERTY]
    expected = getattr(report, "wasxfail", None) if report.skipped else None
    outcome: Outcome = "failed" if expected else report.outcome
    detail = f"expected: {expected}" if expected else _first_line(report)
    if entries and (expected or "detail" not in entries[-1]):
        entries[-1]["detail"] = detail
    # A test leaves each record before its check. All checks but the last one have passed.
    passed = [from_property(entry, "passed", 0.0) for entry in entries[:-1]]
    return passed + [from_property(entry, outcome, report.duration) for entry in entries[-1:]]


def _first_line(report: pytest.TestReport) -> str | None:
    """Returns the first line of the message of a failed test."""
    if report.outcome != "failed":
        return None
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return str(text).partition("\n")[0][:300]


@pytest.fixture
def record(record_property: Any) -> Any:
    """Returns a function that leaves a record of one check, before the check.

    It returns the record, so that the test can add to it.
    """

    def leave(tested: Any, check: str, **fields: Any) -> dict[str, Any]:
        entry = {**tested.about, "check": check, **fields}
        record_property(_PROPERTY, entry)
        return entry

    return leave
