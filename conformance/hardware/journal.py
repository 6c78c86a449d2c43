"""Journals: files to which a worker adds one JSON line for each event.

A line is flushed as soon as it is written, so a worker that dies loses no result.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from conformance.reporting.report import Outcome, Record


@dataclasses.dataclass(frozen=True)
class FinishedTest:
    """The result of a test that ended, or whose process ended.

    Attributes:
        round: The number of the round.
        test: The id of the test.
        outcome: How the test ended.
        records: The records of the test, for the report.
        text: The full description of the failure; None if there was none.
    """

    round: int
    test: str
    outcome: Outcome
    records: tuple[Record, ...] = ()
    text: str | None = None

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> Self:
        """Returns the test of a line whose event is ``finished``."""
        fields = {name: value for name, value in line.items() if name != "event"}
        records = tuple(Record(**record) for record in fields.pop("records"))
        return cls(**fields, records=records)

    def to_line(self) -> dict[str, Any]:
        """Returns the line of a journal for this test."""
        return {"event": "finished", **dataclasses.asdict(self)}

    @property
    def key(self) -> tuple[int, str]:
        """The round and the id."""
        return self.round, self.test

    @property
    def seconds(self) -> float:
        """The seconds that its checks took."""
        return sum(record.seconds for record in self.records)


class Journal:
    """A file to which one process adds lines. Lines that it already has stay."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def write(self, line: Mapping[str, Any]) -> None:
        """Adds a line and flushes it."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


class JournalReader:
    """Reads a journal while another process adds to it.

    Args:
        path: The file. It may be created later.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def new_lines(self) -> Iterator[dict[str, Any]]:
        """Yields the lines that were completed since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # The process is writing this line, or died while it wrote.
                self._position += len(line)
                yield json.loads(line)
