"""Breaking a copy of the checkout and running the tests there; the checkout stays as it is."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

from conformance.mutants import Mutant

#: Seconds that a command may take on what is not broken.
LIMIT = 600.0
#: Seconds that it may take on what is: at least these, or so many times what it took before.
LEAST, TIMES = 60.0, 10.0
_SITE = "docs/_build/html"
_PYTHON = (sys.executable, "-m")
_PYTEST = (*_PYTHON, "pytest", "-q", "-x", "-p", "no:cacheprovider")
#: A test in pytest's summary, where one that could not be set up is an ERROR; a warning of Sphinx.
_FAILED = re.compile(r"^FAILED (?:\S*?::)?(.+?)(?: - .*)?$|: WARNING: (.*)$", re.MULTILINE)

Verdict: TypeAlias = Literal["killed", "survived", "broken"]


@dataclasses.dataclass(frozen=True)
class Run:
    """What came of a command.

    Attributes:
        status: Its exit status; None if it ran past its limit.
        seconds: How long it took.
        output: What it said.
    """

    status: int | None
    seconds: float
    output: str

    def tail(self, lines: int = 15) -> str:
        """The end of what it said."""
        return "\n".join(self.output.strip().splitlines()[-lines:])

    def failed(self) -> str:
        """The test that failed, or what Sphinx warned of; empty where there is neither."""
        found = _FAILED.search(self.output)
        return (found[1] or found[2]) if found else ""


@dataclasses.dataclass(frozen=True)
class Result:
    """What came of a mutant: ``broken`` is one on which no test could fail.

    Attributes:
        mutant: The mutant.
        verdict: Whether the tests found it.
        seconds: How long that took.
        detail: By which test, or why not.
    """

    mutant: Mutant
    verdict: Verdict
    seconds: float
    detail: str


def steps(run: str) -> list[list[str]]:
    """The processes that a command of a mutant stands for, one after the other."""
    name, *rest = shlex.split(run)
    if name == "pytest":
        return [[*_PYTEST, *rest]]
    if name == "conformance":
        return [[*_PYTHON, "conformance", "run", "--device", "cpu", "-n", "0", "-q", "-x", *rest]]
    sphinx = ["sphinx", "-q", "-E", "-n", "-W", "--keep-going", "-b", "dirhtml", "docs", _SITE]
    return [[*_PYTHON, *sphinx], [*_PYTEST, "docs/tests/test_spec_lists.py", *rest]]


def tracked(root: Path) -> list[str]:
    """The files of a checkout that git tracks, or would.

    Raises:
        ValueError: It is no checkout, or git is not there.
    """
    command = ["git", "-C", str(root), "ls-files", "-z", "-c", "-o", "--exclude-standard"]
    try:
        listed = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  # nothing of it is given
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"{root}: mutants need a checkout and git: {error}") from error
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


class Copies:
    """Copies of a checkout in a temporary folder, and what runs in them.

    Leaving it as a context ends whatever still runs and removes the folder.

    Args:
        root: The checkout.
        files: What of it to copy.
        workers: How many commands run at once.
        environment: What to add to the environment that they run in.
    """

    def __init__(
        self,
        root: Path,
        files: Sequence[str],
        workers: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._pool = ThreadPoolExecutor(workers)
        self._root = root
        self._files = files
        self._environment = environment or {}
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._over = False

    def __enter__(self) -> Self:
        """Makes the first copy, and compiles it: what is copied from it need not be."""
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True)
        self._first = Path(self._folder.name) / "first"
        for name in self._files:
            to = self._first / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._root / name, to)
        self._execute([*_PYTHON, "compileall", "-q", "."], self._first, LIMIT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends what runs."""
        with self._lock:
            self._over = True
            for process in self._running:
                _end(process)
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def check(self, packages: Sequence[str]) -> None:
        """Sees that the copy is what is imported, and not what is installed.

        Raises:
            ValueError: It is not.
        """
        code = f"import {', '.join(packages)}\n" + "\n".join(
            f"print({package}.__file__)" for package in packages
        )
        run = self._execute([sys.executable, "-c", code], self._first, LIMIT, at=self._first.parent)
        found = run.output.split()
        if run.status or any(not Path(path).is_relative_to(self._first) for path in found):
            raise ValueError(f"a copy of the checkout is not what Python imports:\n{run.tail()}")

    def submit(self, run: str, limit: float, mutant: Mutant | None = None) -> Future[Run]:
        """Has a command run in a copy of its own, with a breakage or without.

        Args:
            run: As a mutant has it.
            limit: Seconds until it is ended.
            mutant: The breakage.
        """
        return self._pool.submit(self._run, run, limit, mutant)

    def _run(self, run: str, limit: float, mutant: Mutant | None) -> Run:
        with self._copy() as copy:
            if mutant is not None:
                _apply(mutant, copy)
            start, said = time.monotonic(), ""
            for step in steps(run):
                left = limit - (time.monotonic() - start)
                done = self._execute(step, copy, left)
                said += done.output
                if done.status != 0:
                    break
            return Run(done.status, time.monotonic() - start, said)

    @contextlib.contextmanager
    def _copy(self) -> Iterator[Path]:
        copy = Path(tempfile.mkdtemp(dir=self._folder.name))
        shutil.copytree(self._first, copy, dirs_exist_ok=True)
        try:
            yield copy
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _execute(
        self, command: Sequence[str], copy: Path, limit: float, at: Path | None = None
    ) -> Run:
        environment = {**os.environ, **self._environment, "PYTHONPATH": str(copy)}
        start = time.monotonic()
        with self._lock:
            if self._over:
                raise InterruptedError
            # A session of its own, so that what it starts ends with it.
            process = subprocess.Popen(  # noqa: S603  # the project's own commands
                command,
                cwd=at or copy,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        status: int | None = None
        try:
            output, _ = process.communicate(timeout=limit)
            status = process.returncode
        except subprocess.TimeoutExpired:
            _end(process)
            output, _ = process.communicate()
        except BaseException:
            _end(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        return Run(status, time.monotonic() - start, output)


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _apply(mutant: Mutant, copy: Path) -> None:
    changed = mutant.broken(copy)
    path = copy / mutant.file
    path.write_text(changed, encoding="utf-8")
    # Python tells by size and second whether what it compiled is out of date.
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def baseline(
    copies: Copies, mutants: Sequence[Mutant], say: Callable[[str], None]
) -> dict[str, float]:
    """Runs each command of the mutants where nothing is broken.

    Returns:
        How long each took that passed, in seconds.
    """
    commands = dict.fromkeys(mutant.run for mutant in mutants)
    took: dict[str, float] = {}
    waiting = {copies.submit(command, LIMIT): command for command in commands}
    for future in as_completed(waiting):
        run, command = future.result(), waiting[future]
        if run.status == 0:
            took[command] = run.seconds
            say(f"passed   {run.seconds:5.1f} s  {command}")
        else:
            say(f"failed   {run.seconds:5.1f} s  {command}: {_ended(run)}\n{run.tail()}")
    return took


def attempt(
    copies: Copies, mutants: Sequence[Mutant], took: Mapping[str, float]
) -> Iterator[Result]:
    """Runs the command of each mutant where that is broken; results come as they are known."""
    waiting = {copies.submit(m.run, max(LEAST, TIMES * took[m.run]), m): m for m in mutants}
    for future in as_completed(waiting):
        yield _result(waiting[future], future.result())


def _result(mutant: Mutant, run: Run) -> Result:
    if run.status is None:
        return Result(mutant, "killed", run.seconds, "it hangs")
    if run.status == 0:
        return Result(mutant, "survived", run.seconds, mutant.run)
    if run.status == 1 and run.failed():
        return Result(mutant, "killed", run.seconds, run.failed())
    return Result(mutant, "broken", run.seconds, f"{_ended(run)}: {mutant.run}\n{run.tail()}")


def _ended(run: Run) -> str:
    if run.status is None:
        return "it ran past its limit"
    return f"exit status {run.status}"
