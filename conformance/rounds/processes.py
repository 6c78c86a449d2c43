"""One process of a run, seen from the one that started it."""

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

from conformance.reporting.report import Record, from_property
from conformance.rounds import child
from conformance.rounds.journal import Finished, Tail, finished
from conformance.rounds.plan import PLAIN, Job

#: Seconds after which a test that has not ended is given up.
STUCK = 150.0
#: Seconds that a process has for its end, where it is asked to end.
_GRACE = 3.0
#: What pytest's exit status is where it ran its tests, whatever became of them.
_RAN = (0, 1)


@dataclasses.dataclass(frozen=True)
class Settings:
    """How processes are started.

    Attributes:
        arguments: Of pytest, which all of them have.
        repeats: How often bits are compared in the first round; None leaves it to the adapter.
        again: And in each further one.
        processes: How many share the device.
    """

    arguments: tuple[str, ...]
    repeats: int | None
    again: int | None
    processes: int

    def command(self, job: Job, files: Path) -> list[str]:
        """The command that does a job; its files are named as the argument, with an ending."""
        repeats = self.repeats if job.round == 1 else self.again
        more = [f"--round={job.round}", f"--parent={os.getpid()}"]
        more += [f"--tests={files}.json", f"--journal={files}.jsonl"]
        more += ["--pressure"] if job.round == 1 else []
        more += [] if repeats is None else [f"--repeats={repeats}"]
        return [sys.executable, "-m", "pytest", *self.arguments, *more]

    def environment(self) -> dict[str, str]:
        """The environment of a process: its share of the device, and programs of its own.

        Nothing that another process compiled is used again, or rounds would run one program.
        """
        given = dict(os.environ)
        # JAX takes either name for the fraction, and refuses both.
        if not {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"} & set(given):
            given["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 / self.processes:.2f}"
        given.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        return {**given, **PLAIN, "JAX_ENABLE_COMPILATION_CACHE": "false"}


class Process:
    """A process at its job.

    Attributes:
        job: What it does.
    """

    def __init__(self, job: Job, settings: Settings, files: Path) -> None:
        """Starts it."""
        self.job = job
        self._left = dict.fromkeys(job.tests)
        self._now: dict[str, Any] | None = None
        self._since = time.monotonic()
        self._any = False
        self._log = Path(f"{files}.log")
        Path(f"{files}.json").write_text(json.dumps(job.tests), encoding="utf-8")
        Path(f"{files}.jsonl").touch()
        self._tail = Tail(Path(f"{files}.jsonl"))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  # this interpreter, with pytest
                settings.command(job, files),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=settings.environment(),
            )

    def found(self) -> Iterator[Finished]:
        """The tests that ended since the last call."""
        for line in self._tail.lines():
            self._any, self._since = True, time.monotonic()
            if line["event"] == "started":
                self._now = line
            else:
                self._now = None
                self._left.pop(line["test"], None)
                yield finished(line)

    def ended(self) -> bool:
        """Whether it is over; call ``found`` once more afterwards."""
        return self._process.poll() is not None

    def ask_to_end(self) -> None:
        """Tells it to end, and does not wait."""
        if not self.ended():
            self._process.terminate()

    def stop(self) -> None:
        """Ends it, whatever it is at."""
        if not self.ended():
            self.ask_to_end()
            try:
                self._process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def stuck(self) -> Finished | None:
        """Stops it where its test has not ended for too long, and says what became of that."""
        if self._now is None or time.monotonic() - self._since < STUCK:
            return None
        self.stop()
        return self._blamed(f"the test had not ended after {STUCK:.0f} s and was stopped")

    def died(self) -> Finished | None:
        """What became of the test over which it died, where it did."""
        if self._now is None:
            return None
        return self._blamed(f"the process {self.how()} during this test\n{self.last_words()}")

    def rest(self) -> Job | None:
        """What another process has to do in its place; None where it did everything."""
        if not self._left:
            return None
        starts = 0 if self._any else self.job.starts + 1
        return Job(self.job.round, tuple(self._left), starts)

    def how(self) -> str:
        """How it ended."""
        status = self._process.returncode
        if status is not None and status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        return "lost its device" if status == child.LOST else f"ended with status {status}"

    def stopped_by_itself(self) -> bool:
        """Whether pytest ended in good order, as ``-x`` may have it do before every test ran."""
        return self._process.returncode in _RAN

    def last_words(self) -> str:
        """The end of what it printed."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-15:])[-2000:]

    def _blamed(self, text: str) -> Finished:
        assert self._now is not None  # noqa: S101  # the callers looked
        id, about = self._now["test"], self._now["about"]
        self._now = None
        self._left.pop(id, None)
        records: Sequence[Record] = ()
        if about is not None:
            check = about["check"] + child.Part(self.job.round).where
            said = {**about, "check": check, "detail": text.partition("\n")[0]}
            records = (from_property(said, "failed", 0.0),)
        return Finished(self.job.round, id, "failed", tuple(records), text)
