"""The plugin of a run of the suite: its options, its records, and its rounds on a GPU.

A test leaves its record before its check, through the fixture ``record``, and its outcome completes
the record. At the end, the process that collects the results writes them as a report. With a
journal, it adds a line to that file when a test ends::

    {"round": 1, "test": "test_rows.py::test_bits[R0001]", "outcome": "passed", "records": [...]}

Tests of the round that the journal has do not run again. A last line says that all tests of the
mark have run. With a journal, a process ends if a test takes too long, or if its device does not
answer any more. pytest-xdist then starts another one, and reports the test as failed.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import faulthandler
import itertools
import json
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from conformance.adapters.base import Adapter, load
from conformance.reporting.report import Outcome, Record, environment, from_property, table, write

_ADAPTER = pytest.StashKey[Adapter]()
_PROPERTY = "samebits"

#: The exit status of a process whose device does not answer any more.
LOST_DEVICE = 70
#: The seconds after which a test that has not ended is stopped, with its process.
TEST_TIMEOUT = 150.0
#: The exit statuses of pytest after it ran the tests: all passed, some failed, no test was chosen.
RAN = (0, 1, 5)
#: The rows of the matrices that are multiplied as other work, so that memory is taken and freed.
_ROWS = (30, 1500, 100, 600, 300)
#: Opens a scope with other work, whose name it gives; without other work the name is empty.
Scope: TypeAlias = Callable[[], contextlib.AbstractContextManager[str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of ``python -m conformance run``, and the options of a round."""
    group = parser.getgroup("samebits conformance")
    group.addoption("--device", default=None, help="cpu or cuda; default: what JAX computes on")
    group.addoption("--profile", default=None, help="only this profile")
    group.addoption("--namespace", default="impl", help="the module whose ops are tried")
    group.addoption("--repeats", type=int, default=None, help="runs whose bits are compared")
    group.addoption("--report", type=Path, default=None, help="write a JSON report to this file")

    group = parser.getgroup("samebits rounds", "of a run in rounds")
    group.addoption("--round", type=int, default=1, help="the number of the round")
    group.addoption("--other-work", action="store_true", help="keep the device busy besides")
    group.addoption("--journal", type=Path, help="the file to add each result to")


