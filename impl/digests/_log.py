"""A log of digests: a file to which each step of a run appends a line of JSON.

The file has a line of three kinds, each an object:

- ``{"samebits_log": 1, "environment": {...}}`` begins a session: a process that opened the log.
- ``{"tree": "params", "leaves": [[path, type], ...]}`` names the leaves of a tree from here on.
- ``{"step": 7, "trees": {"params": {"digest": "…", "leaves": "…", "kept": [offset, sizes]}}}`` has
  the digest of each tree, and the first 16 digits of the digest of each leaf, one after the other.
  ``kept`` is the position in the file ``PATH.values`` of the bytes of the leaves, and their sizes.
  ``origin`` tells what made the trees: ``doctor --twice`` logs the line and function of a call.

A process may be killed while it writes. So a line counts only with its end, and the values that a
line refers to are written before it.

For example, ``log.log(7, params={"w": np.zeros(2, np.float32)})`` appends to a new log::

    {"samebits_log":1,"environment":{"python":"3.11.7","jax":"0.10.2",...}}
    {"tree":"params","leaves":[["['w']","float32[2]"]]}
    {"step":7,"trees":{"params":{"digest":"a6ff386f...","leaves":"cbd452450622620d"}}}
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import itertools
import json
import operator
import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax

from impl import _jax
from impl._core import arguments
from impl._mode import modes
from impl.digests._digest import Leaf, Pending, leaves, on_host

#: The key of the first line of a session, and the version of the format.
MARK, VERSION = "samebits_log", 1
#: The number of digits of the digest of a leaf that a line has.
DIGITS = 16
#: Distributions whose release can change bits.
DISTRIBUTIONS = ("jax", "jaxlib", "numpy", "samebits")


class DigestLog:
    """A file with the digests of the trees of each step, which ``compare`` compares with another.

    Use it as a context manager, or call ``close``. If the file exists, the log continues it: a run
    that was killed and resumed has one log. A last line that a killed process left half-written is
    removed. A resumed run may log steps again. If they then have other bits, ``compare``
    reports it.

    A CPU hashes the arrays inside of ``log``. Another device hashes them while the program goes on,
    and the line is written by the next call of ``log``, ``flush`` or ``close``, or as Python exits.
    In both cases the arrays may be donated to the next call. The operating system has each line as
    soon as it is written, so a process that is killed loses at most the line of the last step. Call
    ``flush`` before you save a checkpoint, so that the log has each step that the checkpoint has.

    One process and one thread write a log. If there are several processes, let
    ``jax.process_index() == 0`` write it, or give each process a file.

    Args:
        path: The file.
        keep: Names of trees whose values are kept too, in the file ``PATH.values``, so that
            ``compare`` can tell how far apart two runs are. ``log`` waits for them, and copies them
            to the host.

    Raises:
        TypeError: ``keep`` has a value that is not a string.
        ValueError: The file exists, and is not a log of digests.
        OSError: The file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, keep: Iterable[str] = ()) -> None:
        self._keep = frozenset([keep] if isinstance(keep, str) else keep)
        for name in self._keep:
            if not isinstance(name, str):
                raise TypeError(
                    f"DigestLog(): argument 'keep' must have names of trees, such as 'loss', but "
                    f"has {name!r}"
                )
        self._path = os.fspath(path)
        self._file: int | None = _opened_to_append(self._path)
        self._values: int | None = None
        self._has_begun = False
        self._types: dict[str, tuple[tuple[str, str], ...]] = {}
        self._pending: tuple[int, dict[str, tuple[Pending, Any]]] | None = None
        atexit.register(self.close)

    def log(self, step: int, **trees: Any) -> None:
        """Appends the digest of each tree.

        Args:
            step: The number of the step. It may be called again for a step, with other trees.
            **trees: Trees by name, as ``digest`` takes them: ``params=params, loss=loss``.

        Raises:
            TypeError: ``step`` is not an integer, there is no tree, or a leaf is no array and no
                number.
            ValueError: The log is closed, a leaf was donated before, or other processes have a part
                of it.
            OSError: The file cannot be written.
        """
        if self._file is None:
            raise ValueError(f"log(): the log {self._path!r} is closed")
        try:
            number = operator.index(step)
        except TypeError:
            raise arguments.wrong_type("log", "step", "an int", step) from None
        if not trees:
            raise TypeError("log(): pass at least one tree by name, such as params=params")
        of_trees = {name: leaves(f"log(): tree {name!r}", tree) for name, tree in trees.items()}
        started = {name: Pending(of_tree) for name, of_tree in of_trees.items()}
        self._write_pending()
        kept = {name: self._kept(of_trees[name]) for name in started if name in self._keep}
        self._pending = number, {name: (p, kept.get(name)) for name, p in started.items()}
        if all(pending.is_ready for pending in started.values()):
            self._write_pending()

    def flush(self) -> None:
        """Waits for the digests that devices compute, and makes the disk have every line.

        Raises:
            OSError: The file cannot be written.
        """
        self._write_pending()
        for file in (self._values, self._file):
            if file is not None:
                os.fsync(file)

    def close(self) -> None:
        """Flushes and closes the log. A closed log stays closed.

        Raises:
            OSError: The file cannot be written.
        """
        if self._file is None:
            return
        try:
            self.flush()
        finally:
            atexit.unregister(self.close)
            for file in (self._values, self._file):
                if file is not None:
                    os.close(file)
            self._values = self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After a failed step, closing fails too: raise the error of the step, not the error of its
        # digest.
        with contextlib.suppress(Exception) if kind else contextlib.nullcontext():
            self.close()

    def _write_pending(self) -> None:
        if self._pending is None:
            return
        (step, trees), self._pending = self._pending, None
        self._write_step(step, trees)

    def _write_step(self, step: int, trees: dict[str, tuple[Pending, Any]], **origin: Any) -> None:
        record: dict[str, Any] = {}
        for name, (pending, kept) in trees.items():
            digest = pending.result()
            if self._types.get(name) != digest.types:
                self._write({"tree": name, "leaves": digest.types})
                self._types[name] = digest.types
            short = (leaf.hex()[:DIGITS] for leaf in digest.of_leaves)
            record[name] = {"digest": digest.hex(), "leaves": "".join(short)}
            if kept is not None:
                record[name]["kept"] = kept
        self._write({"step": step, "trees": record, **origin})

    def _write(self, line: dict[str, Any]) -> None:
        lines = [line]
        if not self._has_begun:  # When the file was opened, JAX may have had no backend.
            lines.insert(0, {MARK: VERSION, "environment": environment()})
            self._has_begun = True
        text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)
        if self._file is not None:
            _written(self._file, text.encode())

    def _kept(self, of_tree: list[Leaf]) -> list[Any]:
        """Writes the bytes of leaves before the line that tells where they are."""
        if self._values is None:
            self._values = _appended(_values_of(self._path))
        offset = os.lseek(self._values, 0, os.SEEK_END)
        data = [on_host(leaf) for leaf in of_tree]
        for part in data:
            _written(self._values, part)
        return [offset, [len(part) for part in data]]


