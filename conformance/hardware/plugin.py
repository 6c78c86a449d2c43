"""The options of pytest for a round: its number, other work on the device, and a journal.

The process that collects the results adds a line to the journal when a test ends::

    {"round": 1, "test": "test_rows.py::test_bits[R0001]", "outcome": "passed", "records": [...]}

Tests of the round that the journal has do not run again. A last line says that all tests of the
mark have run. With a journal, a worker ends if a test takes too long, or if its device does not
answer any more. pytest-xdist then starts another one, and reports the test as failed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import json
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.adapters.base import Adapter
from conformance.hardware.round_context import RoundContext
from conformance.pytest_plugin import records
from conformance.reporting.report import Record, from_property

#: The exit status of a worker whose device does not answer any more.
LOST_DEVICE = 70
#: The seconds after which a test that has not ended is stopped, with its process.
TEST_TIMEOUT = 150.0
#: The exit statuses of pytest after it ran the tests: all passed, some failed, no test was chosen.
RAN = (0, 1, 5)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of a round."""
    group = parser.getgroup("samebits rounds", "of a run in rounds")
    group.addoption("--round", type=int, default=1, help="the number of the round")
    group.addoption("--background-work", action="store_true", help="do other work on the device")
    group.addoption("--journal", type=Path, help="the file to add each result to")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark of the tests that run again, and opens the journal if there is one."""
    config.addinivalue_line("markers", "again: fresh processes run the test again")
    if not config.getoption("--journal"):
        return
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Journal(config), "samebits-journal")
        return
    import jax  # noqa: PLC0415  # A run without a journal may do without JAX.

    with warnings.catch_warnings(action="ignore"):
        jax.devices()  # A warning while the device starts is not a failure of the suite.
    config.pluginmanager.register(Worker(config), "samebits-worker")


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a journal; a last line that was not completed is left out."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


class Journal:
    """Adds each result to the journal, in the process that collects the results."""

    def __init__(self, config: pytest.Config) -> None:
        self.round: int = config.getoption("--round")
        self.path: Path = config.getoption("--journal")
        lines = (line for line in read(self.path) if line.get("round") == self.round)
        self.before = frozenset(line["test"] for line in lines if "test" in line)
        self.finished = set(self.before)
        self.outcomes: dict[str, str] = {}
        self.records: dict[str, list[Record]] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tells a worker which tests had ended. All workers of a session collect the same tests."""
        node.workerinput["finished"] = sorted(self.before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collects the records of each phase of a test, and adds a line after the last phase."""
        test = report.nodeid
        is_crash = report.when not in ("setup", "call", "teardown")
        if is_crash and test in self.finished:
            return  # The worker ended after the test, since its device was lost.
        known = self.records.setdefault(test, [])
        known += [_crashed(report, self.round)] if is_crash else records.records(report)
        if self.outcomes.get(test) != "failed" and (report.failed or report.when == "call"):
            self.outcomes[test] = report.outcome
        if is_crash or report.when == "teardown":
            self.finished.add(test)
            self._add(
                test=test,
                outcome=self.outcomes.get(test, "skipped"),
                records=[dataclasses.asdict(record) for record in known],
            )

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Adds the last line of a session that was not stopped."""
        if exitstatus in RAN and not session.shouldfail and not session.shouldstop:
            self._add(complete=session.config.option.markexpr)

    def _add(self, **fields: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"round": self.round, **fields}) + "\n")


def _crashed(report: pytest.TestReport, number: int) -> Record:
    """Returns the record of a test whose process ended."""
    from conformance.suite.cells import cells  # noqa: PLC0415  # it reads all cells

    match = re.search(r"::test_(\w+)\[(.*)\]$", report.nodeid)
    name, id = match.groups() if match else (report.nodeid, "")
    about = next((cell.about for cell in cells() if str(cell) == id), {"op": id, "device": "any"})
    check = name.replace("_", " ") + RoundContext(number).check_suffix
    detail = "the process ended during this test, or was ended because the test took too long"
    return from_property({**about, "check": check, "detail": detail}, "failed", 0.0)


class Worker:
    """Leaves out the tests that have ended, and ends a process that cannot go on."""

    def __init__(self, config: pytest.Config) -> None:
        self.finished = frozenset(getattr(config, "workerinput")["finished"])  # noqa: B009  # xdist sets it
        self.has_failed = False

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselects the tests that have ended."""
        ended = [item for item in items if item.nodeid in self.finished]
        config.hook.pytest_deselected(items=ended)
        items[:] = [item for item in items if item.nodeid not in self.finished]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Ends the process if the test takes too long, or leaves a device that does not answer."""
        self.has_failed = False
        faulthandler.dump_traceback_later(TEST_TIMEOUT, exit=True)
        try:
            result = yield
        finally:
            faulthandler.cancel_dump_traceback_later()
        if self.has_failed and not _device_answers():
            os._exit(LOST_DEVICE)  # An orderly end asks the device again, and could hang.
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remembers whether the test failed."""
        self.has_failed |= report.failed


def _device_answers() -> bool:
    """Returns whether the device still computes: after some errors no call of a process works."""
    import jax  # noqa: PLC0415  # As above.

    with contextlib.suppress(Exception):
        return int(jax.block_until_ready(jax.device_put(1))) == 1
    return False


@pytest.fixture(scope="session")
def round_context(
    request: pytest.FixtureRequest, implementation: Adapter
) -> Iterator[RoundContext]:
    """The round that a test runs in."""
    number: int = request.config.getoption("--round")
    if not request.config.getoption("--background-work"):
        yield RoundContext(number)
        return
    from conformance.hardware import background_work  # noqa: PLC0415  # As above.

    kinds = background_work.work_kinds(implementation)
    if not kinds:
        yield RoundContext(number)
        return
    with background_work.BackgroundWork(kinds) as work:
        yield RoundContext(number, work)
