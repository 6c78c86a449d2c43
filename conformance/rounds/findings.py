"""What a run has found: its records, with the bits of its rounds compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from conformance.reporting import report
from conformance.reporting.report import Record
from conformance.rounds.journal import Finished


class Findings:
    """What became of each test in each round.

    Attributes:
        wanted: The rounds and ids that make the run complete, in the order of the report.
    """

    def __init__(self, wanted: Sequence[tuple[int, str]], namespace: str) -> None:
        """Has found nothing.

        Args:
            wanted: As the attribute.
            namespace: What is tried, for the command that runs a row alone.
        """
        self.wanted = wanted
        self._known: dict[tuple[int, str], Finished] = {}
        self._namespace = namespace

    def add(self, found: Finished) -> None:
        """Takes up a test that ended."""
        self._known[found.key] = found

    @property
    def done(self) -> frozenset[tuple[int, str]]:
        """The rounds and ids of the tests that ended."""
        return frozenset(self._known)

    @property
    def left(self) -> int:
        """How many tests did not end."""
        return len(set(self.wanted) - self._known.keys())

    def problem(self, found: Finished) -> str | None:
        """What is wrong with a test that ended: it failed, or its bits are not the first ones."""
        pairs = zip(found.records, self._compared(found), strict=True)
        others = [str(new.detail) for old, new in pairs if new is not old]
        if found.outcome != "failed" and not others:
            return None
        return "\n".join([found.text or "", *others]).strip() or "it failed"

    def failures(self) -> dict[str, str]:
        """What went wrong, by the test and its round."""
        failed = {}
        for number, id in self.wanted:
            found = self._known.get((number, id))
            problem = None if found is None else self.problem(found)
            if problem is not None:
                failed[id if number == 1 else f"{id} in fresh process {number}"] = problem
        return failed

    def records(self) -> Iterator[Record]:
        """The records of the report."""
        for key in self.wanted:
            if key in self._known:
                yield from self._compared(self._known[key])

    def write(self, path: Path, environment: Mapping[str, str]) -> None:
        """Writes the report of what was found so far."""
        left = {"left": f"{self.left} of {len(self.wanted)} tests were not run"}
        report.write(path, {**environment, **(left if self.left else {})}, self.records())

    def _compared(self, found: Finished) -> Iterable[Record]:
        """The records of a test; those of a fresh process, held against the first one's."""
        first = self._known.get((1, found.test))
        if found.round == 1 or first is None:
            return found.records
        bits = {record.lowering: record.sha256 for record in first.records}
        return [self._same(record, bits.get(record.lowering)) for record in found.records]

    def _same(self, record: Record, before: str | None) -> Record:
        if record.outcome != "passed" or None in (record.sha256, before):
            return record
        if record.sha256 == before:
            return record
        detail = (
            f"{record.row}: a fresh process gives the bits {record.sha256}, the first one gave "
            f"{before}; alone: {alone(record, self._namespace)}"
        )
        return dataclasses.replace(record, outcome="failed", detail=detail)


def alone(record: Record, namespace: str = "impl") -> str:
    """The command that runs the tests of a record's row, op and profile alone."""
    parts = (record.row, record.op, record.direction, record.device, record.profile)
    name = "-".join(part or "unlisted" for part in parts)
    chosen = "" if namespace == "impl" else f" --namespace {namespace}"
    return f'python -m conformance run --device {record.device}{chosen} -k "{name}"'