@dataclasses.dataclass(frozen=True, slots=True)
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


class LeafRecord(NamedTuple):
    """A leaf of a tree at a step; its fields are None where there is no such leaf.

    Attributes:
        type: Its type.
        digest: The first digits of its digest.
        data: Its bytes; None if they were not kept, or their file is not there.
    """

    type: str | None = None
    digest: str | None = None
    data: bytes | None = None


class LogFile:
    """A log that was read. It keeps a digest of each step, and reads the leaves when asked.

    Attributes:
        environments: The environment of each session.
        steps: For each step, the records of each tree by name, in the order of the file.
        origins: The origin of each step that has one.

    Raises:
        ValueError: The file is not a log of digests, or a line of it is damaged.
        OSError: The file cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.environments: list[dict[str, str]] = []
        self.steps: dict[int, dict[str, list[Record]]] = {}
        self.origins: dict[int, Any] = {}
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

    def _read(self, entry: dict[str, Any], number: int, offset: int) -> None:
        if MARK in entry:
            self.environments.append(dict(entry["environment"]))
            self._types = {}
        elif "tree" in entry:
            leaves = tuple((str(path), str(type_)) for path, type_ in entry["leaves"])
            self._types[entry["tree"]] = leaves
        else:
            trees = self.steps.setdefault(int(entry["step"]), {})
            if "origin" in entry:
                self.origins[entry["step"]] = tuple(entry["origin"])
            for name, tree in entry["trees"].items():
                record = Record(tree["digest"], number, offset, self._types[name])
                trees.setdefault(name, []).append(record)

    def leaves(self, record: Record, name: str) -> dict[str, LeafRecord]:
        """Returns the leaves of a record of the tree of a name, by their paths."""
        with Path(self.path).open("rb") as lines:
            lines.seek(record.offset)
            tree = json.loads(lines.readline())["trees"][name]
        text = tree["leaves"]
        digests = (text[i : i + DIGITS] for i in range(0, len(text), DIGITS))
        values = self._values(*tree["kept"]) if "kept" in tree else itertools.repeat(None)
        return {
            path: LeafRecord(type_, digest, data)
            for (path, type_), digest, data in zip(record.types, digests, values, strict=False)
        }

    def _values(self, offset: int, sizes: list[int]) -> Iterable[bytes | None]:
        with contextlib.suppress(FileNotFoundError), Path(_values_of(self.path)).open("rb") as file:
            file.seek(offset)
            values = [file.read(size) for size in sizes]
            if [len(value) for value in values] == sizes:
                return values
        return itertools.repeat(None)


def _opened_to_append(path: str) -> int:
    """Opens a log to continue it, without a last line that was not written whole."""
    file = _appended(path)
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


def _appended(path: str) -> int:
    """Opens a file, to which each write appends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, 0o666)


def _written(file: int, data: bytes | memoryview) -> None:
    """Writes all of some bytes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _values_of(path: str) -> str:
    """Returns the name of the file with the values that a log keeps."""
    return f"{path}.values"


def _check_first(path: str, line: bytes) -> None:
    """Raises ValueError unless a line, which may be cut short, begins a log."""
    begin = f'{{"{MARK}"'.encode()
    if not line.endswith(b"\n") and line.startswith(begin[: len(line)]):
        return
    try:
        version = json.loads(line)[MARK]
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"{path!r} is not a log of digests, so that nothing was written or compared"
        ) from None
    if version != VERSION:
        raise ValueError(
            f"{path!r} is a log of digests of format {version!r}, but this release of samebits "
            f"reads format {VERSION}"
        )


def environment() -> dict[str, str]:
    """Returns the versions, the devices and the mode of this process; starts JAX's backend."""
    mode = modes.current()
    words = f"on, {mode.guarantee}, profile {mode.profile}" if mode.enabled else "off"
    devices = jax.devices()
    kinds = ", ".join(sorted({device.device_kind for device in devices}))
    return {
        "python": platform.python_version(),
        **{name: installed_version(name) or "not installed" for name in DISTRIBUTIONS},
        "machine": platform.machine(),
        "devices": f"{len(devices)} {jax.default_backend()}: {kinds}",
        "processes": str(jax.process_count()),
        "mode": words + (", warn_only" if mode.enabled and mode.warn_only else ""),
        "x64": str(_jax.enables_x64()),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }


def installed_version(name: str) -> str | None:
    """Returns the version of a distribution; None if it is not installed."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None
