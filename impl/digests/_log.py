"""A log of digests: a file to which each step of a run appends a line of JSON.

The file has a line of three kinds, each an object. ``LogFile`` in ``_log_file.py`` reads them:

- ``{"samebits_log": 1, "environment": {...}}`` begins a session: a process that opened the log.
- ``{"tree": "params", "leaves": [[path, type], ...]}`` names the leaves of a tree from here on.
- ``{"step": 7, "trees": {"params": {"digest": "…", "leaves": "…", "kept": [offset, sizes]}}}`` has
  the digest of each tree, and the first 16 digits of the digest of each leaf, one after the other.
  ``kept`` is the position in the file ``PATH.values`` of the bytes of the leaves, and their sizes.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import operator
import os
from collections.abc import Iterable
from typing import Any, Self

from impl.digests import _log_file
from impl.digests._digest import Pending
from impl.digests._environment import environment
from impl.digests._leaves import Leaf, leaves, on_host


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
        self._file: int | None = _log_file.opened_to_append(self._path)
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
            raise TypeError(
                f"log(): argument 'step' must be an int, not {type(step).__name__}"
            ) from None
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
        record: dict[str, Any] = {}
        for name, (pending, kept) in trees.items():
            digest = pending.result()
            if self._types.get(name) != digest.types:
                self._write({"tree": name, "leaves": digest.types})
                self._types[name] = digest.types
            short = (leaf.hex()[: _log_file.DIGITS] for leaf in digest.of_leaves)
            record[name] = {"digest": digest.hex(), "leaves": "".join(short)}
            if kept is not None:
                record[name]["kept"] = kept
        self._write({"step": step, "trees": record})

    def _write(self, line: dict[str, Any]) -> None:
        lines = [line]
        if not self._has_begun:  # When the file was opened, JAX may have had no backend.
            lines.insert(0, {_log_file.MARK: _log_file.VERSION, "environment": environment()})
            self._has_begun = True
        text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)
        if self._file is not None:
            _log_file.written(self._file, text.encode())

    def _kept(self, of_tree: list[Leaf]) -> list[Any]:
        """Writes the bytes of leaves before the line that tells where they are."""
        if self._values is None:
            self._values = _log_file.appended(_log_file.values_of(self._path))
        offset = os.lseek(self._values, 0, os.SEEK_END)
        data = [on_host(leaf) for leaf in of_tree]
        for part in data:
            _log_file.written(self._values, part)
        return [offset, [len(part) for part in data]]
