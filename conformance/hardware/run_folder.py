"""The folder that holds the journals of a run until the run is complete.

The same command, given again, finds the folder and continues the run. A run whose code, data,
versions or arguments differ would mix two results in one report, so it is refused.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from conformance.hardware.journal import FinishedTest, Journal, JournalReader

_PACKAGES = ("spec", "impl", "conformance")
_SUFFIXES = {".py", ".toml", ".ini"}
_IDENTITY = "run.json"


class OtherRunError(Exception):
    """The folder holds the beginning of a run with another identity."""


class RunFolder:
    """The journals of a run.

    Args:
        path: The folder; it is created if it is missing.
        identity: All that decides the results of the run.

    Raises:
        OtherRunError: The folder holds a run with another identity.
    """

    def __init__(self, path: Path, identity: Mapping[str, str]) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        file = path / _IDENTITY
        if file.exists():
            before = json.loads(file.read_text(encoding="utf-8"))
            names = sorted({*before, *identity})
            different = [name for name in names if before.get(name) != identity.get(name)]
            if different:
                raise OtherRunError(
                    f"{path} holds the beginning of another run: "
                    + "; ".join(
                        f"{name} {before.get(name)} then, {identity.get(name)} now"
                        for name in different
                    )
                    + ". Remove the folder, or name another file by --report"
                )
        file.write_text(json.dumps(dict(identity)), encoding="utf-8")
        numbers = [int(file.stem.partition("-")[2]) for file in path.glob("process-*")]
        self._last_number = max(numbers, default=0)

    def finished_tests(self) -> list[FinishedTest]:
        """Returns the results that the journals hold."""
        journals = sorted(self.path.glob("*.jsonl"))
        lines = (line for journal in journals for line in JournalReader(journal).new_lines())
        return [FinishedTest.from_line(line) for line in lines if line["event"] == "finished"]

    def new_name(self) -> Path:
        """Returns a new path, without a suffix, for the files of one more process."""
        self._last_number += 1
        return self.path / f"process-{self._last_number:03}"

    def close(self, *, complete: bool) -> None:
        """Removes the folder if the run is complete; else merges the journals into one."""
        if complete:
            shutil.rmtree(self.path)
            return
        tests = self.finished_tests()
        with Journal(self.path / "draft") as journal:
            for test in tests:
                journal.write(test.to_line())
        merged = (self.path / "draft").replace(self.path / "process-000.jsonl")
        for file in set(self.path.glob("process-*")) - {merged}:
            file.unlink()


def source_digest(namespace: str) -> str:
    """Returns a SHA-256 of the code and data that decide the results of a run.

    Args:
        namespace: The name of the module of the implementation under test.
    """
    digest = hashlib.sha256()
    roots = [Path(str(importlib.import_module(name).__file__)).parent for name in _PACKAGES]
    files = [path for root in roots for path in sorted(root.rglob("*")) if _is_source(root, path)]
    files.append(Path(str(importlib.import_module(namespace).__file__)))
    for path in files:
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_source(root: Path, path: Path) -> bool:
    return path.suffix in _SUFFIXES and "tests" not in path.relative_to(root).parts
