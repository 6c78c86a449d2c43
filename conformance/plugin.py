"""The pytest plugin of the suite: its options, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.implementation import Implementation, load
from conformance.report import Outcome, Record, environment, from_property, table, write

_RECORD = "samebits"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of ``python -m conformance run``."""
    group = parser.getgroup("samebits conformance")
    group.addoption("--device", default=None, help="cpu or cuda; default: what JAX computes on")
    group.addoption("--profile", default=None, help="only this profile")
    group.addoption("--namespace", default="impl", help="the module whose ops are tried")
    group.addoption("--repeats", type=int, default=None, help="runs whose bits are compared")
    group.addoption("--report", type=Path, default=None, help="write a JSON report to this file")


def pytest_configure(config: pytest.Config) -> None:
    """Starts the report, in the process that collects the results."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collected(config), "samebits-report")


def implementation(config: pytest.Config) -> Implementation:
    """What is tried."""
    return load(config.getoption("--namespace"))


class Collected:
    """Collects a record of each check, and writes them with the outcome."""

    def __init__(self, config: pytest.Config) -> None:
        """Reads where to write."""
        self.path: Path | None = config.getoption("--report")
        self.tried = implementation(config)
        self.records: list[Record] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes the records that a test left."""
        self.records += records(report)

    def pytest_sessionfinish(self) -> None:
        """Writes the report."""
        if self.path is not None:
            write(self.path, environment_of(self.tried), self.records)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Counts the rows by the strongest evidence that was found for them."""
        terminalreporter.section("rows by evidence")
        for line in table(self.records):
            terminalreporter.line(line)
        if self.path is not None:
            terminalreporter.line(f"report: {self.path}")


def environment_of(tried: Implementation) -> dict[str, str]:
    """What the results of an implementation are obtained with, in this process."""
    return {**environment(), "namespace": tried.name, **tried.versions()}


def records(report: pytest.TestReport) -> list[Record]:
    """The records that a test left, with how this phase of it ended."""
    if report.when != "call" and report.outcome == "passed":
        return []
    properties: list[tuple[str, Any]] = report.user_properties
    left = [dict(value) for name, value in properties if name == _RECORD]
    expected = getattr(report, "wasxfail", None) if report.skipped else None
    outcome: Outcome = "failed" if expected else report.outcome
    detail = f"expected: {expected}" if expected else _reason(report)
    if left and (expected or "detail" not in left[-1]):
        left[-1]["detail"] = detail
    # A record is left before its check: of several, all but the last one's passed.
    before = [from_property(value, "passed", 0.0) for value in left[:-1]]
    return before + [from_property(value, outcome, report.duration) for value in left[-1:]]


def _reason(report: pytest.TestReport) -> str | None:
    """The first line of what a failed test said went wrong."""
    if report.outcome != "failed":
        return None
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return str(text).partition("\n")[0][:300]


@pytest.fixture
def record(record_property: Any) -> Any:
    """Leaves a record of one check in the report, before the check; the test's end is its outcome.

    What is called returns the record, so that the check can add to it.
    """

    def leave(tried: Any, check: str, **more: Any) -> dict[str, Any]:
        made = {**tried.about, "check": check, **more}
        record_property(_RECORD, made)
        return made

    return leave
