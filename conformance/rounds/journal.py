"""What the processes of a run write down as they go, and what a run that goes on finds there."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from conformance.reporting.report import Outcome, Record

_PACKAGES = ("spec", "impl", "conformance")
_SOURCES = {".py", ".toml", ".ini"}
_IDENTITY = "run.json"


class OtherRunError(Exception):
    """A folder holds the beginning of another run."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """A test that ended, or whose process did.

    Attributes:
        round: In which round.
        test: Its id.
        outcome: How it ended.
        records: What it left for the report.
        text: What went wrong, in full.
    """

    round: int
    test: str
    outcome: Outcome
    records: tuple[Record, ...] = ()
    text: str | None = None

    @property
    def key(self) -> tuple[int, str]:
        """The round and the id."""
        return self.round, self.test

    def line(self) -> dict[str, Any]:
        """As it is written down."""
        return {"event": "finished", **dataclasses.asdict(self)}


def finished(line: Mapping[str, Any]) -> Finished:
    """What a line of the event ``finished`` says."""
    given = {name: value for name, value in line.items() if name != "event"}
    records = tuple(Record(**record) for record in given.pop("records"))
    return Finished(**given, records=records)


class Journal:
    """A file to which one process adds a line for each event."""

    def __init__(self, path: Path) -> None:
        """Opens it; what is there stays."""
        self._file = path.open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        """Is open already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def write(self, line: Mapping[str, Any]) -> None:
        """Adds a line, which stays whatever becomes of this process."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


class Tail:
    """Reads what another process adds to its journal."""

    def __init__(self, path: Path) -> None:
        """Starts at the front; the file may come later."""
        self._path = path
        self._read = 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """The lines that were completed since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written, or its process died over it
                self._read += len(line)
                yield json.loads(line)


class Folder:
    """Where the journals of a run are until it is complete."""

    def __init__(self, path: Path, identity: Mapping[str, str]) -> None:
        """Makes the folder, or takes up the run that it holds.

        Args:
            path: Of the folder.
            identity: What decides the results of a run: a run goes on only where it is the same.

        Raises:
            OtherRunError: The folder holds a run with another identity.
        """
        self.path = path
        path.mkdir(exist_ok=True)
        kept = path / _IDENTITY
        if kept.exists():
            before = json.loads(kept.read_text(encoding="utf-8"))
            names = sorted({*before, *identity})
            others = [name for name in names if before.get(name) != identity.get(name)]
            if others:
                raise OtherRunError(
                    f"{path} holds the beginning of another run: "
                    + "; ".join(f"{n} {before.get(n)} then, {identity.get(n)} now" for n in others)
                    + ". Remove the folder, or name another file by --report"
                )
        kept.write_text(json.dumps(dict(identity)), encoding="utf-8")
        numbers = [int(file.stem.partition("-")[2]) for file in path.glob("process-*")]
        self._made = max(numbers, default=0)

    def finished(self) -> list[Finished]:
        """What the run has found so far."""
        files = sorted(self.path.glob("*.jsonl"))
        every = (line for file in files for line in Tail(file).lines())
        return [finished(line) for line in every if line["event"] == "finished"]

    def new(self) -> Path:
        """A name for the files of one more process, to be followed by their endings."""
        self._made += 1
        return self.path / f"process-{self._made:03}"

    def close(self, *, complete: bool) -> None:
        """Takes it away where the report says it all, or else leaves two files to go on with."""
        if complete:
            shutil.rmtree(self.path)
            return
        every = self.finished()
        with Journal(self.path / "draft") as journal:
            for found in every:
                journal.write(found.line())
        kept = (self.path / "draft").replace(self.path / "process-000.jsonl")
        for file in set(self.path.glob("process-*")) - {kept}:
            file.unlink()


def sources(namespace: str) -> str:
    """SHA-256 of the code and the data that decide what a run finds."""
    digest = hashlib.sha256()
    roots = [Path(str(importlib.import_module(name).__file__)).parent for name in _PACKAGES]
    files = [path for root in roots for path in sorted(root.rglob("*")) if _counts(root, path)]
    files.append(Path(str(importlib.import_module(namespace).__file__)))
    for path in files:
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _counts(root: Path, path: Path) -> bool:
    return path.suffix in _SOURCES and "tests" not in path.relative_to(root).parts
