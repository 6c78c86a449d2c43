"""The pytest plugin of a worker: a process that runs some of the tests of a run.

It selects the tests that the parent listed, and writes one line to the journal when a test starts
and one when it ends. It also gives each test the fixture ``round_context``.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from conformance import plugin
from conformance.hardware import background_work
from conformance.hardware.journal import FinishedTest, Journal
from conformance.hardware.round_context import RoundContext
from conformance.implementation import Implementation
from conformance.report import Outcome, Record

#: The exit status of a worker whose device does not answer any more.
LOST_DEVICE = 70


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that a worker is started with."""
    group = parser.getgroup("samebits processes", "of the processes of a run in rounds")
    group.addoption("--round", type=int, default=1, help="the number of the round")
    group.addoption("--background-work", action="store_true", help="do other work on the device")
    group.addoption("--tests", type=Path, help="a JSON list of the ids of the tests to run")
    group.addoption("--journal", type=Path, help="the file to write each result to")
    group.addoption("--parent", type=int, help="the process without which this one ends")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark of the tests that run again, and opens the journal if there is one."""
    config.addinivalue_line("markers", "again: fresh processes run the test again")
    if config.getoption("--journal"):
        with warnings.catch_warnings(action="ignore"):
            jax.devices()  # A warning while the device starts is not a failure of the suite.
        config.pluginmanager.register(Worker(config), "samebits-worker")


class Worker:
    """Runs the listed tests and writes the result of each to the journal."""

    def __init__(self, config: pytest.Config) -> None:
        self.round: int = config.getoption("--round")
        self.parent: int | None = config.getoption("--parent")
        self.tests = config.getoption("--tests")
        self.journal = Journal(config.getoption("--journal"))
        self._forget()

    def _forget(self) -> None:
        self.outcome: Outcome = "passed"
        self.records: list[Record] = []
        self.texts: list[str] = []

    def pytest_unconfigure(self) -> None:
        """Closes the journal."""
        self.journal.close()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keeps the tests of the list, in its order."""
        if self.tests is None:
            return
        listed = json.loads(self.tests.read_text(encoding="utf-8"))
        collected = {item.nodeid: item for item in items}
        missing = [id for id in listed if id not in collected]
        if missing:
            raise pytest.UsageError(f"{self.tests} lists {missing[0]}, which is not collected here")
        others = [collected[id] for id in set(collected) - set(listed)]
        config.hook.pytest_deselected(items=others)
        items[:] = [collected[id] for id in listed]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Writes which test is next, and ends the process if its parent is gone."""
        if self.parent not in (None, os.getppid()):
            pytest.exit("the process that started this one is gone", returncode=LOST_DEVICE)
        self._forget()
        self.journal.write({"event": "started", "test": item.nodeid, "about": record_fields(item)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collects the records of each phase of a test, and writes them after the last phase."""
        self.records += plugin.records(report)
        if report.failed:
            self.outcome = "failed"
            self.texts.append(report.longreprtext)
            self.texts += [f"---- {name} ----\n{text}" for name, text in report.sections]
        elif report.skipped and self.outcome == "passed":
            self.outcome = "skipped"
        if report.when == "teardown":
            text = "\n".join(self.texts) or None
            test = FinishedTest(self.round, report.nodeid, self.outcome, tuple(self.records), text)
            self.journal.write(test.to_line())
            if self.outcome == "failed" and not _device_answers():
                os._exit(LOST_DEVICE)  # An orderly end asks the device again, and could hang.


def record_fields(item: pytest.Item) -> dict[str, Any] | None:
    """Returns the fields of a record about a test's row, or None if the test has no row.

    The parent writes such a record if the process dies during the test.
    """
    callspec = getattr(item, "callspec", None)
    for value in callspec.params.values() if callspec else ():
        fields = getattr(value, "about", None)
        if isinstance(fields, dict):
            check = item.originalname if isinstance(item, pytest.Function) else item.name
            return {**fields, "check": check.removeprefix("test_").replace("_", " ")}
    return None


def _device_answers() -> bool:
    """Returns whether the device still computes: after some errors no call of a process works."""
    with contextlib.suppress(Exception):
        return int(jax.block_until_ready(jax.device_put(1))) == 1
    return False


@pytest.fixture(scope="session")
def round_context(
    request: pytest.FixtureRequest, implementation: Implementation
) -> Iterator[RoundContext]:
    """The round that a test runs in."""
    number: int = request.config.getoption("--round")
    kinds = []
    if request.config.getoption("--background-work"):
        kinds = background_work.work_kinds(implementation)
    if not kinds:
        yield RoundContext(number)
        return
    with background_work.BackgroundWork(kinds) as work:
        yield RoundContext(number, work)
