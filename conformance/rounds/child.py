"""The pytest plugin of a process that does its part of a run, and what a test is told of it."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.adapters.base import Adapter as Implementation
from conformance.pytest_plugin import records
from conformance.reporting.report import Outcome, Record
from conformance.rounds.journal import Finished, Journal

#: The exit status of a process that lost its device: it can do nothing more.
LOST = 70


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that the processes of a run are started with."""
    group = parser.getgroup("samebits processes", "of the processes of a run in rounds")
    group.addoption("--round", type=int, default=1, help="which round this is")
    group.addoption("--pressure", action="store_true", help="have other work on the device")
    group.addoption("--tests", type=Path, help="a JSON list of the ids of the tests to run")
    group.addoption("--journal", type=Path, help="where to write what is found, as it is found")
    group.addoption("--parent", type=int, help="the process without which this one ends")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark of tests to run again, and keeps a journal where one was asked for."""
    config.addinivalue_line("markers", "again: fresh processes run the test again")
    if config.getoption("--journal"):
        import jax  # noqa: PLC0415  # a run without a journal may do without JAX

        with warnings.catch_warnings(action="ignore"):
            jax.devices()  # what a device's start warns of is no failure of the suite
        config.pluginmanager.register(Child(config), "samebits-child")


class Child:
    """Runs the tests of a list, and writes down what becomes of each."""

    def __init__(self, config: pytest.Config) -> None:
        """Reads what to do."""
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
        there = {item.nodeid: item for item in items}
        absent = [id for id in listed if id not in there]
        if absent:
            raise pytest.UsageError(f"{self.tests} lists {absent[0]}, which is not collected here")
        others = [there[id] for id in set(there) - set(listed)]
        config.hook.pytest_deselected(items=others)
        items[:] = [there[id] for id in listed]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Says which test is next, and ends where nobody waits for it any more."""
        if self.parent not in (None, os.getppid()):
            pytest.exit("the process that started this one is gone", returncode=LOST)
        self._forget()
        self.journal.write({"event": "started", "test": item.nodeid, "about": about(item)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gathers what the phases of a test leave, and writes it down after the last."""
        self.records += records.records(report)
        if report.failed:
            self.outcome = "failed"
            self.texts.append(report.longreprtext)
            self.texts += [f"---- {name} ----\n{text}" for name, text in report.sections]
        elif report.skipped and self.outcome == "passed":
            self.outcome = "skipped"
        if report.when == "teardown":
            text = "\n".join(self.texts) or None
            ended = Finished(self.round, report.nodeid, self.outcome, tuple(self.records), text)
            self.journal.write(ended.line())
            if self.outcome == "failed" and not _alive():
                os._exit(LOST)  # what an orderly end would still ask of the device may hang


def about(item: pytest.Item) -> dict[str, Any] | None:
    """What a report says of a test's row where the test cannot say it itself; None without one."""
    given = getattr(item, "callspec", None)
    for value in given.params.values() if given else ():
        said = getattr(value, "about", None)
        if isinstance(said, dict):
            check = item.originalname if isinstance(item, pytest.Function) else item.name
            return {**said, "check": check.removeprefix("test_").replace("_", " ")}
    return None


def _alive() -> bool:
    """Whether the device still answers: some errors leave it useless to a process."""
    import jax  # noqa: PLC0415  # as above

    with contextlib.suppress(Exception):
        return int(jax.block_until_ready(jax.device_put(1))) == 1
    return False


class Part:
    """What a test is told of the run that it is part of.

    Attributes:
        where: What a record's check says of the process, where it is not of the first round.
    """

    def __init__(self, round: int = 1, beside: Any = None) -> None:
        self.where = "" if round == 1 else f" in fresh process {round}"
        self._beside = beside

    @property
    def beside(self) -> str:
        """What other work is on the device while bits are compared; nothing where there is none."""
        return "" if self._beside is None else str(self._beside)

    def pressure(self) -> contextlib.AbstractContextManager[Any]:
        """A scope in which that work is done."""
        return contextlib.nullcontext() if self._beside is None else self._beside.scope()


@pytest.fixture(scope="session")
def part(request: pytest.FixtureRequest, implementation: Implementation) -> Iterator[Part]:
    """What a test is told of the run that it is part of."""
    number: int = request.config.getoption("--round")
    if not request.config.getoption("--pressure"):
        yield Part(number)
        return
    from conformance.rounds import pressure  # noqa: PLC0415  # as above

    kinds = pressure.kinds(implementation)
    if not kinds:
        yield Part(number)
        return
    with pressure.Pressure(kinds) as beside:
        yield Part(number, beside)
