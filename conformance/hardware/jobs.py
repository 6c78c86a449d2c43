"""The jobs of a run: which tests there are, in which order, and which process runs which."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
from collections.abc import Collection, Iterator, Sequence

import pytest

#: The mark of the tests that run again in fresh processes.
AGAIN = "again"
#: The environment in which pytest loads the plugins that ``-p`` names, and no others.
NO_AUTOLOAD = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@dataclasses.dataclass(frozen=True)
class PlannedTest:
    """A test of the run.

    Attributes:
        id: The name that pytest gives it.
        group: The name of its group. The tests of a group share programs and run in one process.
        again: True if fresh processes run it again.
    """

    id: str
    group: str
    again: bool


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of one process.

    Attributes:
        round: The number of the round: 1, or more for a fresh process that runs tests again.
        tests: The ids of the tests, in their order.
        failed_starts: How many processes died with this job before their first test.
    """

    round: int
    tests: tuple[str, ...]
    failed_starts: int = 0


class Collector:
    """A pytest plugin that keeps the tests that pytest collected.

    Attributes:
        tests: The tests.
        max_failures: The failures after which to stop, by ``-x`` or ``--maxfail``; 0 for never.
    """

    def __init__(self) -> None:
        self.tests: list[PlannedTest] = []
        self.max_failures = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keeps the tests that ``-k`` selected."""
        self.max_failures = session.config.getoption("maxfail")
        self.tests = [
            PlannedTest(item.nodeid, _group(item), item.get_closest_marker(AGAIN) is not None)
            for item in session.items
        ]


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else item.nodeid


def collect(arguments: Sequence[str]) -> tuple[int, str, Collector]:
    """Has pytest collect the tests that it would run.

    Returns:
        The exit status of pytest, its output, and the tests.
    """
    collector = Collector()
    with _without_autoload(), contextlib.redirect_stdout(io.StringIO()) as output:
        # The plugins are imported already, so pytest would warn that it cannot rewrite their
        # assertions. No test runs here, so plain assertions will do.
        options = ("--collect-only", "--assert=plain")
        status = pytest.main([*arguments, *options], plugins=[collector])
    return int(status), output.getvalue(), collector


@contextlib.contextmanager
def _without_autoload() -> Iterator[None]:
    """Keeps pytest from loading the plugins that are installed: any of them may warn or fail."""
    before = dict(os.environ)
    os.environ.update(NO_AUTOLOAD)
    try:
        yield
    finally:
        for name in NO_AUTOLOAD:
            os.environ.pop(name)
            if name in before:
                os.environ[name] = before[name]


def share(tests: Sequence[PlannedTest], processes: int) -> list[tuple[str, ...]]:
    """Returns the ids of the tests in at most ``processes`` shares; a group is in one share."""
    groups: dict[str, list[str]] = {}
    for test in tests:
        groups.setdefault(test.group, []).append(test.id)
    shares: list[list[str]] = [[] for _ in range(processes)]
    for ids in sorted(groups.values(), key=len, reverse=True):
        min(shares, key=len).extend(ids)
    return [tuple(ids) for ids in shares if ids]


def jobs(
    tests: Sequence[PlannedTest],
    rounds: int,
    processes: int,
    finished: Collection[tuple[int, str]],
) -> Iterator[Job]:
    """Yields the jobs, those that tell most first: tests of bits, their reruns, then the rest.

    Args:
        tests: All tests.
        rounds: The number of rounds.
        processes: The number of processes at a time.
        finished: The rounds and ids of the tests that have ended.
    """
    stages = [(number, [test for test in tests if test.again]) for number in range(1, rounds + 1)]
    for number, stage in [*stages, (1, [test for test in tests if not test.again])]:
        unfinished = [test for test in stage if (number, test.id) not in finished]
        for ids in share(unfinished, processes):
            yield Job(number, ids)


def expected_keys(tests: Sequence[PlannedTest], rounds: int) -> list[tuple[int, str]]:
    """Returns the rounds and ids that make a run complete, in the order of a report."""
    first = [(1, test.id) for test in tests]
    return first + [(n, test.id) for n in range(2, rounds + 1) for test in tests if test.again]
