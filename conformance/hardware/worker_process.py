"""A worker process, as its parent sees it: its command, its results so far, and how it ended."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from conformance.hardware import worker_plugin
from conformance.hardware.jobs import NO_AUTOLOAD, Job
from conformance.hardware.journal import FinishedTest, JournalReader
from conformance.hardware.round_context import RoundContext
from conformance.report import Record, from_property

#: The seconds after which a test that has not ended is stopped.
TEST_TIMEOUT = 150.0
#: The seconds that a process has to end by itself after it was asked to.
_GRACE = 3.0
#: The exit statuses of pytest after it ran tests: all passed, or some failed.
_TESTS_RAN = (0, 1)


@dataclasses.dataclass(frozen=True)
class WorkerSettings:
    """The settings that all workers of a run share.

    Attributes:
        arguments: The arguments of pytest.
        repeats: The runs whose bits round 1 compares; None leaves it to the adapter.
        fresh_repeats: The same for each further round.
        processes: The number of processes that share the device.
    """

    arguments: tuple[str, ...]
    repeats: int | None
    fresh_repeats: int | None
    processes: int

    def command(self, job: Job, files: Path) -> list[str]:
        """Returns the command that does a job.

        Args:
            job: The job.
            files: The path of the worker's files, without their suffixes.
        """
        repeats = self.repeats if job.round == 1 else self.fresh_repeats
        options = [f"--round={job.round}", f"--parent={os.getpid()}"]
        options += [f"--tests={files}.json", f"--journal={files}.jsonl"]
        options += ["--background-work"] if job.round == 1 else []
        options += [] if repeats is None else [f"--repeats={repeats}"]
        return [sys.executable, "-m", "pytest", *self.arguments, *options]

    def environment(self) -> dict[str, str]:
        """Returns the environment of a worker: its share of the device's memory, and no caches.

        A round tests whether a fresh compilation gives the same bits, so no worker may use the
        programs that another one compiled.
        """
        environment = dict(os.environ)
        # JAX accepts either name for the fraction, and refuses both together.
        if not {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"} & set(environment):
            environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 / self.processes:.2f}"
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        return {**environment, **NO_AUTOLOAD, "JAX_ENABLE_COMPILATION_CACHE": "false"}


class WorkerProcess:
    """A worker process. It starts when the object is made.

    Args:
        job: The job.
        settings: The settings of the run.
        files: The path of the worker's files, without their suffixes.

    Attributes:
        job: The job.
    """

    def __init__(self, job: Job, settings: WorkerSettings, files: Path) -> None:
        self.job = job
        self._unfinished = dict.fromkeys(job.tests)
        self._current: dict[str, Any] | None = None
        self._last_event = time.monotonic()
        self._has_events = False
        self._log = Path(f"{files}.log")
        Path(f"{files}.json").write_text(json.dumps(job.tests), encoding="utf-8")
        Path(f"{files}.jsonl").touch()
        self._journal = JournalReader(Path(f"{files}.jsonl"))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  # this interpreter, with pytest
                settings.command(job, files),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=settings.environment(),
            )

    def new_results(self) -> Iterator[FinishedTest]:
        """Yields the tests that ended since the last call."""
        for line in self._journal.new_lines():
            self._has_events, self._last_event = True, time.monotonic()
            if line["event"] == "started":
                self._current = line
            else:
                self._current = None
                self._unfinished.pop(line["test"], None)
                yield FinishedTest.from_line(line)

    def has_ended(self) -> bool:
        """Returns whether the process has ended. Call ``new_results`` once more afterwards."""
        return self._process.poll() is not None

    def terminate(self) -> None:
        """Asks the process to end, and does not wait."""
        if not self.has_ended():
            self._process.terminate()

    def stop(self) -> None:
        """Ends the process, by force if it does not end when asked."""
        if not self.has_ended():
            self.terminate()
            try:
                self._process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def stop_if_stuck(self) -> FinishedTest | None:
        """Stops the process if its test ran past the limit, and returns the failed test."""
        if self._current is None or time.monotonic() - self._last_event < TEST_TIMEOUT:
            return None
        self.stop()
        return self._failed(f"the test had not ended after {TEST_TIMEOUT:.0f} s and was stopped")

    def interrupted_test(self) -> FinishedTest | None:
        """Returns the test during which the process died, as failed; None if there is none."""
        if self._current is None:
            return None
        return self._failed(f"the process {self.ending()} during this test\n{self.log_tail()}")

    def remaining_job(self) -> Job | None:
        """Returns the job of a process that replaces this one; None if every test ended."""
        if not self._unfinished:
            return None
        failed_starts = 0 if self._has_events else self.job.failed_starts + 1
        return Job(self.job.round, tuple(self._unfinished), failed_starts)

    def ending(self) -> str:
        """Returns how the process ended, in words."""
        status = self._process.returncode
        if status is not None and status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        if status == worker_plugin.LOST_DEVICE:
            return "lost its device"
        return f"ended with status {status}"

    def ended_in_order(self) -> bool:
        """Returns whether pytest ended by itself; with ``-x`` some tests may not have run."""
        return self._process.returncode in _TESTS_RAN

    def log_tail(self) -> str:
        """Returns the end of the process's output."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-15:])[-2000:]

    def _failed(self, text: str) -> FinishedTest:
        """Returns the current test as failed, for the reason that ``text`` states."""
        assert self._current is not None  # noqa: S101  # the callers checked
        id, fields = self._current["test"], self._current["about"]
        self._current = None
        self._unfinished.pop(id, None)
        records: Sequence[Record] = ()
        if fields is not None:
            check = fields["check"] + RoundContext(self.job.round).check_suffix
            record = {**fields, "check": check, "detail": text.partition("\n")[0]}
            records = (from_property(record, "failed", 0.0),)
        return FinishedTest(self.job.round, id, "failed", tuple(records), text)
