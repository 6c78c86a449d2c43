"""The loop that starts processes, gathers what they find, and keeps the report up to date."""

from __future__ import annotations

import collections
import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

from conformance.rounds.findings import Findings
from conformance.rounds.journal import Finished, Folder, Journal
from conformance.rounds.plan import Job
from conformance.rounds.processes import Process, Settings

#: Seconds between two lines of progress, two writings of the report, and two looks.
_PROGRESS, _REPORT, _LOOK = 5.0, 15.0, 0.2
#: How often a process may die before its first test.
_STARTS = 2


class Runner:
    """Runs jobs in processes.

    Attributes:
        findings: What was found so far.
        why: Why it stopped before the end; None where it did not.
    """

    def __init__(
        self,
        findings: Findings,
        settings: Settings,
        folder: Folder,
        write: Callable[[], None],
        *,
        deadline: float | None = None,
        limit: int = 0,
    ) -> None:
        """Takes what it needs.

        Args:
            findings: What is known, and where to put what is found.
            settings: How processes are started.
            folder: Where their journals are.
            write: Writes the report of what was found so far.
            deadline: When to stop, by ``time.monotonic``; None for never.
            limit: After how many failures to stop; 0 for never.
        """
        self.findings = findings
        self.why: str | None = None
        self._settings, self._folder, self._write = settings, folder, write
        self._deadline, self._limit = deadline, limit
        self._waiting: collections.deque[Job] = collections.deque()
        self._running: list[Process] = []
        self._failed = len(findings.failures())
        self._started = time.monotonic()
        self._own = folder.new().with_suffix(".jsonl")

    def run(self, jobs: Iterator[Job]) -> None:
        """Does jobs until all are done, or something says to stop."""
        self._waiting.extend(jobs)
        said = written = time.monotonic()
        with _terminable(), Journal(self._own) as journal:
            try:
                while self.why is None and (self._waiting or self._running):
                    self._start()
                    time.sleep(_LOOK)
                    for process in list(self._running):
                        self._look_at(process, journal)
                    self._check()
                    now = time.monotonic()
                    if now - said >= _PROGRESS:
                        said = now
                        print(self._progress(), flush=True)
                    if now - written >= _REPORT:
                        written = now
                        self._write()
            except KeyboardInterrupt:
                self.why = "it was interrupted"
            finally:
                self._stop()
                self._write()

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._settings.processes:
            job = self._waiting.popleft()
            self._running.append(Process(job, self._settings, self._folder.new()))

    def _look_at(self, process: Process, journal: Journal) -> None:
        over = process.ended()  # before reading: what it wrote last is read then
        for found in process.found():
            self._take(found)
        blamed = process.died() if over else process.stuck()
        if blamed is not None:
            journal.write(blamed.line())
            self._take(blamed)
        if not over and blamed is None:
            return
        self._running.remove(process)
        rest = process.rest()
        if rest is None:
            return
        if rest.starts >= _STARTS or (blamed is None and process.stopped_by_itself()):
            self.why = self.why or self._over_failures() or f"a process {process.how()}"
            print(process.last_words())
        else:
            print(
                f"a process {process.how()}; another one goes on with its {len(rest.tests)} tests"
            )
            self._waiting.appendleft(rest)

    def _take(self, found: Finished) -> None:
        self.findings.add(found)
        if self.findings.problem(found) is not None:
            self._failed += 1
            print(f"FAILED {found.test}" + ("" if found.round == 1 else f" (round {found.round})"))

    def _check(self) -> None:
        self.why = self.why or self._over_failures()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self.why = self.why or "the time of --minutes is over"

    def _over_failures(self) -> str | None:
        reached = self._limit and self._failed >= self._limit
        return f"{self._failed} failure(s), after which -x or --maxfail stops" if reached else None

    def _progress(self) -> str:
        done, every = len(self.findings.done), len(self.findings.wanted)
        rounds = sorted({process.job.round for process in self._running})
        return (
            f"{time.monotonic() - self._started:5.0f} s: {done} of {every} tests, {self._failed} "
            f"failed; at work: {len(self._running)}, in round {' and '.join(map(str, rounds))}"
        )

    def _stop(self) -> None:
        for process in self._running:
            process.ask_to_end()
        for process in self._running:
            process.stop()
        for process in self._running:
            for found in process.found():
                self._take(found)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Inside, being asked to end is what Ctrl-C is: the report is written all the same."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread, which alone may set it
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def report_writer(
    findings: Findings, path: Path | None, environment: Mapping[str, str]
) -> Callable[[], None]:
    """What writes the report, where one was asked for."""

    def write() -> None:
        if path is not None:
            findings.write(path, environment)

    return write
