"""What there is to run, in which order, and how it is shared by processes."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
from collections.abc import Collection, Iterator, Sequence

import pytest

#: The mark of tests that run again in fresh processes.
AGAIN = "again"
#: The environment in which pytest loads what it is told to load, and nothing else.
PLAIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@dataclasses.dataclass(frozen=True)
class Planned:
    """One test.

    Attributes:
        id: As pytest names it.
        group: Tests of a group have programs in common, and go to one process.
        again: Whether fresh processes run it again.
    """

    id: str
    group: str
    again: bool


@dataclasses.dataclass(frozen=True)
class Job:
    """What one process does.

    Attributes:
        round: 1 for the first, and more for fresh processes that only run tests again.
        tests: The ids of its tests, in their order.
        starts: How often a process began with it and died before any test.
    """

    round: int
    tests: tuple[str, ...]
    starts: int = 0


class Collector:
    """The pytest plugin that keeps what was collected.

    Attributes:
        tests: What there is to run.
        limit: After how many failures to stop, as ``-x`` and ``--maxfail`` ask; 0 for never.
    """

    def __init__(self) -> None:
        """Has nothing yet."""
        self.tests: list[Planned] = []
        self.limit = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Takes what is left after ``-k``."""
        self.limit = session.config.getoption("maxfail")
        self.tests = [
            Planned(item.nodeid, _group(item), item.get_closest_marker(AGAIN) is not None)
            for item in session.items
        ]


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else item.nodeid


def collect(arguments: Sequence[str]) -> tuple[int, str, Collector]:
    """Lets pytest find the tests that it would run.

    Returns:
        Its exit status, what it printed, and the tests.
    """
    found = Collector()
    with without_plugins(), contextlib.redirect_stdout(io.StringIO()) as said:
        # Nothing is asserted here, and the plugins, imported before, could not be rewritten for it.
        only = ("--collect-only", "--assert=plain")
        status = pytest.main([*arguments, *only], plugins=[found])
    return int(status), said.getvalue(), found


@contextlib.contextmanager
def without_plugins() -> Iterator[None]:
    """Inside, pytest takes no plugin but those of ``-p``: what else a machine has, may warn."""
    given = dict(os.environ)
    os.environ.update(PLAIN)
    try:
        yield
    finally:
        for name in PLAIN:
            os.environ.pop(name)
            if name in given:
                os.environ[name] = given[name]


def share(tests: Sequence[Planned], processes: int) -> list[tuple[str, ...]]:
    """The ids of tests, parted among at most so many processes; groups stay together."""
    groups: dict[str, list[str]] = {}
    for test in tests:
        groups.setdefault(test.group, []).append(test.id)
    shares: list[list[str]] = [[] for _ in range(processes)]
    for ids in sorted(groups.values(), key=len, reverse=True):
        min(shares, key=len).extend(ids)
    return [tuple(ids) for ids in shares if ids]


def jobs(
    tests: Sequence[Planned], rounds: int, processes: int, done: Collection[tuple[int, str]]
) -> Iterator[Job]:
    """What is to be done, the most telling first: bits, bits again, and then the rest.

    Args:
        tests: Every test.
        rounds: How many rounds there are.
        processes: How many run at a time.
        done: Rounds and ids of the tests that are finished already.
    """
    parts = [(number, [t for t in tests if t.again]) for number in range(1, rounds + 1)]
    for number, part in [*parts, (1, [t for t in tests if not t.again])]:
        left = [test for test in part if (number, test.id) not in done]
        for ids in share(left, processes):
            yield Job(number, ids)


def wanted(tests: Sequence[Planned], rounds: int) -> list[tuple[int, str]]:
    """Every round and id that makes a run complete, in the order of a report."""
    first = [(1, test.id) for test in tests]
    return first + [(n, test.id) for n in range(2, rounds + 1) for test in tests if test.again]
