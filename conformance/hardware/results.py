"""The results of a run: the outcome of each test in each round, with the bits compared."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from conformance.hardware.journal import FinishedTest
from conformance.reporting import report
from conformance.reporting.report import Record


class RunResults:
    """The tests that ended, and their records.

    Args:
        expected: The rounds and ids that make the run complete, in the order of the report.
        namespace: The name of the implementation under test, for the command that reruns a row.

    Attributes:
        expected: As the argument.
    """

    def __init__(self, expected: Sequence[tuple[int, str]], namespace: str) -> None:
        self.expected = expected
        self._tests: dict[tuple[int, str], FinishedTest] = {}
        self._namespace = namespace

    def add(self, test: FinishedTest) -> None:
        """Adds a test that ended."""
        self._tests[test.key] = test

    @property
    def finished(self) -> frozenset[tuple[int, str]]:
        """The rounds and ids of the tests that ended."""
        return frozenset(self._tests)

    @property
    def unfinished_count(self) -> int:
        """The number of expected tests that did not end."""
        return len(set(self.expected) - self._tests.keys())

    def problem(self, test: FinishedTest) -> str | None:
        """Returns why a test counts as failed, or None.

        It failed by itself, or its bits differ from the bits of the first round.
        """
        pairs = zip(test.records, self._compared(test), strict=True)
        differences = [str(new.detail) for old, new in pairs if new is not old]
        if test.outcome != "failed" and not differences:
            return None
        return "\n".join([test.text or "", *differences]).strip() or "it failed"

    def failures(self) -> dict[str, str]:
        """Returns the problem of each failed test, by a title with its id and round."""
        problems = {}
        for key in self.expected:
            test = self._tests.get(key)
            problem = None if test is None else self.problem(test)
            if problem is not None:
                problems[_title(*key)] = problem
        return problems

    def slowest(self, count: int) -> list[tuple[str, float]]:
        """Returns the titles and seconds of the slowest tests, the slowest first."""
        tests = heapq.nlargest(count, self._tests.values(), key=lambda test: test.seconds)
        return [(_title(*test.key), test.seconds) for test in tests if test.seconds > 0]

    def records(self) -> Iterator[Record]:
        """Yields the records of the report."""
        for key in self.expected:
            if key in self._tests:
                yield from self._compared(self._tests[key])

    def write(self, path: Path, environment: Mapping[str, str]) -> None:
        """Writes the report of the results so far."""
        count = self.unfinished_count
        note = {"left": f"{count} of {len(self.expected)} tests were not run"} if count else {}
        report.write(path, {**environment, **note}, self.records())

    def _compared(self, test: FinishedTest) -> Iterable[Record]:
        """Returns the records of a test. Records of a fresh process are compared with round 1."""
        first = self._tests.get((1, test.test))
        if test.round == 1 or first is None:
            return test.records
        digests = {record.lowering: record.sha256 for record in first.records}
        return [self._compare(record, digests.get(record.lowering)) for record in test.records]

    def _compare(self, record: Record, first_digest: str | None) -> Record:
        if record.outcome != "passed" or None in (record.sha256, first_digest):
            return record
        if record.sha256 == first_digest:
            return record
        detail = (
            f"{record.row}: a fresh process gives the bits {record.sha256}, the first one gave "
            f"{first_digest}; alone: {rerun_command(record, self._namespace)}"
        )
        return dataclasses.replace(record, outcome="failed", detail=detail)


def _title(number: int, id: str) -> str:
    return id if number == 1 else f"{id} in fresh process {number}"


def rerun_command(record: Record, namespace: str = "impl") -> str:
    """Returns the command that runs the tests of a record's row, op and profile alone."""
    parts = (record.row, record.op, record.direction, record.device, record.profile)
    name = "-".join(part or "unlisted" for part in parts)
    option = "" if namespace == "impl" else f" --namespace {namespace}"
    return f'python -m conformance run --device {record.device}{option} -k "{name}"'
