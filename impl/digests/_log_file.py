"""The file of a log of digests: opened to continue it, and read to compare it.

A process may be killed while it writes. So a line counts only with its end, and the values that a
line refers to are written before it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

#: The key of the first line of a session, and the version of the format.
MARK, VERSION = "samebits_log", 1
#: The number of digits of the digest of a leaf that a line has.
DIGITS = 16


def opened_to_append(path: str) -> int:
    """Opens a log to continue it, without a last line that was not written whole.

    Raises:
        ValueError: The file is not a log of digests.
        OSError: The file cannot be written.
    """
    file = appended(path)
    try:
        with Path(path).open("rb") as lines:
            _check_first(path, lines.readline())
            end = _end_of_lines(lines)
        if end < os.fstat(file).st_size:
            os.ftruncate(file, end)
    except BaseException:
        os.close(file)
        raise
    return file


def _end_of_lines(file: Any) -> int:
    """Returns the position after the last end of a line, which is near the end of the file."""
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(0, position - 65536)
        file.seek(start)
        newline = file.read(position - start).rfind(b"\n")
        if newline >= 0:
            return int(start + newline + 1)
        position = start
    return 0


def appended(path: str) -> int:
    """Opens a file, to which each write appends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, 0o666)


def written(file: int, data: bytes | memoryview) -> None:
    """Writes all of some bytes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def values_of(path: str) -> str:
    """Returns the name of the file with the values that a log keeps."""
    return f"{path}.values"


@dataclasses.dataclass(frozen=True)
class Record:
    """The digest of a tree at a step.

    Attributes:
        digest: The digest of the tree.
        line: The number of the line, from 1.
        offset: The position of the line in the file.
        types: The path and the type of each leaf.
    """

    digest: str
    line: int
    offset: int
    types: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class LeafRecords:
    """The leaves of a tree at a step.

    Attributes:
        digests: The first digits of the digest of each leaf.
        values: The bytes of each leaf; None if none were kept, or their file is not there.
    """

    digests: tuple[str, ...]
    values: tuple[bytes, ...] | None


class LogFile:
    """A log that was read. It keeps a digest of each step, and reads the leaves when asked.

    Args:
        path: The file.

    Attributes:
        path: The file.
        environments: The environment of each session.
        steps: For each step, the records of each tree by name, in the order of the file.

    Raises:
        ValueError: The file is not a log of digests, or a line of it is damaged.
        OSError: The file cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.environments: list[dict[str, str]] = []
        self.steps: dict[int, dict[str, list[Record]]] = {}
        self._types: dict[str, tuple[tuple[str, str], ...]] = {}
        offset = 0
        with Path(path).open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):  # A process writes it, or was killed meanwhile.
                    break
                if number == 1:
                    _check_first(self.path, line)
                try:
                    self._read(json.loads(line), number, offset)
                except (ValueError, TypeError, KeyError, AttributeError) as error:
                    raise ValueError(
                        f"line {number} of {self.path!r} is damaged: {error!r}. Remove the line to "
                        "compare the other lines"
                    ) from error
                offset += len(line)
        if not self.environments:
            raise ValueError(f"{self.path!r} has no line yet")

    def _read(self, entry: dict[str, Any], number: int, offset: int) -> None:
        if MARK in entry:
            self.environments.append(dict(entry["environment"]))
            self._types = {}
        elif "tree" in entry:
            leaves = tuple((str(path), str(type_)) for path, type_ in entry["leaves"])
            self._types[entry["tree"]] = leaves
        else:
            trees = self.steps.setdefault(int(entry["step"]), {})
            for name, tree in entry["trees"].items():
                record = Record(tree["digest"], number, offset, self._types[name])
                trees.setdefault(name, []).append(record)

    def leaves(self, record: Record, name: str) -> LeafRecords:
        """Returns the leaves of a record of the tree of a name."""
        with Path(self.path).open("rb") as lines:
            lines.seek(record.offset)
            tree = json.loads(lines.readline())["trees"][name]
        text = tree["leaves"]
        digests = tuple(text[i : i + DIGITS] for i in range(0, len(text), DIGITS))
        values = None
        if "kept" in tree:
            with contextlib.suppress(FileNotFoundError):
                values = self._values(*tree["kept"])
        return LeafRecords(digests, values)

    def _values(self, offset: int, sizes: list[int]) -> tuple[bytes, ...] | None:
        with Path(values_of(self.path)).open("rb") as file:
            file.seek(offset)
            values = tuple(file.read(size) for size in sizes)
        return values if [len(value) for value in values] == sizes else None


def _check_first(path: str, line: bytes) -> None:
    """Raises ValueError unless a line, which may be cut short, begins a log."""
    begin = f'{{"{MARK}"'.encode()
    if not line.endswith(b"\n") and line.startswith(begin[: len(line)]):
        return
    try:
        version = json.loads(line)[MARK]
    except (ValueError, TypeError, KeyError):
        raise ValueError(_not_a_log(path)) from None
    if version != VERSION:
        raise ValueError(
            f"{path!r} is a log of digests of format {version!r}, but this release of samebits "
            f"reads format {VERSION}"
        )


def _not_a_log(path: str) -> str:
    return f"{path!r} is not a log of digests, so that nothing was written or compared"