def implementation(config: pytest.Config) -> Adapter:
    """Returns the adapter of the implementation under test."""
    if _ADAPTER not in config.stash:
        config.stash[_ADAPTER] = load(config.getoption("--namespace"))
    return config.stash[_ADAPTER]


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark of the tests that run again, and collects their records."""
    config.addinivalue_line("markers", "again: fresh processes run the test again")
    of_worker = getattr(config, "workerinput", None)
    if of_worker is None:
        journal = Journal(config)
        config.pluginmanager.register(journal, "samebits-journal")
    if config.getoption("--journal") and config.getoption("dist", "no") == "no":
        # The tests run in this process.
        finished = journal.before if of_worker is None else of_worker["finished"]
        config.pluginmanager.register(Guard(frozenset(finished)), "samebits-guard")


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a journal; a last line that was not completed is left out."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


class Journal:
    """Collects each result, in the process that collects them, and writes them."""

    def __init__(self, config: pytest.Config) -> None:
        self.round: int = config.getoption("--round")
        self.path: Path | None = config.getoption("--journal")
        self.report: Path | None = config.getoption("--report")
        before = read(self.path) if self.path else []
        lines = (line for line in before if line.get("round") == self.round)
        self.before = sorted(line["test"] for line in lines if "test" in line)
        self.lines: list[dict[str, Any]] = []
        self.finished = set(self.before)
        self.outcomes: dict[str, str] = {}
        self.records: dict[str, list[Record]] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tells a worker which tests had ended. All workers of a session collect the same tests."""
        node.workerinput["finished"] = self.before

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collects the records of each phase of a test, and adds a line after the last phase."""
        test = report.nodeid
        is_crash = report.when not in ("setup", "call", "teardown")
        if is_crash and test in self.finished:
            return  # The worker ended after the test, since its device was lost.
        known = self.records.setdefault(test, [])
        known += [_crashed(test)] if is_crash else records(report)
        if self.outcomes.get(test) != "failed" and (report.failed or report.when == "call"):
            self.outcomes[test] = report.outcome
        if is_crash or report.when == "teardown":
            self.finished.add(test)
            suffix = "" if self.round == 1 else f" in fresh process {self.round}"
            self._add(
                test=test,
                outcome=self.outcomes.get(test, "skipped"),
                records=[{**vars(record), "check": record.check + suffix} for record in known],
            )

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Adds the last line of a session that was not stopped, and writes the report."""
        if exitstatus in RAN and not session.shouldfail and not session.shouldstop:
            self._add(complete=session.config.option.markexpr)
        if self.report is not None:
            adapter = implementation(session.config)
            write(self.report, environment_of(adapter), compared(self.lines))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints how many rows have which evidence at best. A run in rounds does so at its end."""
        if self.path is None:
            terminalreporter.section("rows by evidence")
            for line in table([*compared(self.lines)]):
                terminalreporter.line(line)
            if self.report is not None:
                terminalreporter.line(f"report: {self.report}")

    def _add(self, **fields: Any) -> None:
        self.lines.append({"round": self.round, **fields})
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.lines[-1]) + "\n")


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


def _crashed(test: str) -> Record:
    """Returns the record of a test whose process ended."""
    from conformance.suite.cells import cells  # noqa: PLC0415  # it reads all cells

    match = re.search(r"::test_(\w+)\[(.*)\]$", test)
    name, id = match.groups() if match else (test, "")
    about = next((cell.about for cell in cells() if str(cell) == id), {"op": id, "device": "any"})
    detail = "the process ended during this test, or was ended because the test took too long"
    about |= {"check": name.replace("_", " "), "detail": detail}
    return from_property(about, "failed", 0.0)


class Guard:
    """Leaves out the tests that have ended, and ends a process that cannot go on."""

    def __init__(self, finished: frozenset[str]) -> None:
        self.finished = finished
        self.has_failed = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leaves out the tests that have ended, and starts the device."""
        items[:] = [item for item in items if item.nodeid not in self.finished]
        with warnings.catch_warnings(action="ignore"):
            _device_answers()  # A warning while the device starts is not a failure of the suite.

    def pytest_runtest_logstart(self) -> None:
        """Sets the time at which the process ends."""
        self.has_failed = False
        faulthandler.dump_traceback_later(TEST_TIMEOUT, exit=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remembers whether the test failed."""
        self.has_failed |= report.failed

    @pytest.hookimpl(trylast=True)  # The result is sent first.
    def pytest_runtest_logfinish(self) -> None:
        """Ends the process if its device does not answer."""
        faulthandler.cancel_dump_traceback_later()
        if self.has_failed and not _device_answers():
            os._exit(LOST_DEVICE)  # An orderly end asks the device again, and could hang.


def _device_answers() -> bool:
    """Returns whether the device still computes: after some errors no call of a process works."""
    import jax  # noqa: PLC0415  # A run without a journal may do without JAX.

    with contextlib.suppress(Exception):
        return int(jax.block_until_ready(jax.device_put(1))) == 1
    return False


class OtherWork:
    """A thread that multiplies matrices of changing sizes while a scope is open.

    It changes the addresses and the timing of the code under test. An op that is not deterministic
    may give the same bits on an idle device each time.
    """

    NAME = "products of matrices of changing sizes"

    def __init__(self) -> None:
        self._open = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.count = 0

    def _work(self) -> None:
        import jax  # noqa: PLC0415  # As above.
        import numpy as np  # noqa: PLC0415

        square = jax.jit(lambda x: x @ x)
        live = collections.deque[jax.Array](maxlen=3)
        for rows in itertools.cycle(_ROWS):
            self._open.wait()
            if self._over:
                return
            live.append(square(jax.device_put(np.ones((rows, rows), np.float32))))
            jax.block_until_ready(live[-1])
            self.count += 1

    @contextlib.contextmanager
    def scope(self) -> Iterator[str]:
        """Opens a scope in which the thread works. It has done a product on entry."""
        if self._thread.ident is None:
            self._thread.start()
        before = self.count
        self._open.set()
        while self.count == before and self._thread.is_alive():
            time.sleep(0.001)
        try:
            yield self.NAME
        finally:
            self._open.clear()
        if not self._thread.is_alive():
            raise RuntimeError("the other work on the device has ended")

    def close(self) -> None:
        """Ends the thread: a process that ends while a thread of it uses JAX may crash."""
        self._over = True
        self._open.set()
        if self._thread.ident is not None:
            self._thread.join()


@pytest.fixture(scope="session")
def under_load(request: pytest.FixtureRequest, implementation: Adapter) -> Iterator[Scope]:
    """A function that opens a scope with other work, if the round has it."""
    if request.config.getoption("--other-work") and implementation.can_lower:
        with contextlib.closing(OtherWork()) as work:
            yield work.scope
    else:
        yield lambda: contextlib.nullcontext("")


def compared(lines: Sequence[dict[str, Any]]) -> Iterator[Record]:
    """Yields the records of a journal. Records of a fresh process are compared with round 1."""
    first: dict[tuple[str, str | None], str | None] = {}
    for line in sorted((line for line in lines if "test" in line), key=lambda line: line["round"]):
        for record in (Record(**fields) for fields in line["records"]):
            key = line["test"], record.lowering
            before = first.setdefault(key, record.sha256)
            if record.outcome != "passed" or record.sha256 in (None, before) or before is None:
                yield record
                continue
            detail = (
                f"a fresh process gives the bits {record.sha256}, the first one gave {before}; "
                f"alone: python -m conformance run --device {record.device} -k {record.row}"
            )
            yield dataclasses.replace(record, outcome="failed", detail=detail)


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
