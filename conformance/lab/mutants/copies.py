"""Copies of the checkout in which commands run, with a fault or without; the checkout stays clean.

Each command runs in a copy of its own, so that several can run at once. A mutant's ``run`` begins
with one of five words, and ``steps`` gives the processes for it; ``python`` is this interpreter::

    pytest impl/tests/ops/test_cumsum.py   python -m pytest -q -x ... impl/tests/ops/test_cumsum.py
    devices impl/tests/portable/...        the same, where a CPU stands for eight devices
    native impl/tests/native/test_sums.py  cmake ... builds the engine `native` in the copy
                                           python -m pytest -q -x ... impl/tests/native/test_sums.py
    conformance -k R0001                   python -m conformance run --device cpu ... -k R0001
    docs                                   python -m sphinx ... docs docs/_build/html
                                           python -m pytest ... docs/tests/test_site.py ...

The first process that fails ends the command. For a mutant whose test finds the fault, the two
results are, with made-up seconds::

    copies.submit(run, 600.0).result()           CommandResult(status=0, seconds=3.1, output=...)
    copies.submit(run, 600.0, mutant).result()   CommandResult(status=1, seconds=2.4, output=...)
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from conformance.lab.mutants.mutant import Mutant
from impl._native import library

#: The seconds that a command may take without a fault.
BASELINE_TIMEOUT = 600.0
_SITE = "docs/_build/html"
_BUILD = "build/native"
_PYTHON = (sys.executable, "-m")
_PYTEST = (*_PYTHON, "pytest", "-q", "-x", "-p", "no:cacheprovider")


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """The result of a command.

    Attributes:
        status: Its exit status; None if it ran past its time limit.
        seconds: The seconds that it took.
        output: Its output.
    """

    status: int | None
    seconds: float
    output: str

    def tail(self, lines: int = 15) -> str:
        """Returns the last lines of the output."""
        return "\n".join(self.output.strip().splitlines()[-lines:])


def steps(run: str) -> list[list[str]]:
    """Returns the processes of a mutant's ``run``. They run one after the other."""
    name, *arguments = shlex.split(run)
    if name == "pytest":
        return [[*_PYTEST, *arguments]]
    if name == "devices":
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
        return [["env", f"XLA_FLAGS={flags}", *_PYTEST, *arguments]]
    if name == "native":
        # A copy has no library: the tests of this engine are skipped for any other command.
        options = [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Debug"]
        configure = ["cmake", "-S", "impl/_native", "-B", _BUILD, *options]
        install = ["cmake", "--install", _BUILD, "--prefix", "."]
        return [configure, ["cmake", "--build", _BUILD], install, [*_PYTEST, *arguments]]
    if name == "conformance":
        suite = ["conformance", "run", "--device", "cpu", "-n", "0", "-q", "-x"]
        return [[*_PYTHON, *suite, *arguments]]
    quick = ["-D", "op_examples=0"]  # No mutant is about the output of examples.
    sphinx = ["sphinx", "-q", "-E", "-n", "-W", "--keep-going", "-b", "html", *quick, "docs", _SITE]
    tests = ["docs/tests/test_site.py", "docs/tests/test_templates.py"]
    return [[*_PYTHON, *sphinx], [*_PYTEST, *tests, *arguments]]


def tracked_files(root: Path) -> list[str]:
    """Returns the files of a checkout that git tracks, or would track.

    Raises:
        ValueError: It is not a checkout, or git is missing.
    """
    command = ["git", "-C", str(root), "ls-files", "-z", "-c", "-o", "--exclude-standard"]
    try:
        listed = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  # it has no user input
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"{root}: mutants need a checkout and git: {error}") from error
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


class CheckoutCopies:
    """Copies of a checkout in a temporary folder.

    At the end of the context the commands that still run are ended and the folder is removed.

    Args:
        root: The checkout.
        files: The files to copy.
        workers: The number of commands that run at once.
        environment: Variables to add to the environment of the commands.
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
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True)
        self._first = Path(self._folder.name) / "first"
        for name in self._files:
            destination = self._first / name
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._root / name, destination)
        # Compile the first copy, so that the other copies need not compile.
        self._execute([*_PYTHON, "compileall", "-q", "."], self._first, BASELINE_TIMEOUT)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._over = True
            for process in self._running:
                _kill(process)
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def check_imports(self, packages: Sequence[str]) -> None:
        """Checks that Python imports the packages from a copy, and not an installed version.

        Raises:
            ValueError: Python imports another version.
        """
        code = f"import {', '.join(packages)}\n" + "\n".join(
            f"print({package}.__file__)" for package in packages
        )
        command = [sys.executable, "-c", code]
        result = self._execute(command, self._first, BASELINE_TIMEOUT, folder=self._first.parent)
        paths = map(Path, result.output.split())
        if result.status or any(not path.is_relative_to(self._first) for path in paths):
            raise ValueError(f"a copy of the checkout is not what Python imports:\n{result.tail()}")

    def submit(
        self, run: str, timeout: float, mutant: Mutant | None = None
    ) -> Future[CommandResult]:
        """Starts a command in a copy of its own.

        Args:
            run: The ``run`` of a mutant.
            timeout: The seconds after which the command is ended.
            mutant: The fault to make in the copy; None for no fault.
        """
        return self._pool.submit(self._run, run, timeout, mutant)

    def _run(self, run: str, timeout: float, mutant: Mutant | None) -> CommandResult:
        with self._new_copy() as copy:
            if mutant is not None:
                _apply(mutant, copy)
            start, output = time.monotonic(), ""
            for step in steps(run):
                remaining = timeout - (time.monotonic() - start)
                result = self._execute(step, copy, remaining)
                output += result.output
                if result.status != 0:
                    break
            return CommandResult(result.status, time.monotonic() - start, output)

    @contextlib.contextmanager
    def _new_copy(self) -> Iterator[Path]:
        copy = Path(tempfile.mkdtemp(dir=self._folder.name))
        shutil.copytree(self._first, copy, dirs_exist_ok=True)
        try:
            yield copy
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _execute(
        self, command: Sequence[str], copy: Path, timeout: float, folder: Path | None = None
    ) -> CommandResult:
        # Without a library of its own, a copy tests the engine of HLO.
        engine = {} if (copy / _BUILD).exists() else {library.VARIABLE: "off"}
        environment = {**os.environ, **self._environment, **engine, "PYTHONPATH": str(copy)}
        start = time.monotonic()
        with self._lock:
            if self._over:
                raise InterruptedError
            # A new session groups the process with its children, so that all end together.
            process = subprocess.Popen(  # noqa: S603  # the project's own commands
                command,
                cwd=folder or copy,
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
            output, _ = process.communicate(timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            _kill(process)
            output, _ = process.communicate()
        except BaseException:
            _kill(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        return CommandResult(status, time.monotonic() - start, output)


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _apply(mutant: Mutant, copy: Path) -> None:
    broken = mutant.broken_text(copy)
    path = copy / mutant.file
    path.write_text(broken, encoding="utf-8")
    # Python compares sizes and whole seconds to decide whether compiled code is out of date.
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()
