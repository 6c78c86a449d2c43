"""Trials of mutants: commands that run in copies of the checkout, with a fault or without.

A mutant's ``run`` begins with one of five words, and ``steps`` gives the processes for it;
``python`` is this interpreter::

    pytest impl/tests/ops/test_cumsum.py   python -m pytest -q -x ... impl/tests/ops/test_cumsum.py
    devices impl/tests/portable/...        the same, where a CPU stands for eight devices
    native impl/tests/native/test_sums.py  cmake ... builds the engine `native` in the copy
                                           python -m pytest -q -x ... impl/tests/native/test_sums.py
    conformance -k R0001                   python -m conformance run --device cpu ... -k R0001
    docs                                   python -m sphinx ... docs docs/_build/html
                                           python -m pytest ... docs/tests/test_site.py ...

The first process that fails ends the command.
"""

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
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.lab.mutants.mutant import Mutant
from impl._native import library

#: The seconds that a command may take without a fault. With one, it may take at least MIN_TIMEOUT,
#: or TIMEOUT_FACTOR times the seconds that it takes without.
BASELINE_TIMEOUT, MIN_TIMEOUT, TIMEOUT_FACTOR = 600.0, 60.0, 10.0
_SITE = "docs/_build/html"
_BUILD = "build/native"
_PYTHON = (sys.executable, "-m")
_PYTEST = (*_PYTHON, "pytest", "-q", "-x", "-p", "no:cacheprovider")
#: A failed test in pytest's summary, or a warning of Sphinx. A test whose fixture failed is listed
#: as ERROR and does not match.
_FAILED = re.compile(r"^FAILED (?:\S*?::)?(.+?)(?: - .*)?$|: WARNING: (.*)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a command; its status is None if it ran past its time limit."""

    status: int | None
    seconds: float
    output: str

    def __str__(self) -> str:
        ending = "it ran past its limit" if self.status is None else f"exit status {self.status}"
        return "\n".join([ending, *self.output.strip().splitlines()[-15:]])


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


def copied(root: Path, copy: Path, packages: Sequence[str]) -> None:
    """Copies a checkout, without what git ignores, and compiles its Python code.

    Python must import the packages from the copy, not from an installation.
    """
    command = ["git", "-C", str(root), "ls-files", "-z", "-c", "-o", "--exclude-standard"]
    try:
        listed = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  # it has no user input
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"{root}: mutants need a checkout and git: {error}") from error
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)
    # Compile it once, so that no trial has to.
    _run([*_PYTHON, "compileall", "-q", "."], copy, BASELINE_TIMEOUT)
    code = "; ".join(f"import {name}; print({name}.__file__)" for name in packages)
    result = _run([sys.executable, "-c", code], copy, BASELINE_TIMEOUT, folder=copy.parent)
    paths = map(Path, result.output.split())
    if result.status or any(not path.is_relative_to(copy) for path in paths):
        raise ValueError(f"a copy of the checkout is not what Python imports:\n{result}")


def run(command: str, copy: Path, timeout: float) -> Result:
    """Runs a mutant's ``run`` in a copy, and ends it after ``timeout`` seconds."""
    start, output = time.monotonic(), ""
    for step in steps(command):
        result = _run(step, copy, timeout - (time.monotonic() - start))
        output += result.output
        if result.status != 0:
            break
    return Result(result.status, time.monotonic() - start, output)


def _run(command: Sequence[str], copy: Path, timeout: float, folder: Path | None = None) -> Result:
    # Without a library of its own, a copy tests the engine of HLO.
    engine = {} if (copy / _BUILD).exists() else {library.VARIABLE: "off"}
    # A worker of pytest-xdist may run the trial, whose own pytest has no workers.
    outside = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    start = time.monotonic()
    # A new session groups the process with its children, so that all end together.
    process = subprocess.Popen(  # noqa: S603  # the project's own commands
        command,
        cwd=folder or copy,
        env={**outside, **engine, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(copy)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return Result(None, time.monotonic() - start, output)
    return Result(process.returncode, time.monotonic() - start, output)


def apply(mutant: Mutant, copy: Path) -> None:
    """Makes the fault in a copy."""
    broken = mutant.broken_text(copy)
    path = copy / mutant.file
    path.write_text(broken, encoding="utf-8")
    # Python compares sizes and whole seconds to decide whether compiled code is out of date.
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def found(mutant: Mutant, result: Result) -> str:
    """Returns how the tests found a mutant, from the result of its command."""
    if result.status is None or result.status < 0:
        # XLA aborts where devices wait for one another.
        return "it hangs" if result.status is None else "it ends by a signal"
    if result.status == 0:
        raise AssertionError(f"survived: {mutant.why} {mutant.run}")
    match = _FAILED.search(result.output)
    if result.status != 1 or match is None:
        raise AssertionError(f"broken, no test could run: {mutant.run}\n{result}")
    return match[1] or match[2]
