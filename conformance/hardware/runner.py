"""The loop of a run: it starts workers, collects their results, and keeps the report up to date."""

from __future__ import annotations

import collections
import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

from conformance.hardware.jobs import Job
from conformance.hardware.journal import FinishedTest, Journal
from conformance.hardware.results import RunResults
from conformance.hardware.run_folder import RunFolder
from conformance.hardware.worker_process import WorkerProcess, WorkerSettings

#: The seconds between two lines of progress.
_PROGRESS_INTERVAL = 5.0
#: The seconds between two writings of the report.
_REPORT_INTERVAL = 15.0
#: The seconds between two reads of the journals.
_POLL_INTERVAL = 0.2
#: The number of processes that may die before the first test of a job.
_MAX_FAILED_STARTS = 2


class Runner:
    """Runs jobs in worker processes.

    Args:
        results: The results so far; new results are added.
        settings: The settings of the workers.
        folder: The folder of the journals.
        write_report: A function that writes the report of the results so far.
        deadline: The time at which to stop, by ``time.monotonic``; None for never.
        max_failures: The failures after which to stop; 0 for never.

    Attributes:
        results: The argument ``results``.
        stop_reason: Why the run stopped before its end; None if it did not.
    """

    def __init__(
        self,
        results: RunResults,
        settings: WorkerSettings,
        folder: RunFolder,
        write_report: Callable[[], None],
        *,
        deadline: float | None = None,
        max_failures: int = 0,
    ) -> None:
        self.results = results
        self.stop_reason: str | None = None
        self._settings, self._folder, self._write_report = settings, folder, write_report
        self._deadline, self._max_failures = deadline, max_failures
        self._waiting: collections.deque[Job] = collections.deque()
        self._running: list[WorkerProcess] = []
        self._failure_count = 0
        self._start_time = time.monotonic()
        self._journal_path = folder.new_name().with_suffix(".jsonl")

    def run(self, jobs: Iterator[Job]) -> None:
        """Runs jobs until all have ended, or there is a reason to stop."""
        self._failure_count = len(self.results.failures())
        self._waiting.extend(jobs)
        last_progress = last_report = time.monotonic()
        with _sigterm_as_interrupt(), Journal(self._journal_path) as journal:
            try:
                while self.stop_reason is None and (self._waiting or self._running):
                    self._start_workers()
                    time.sleep(_POLL_INTERVAL)
                    for process in list(self._running):
                        self._poll(process, journal)
                    self._check_limits()
                    now = time.monotonic()
                    if now - last_progress >= _PROGRESS_INTERVAL:
                        last_progress = now
                        print(self._progress(), flush=True)
                    if now - last_report >= _REPORT_INTERVAL:
                        last_report = now
                        self._write_report()
            except KeyboardInterrupt:
                self.stop_reason = "it was interrupted"
            finally:
                self._stop_workers()
                self._write_report()

    def _start_workers(self) -> None:
        while self._waiting and len(self._running) < self._settings.processes:
            job = self._waiting.popleft()
            self._running.append(WorkerProcess(job, self._settings, self._folder.new_name()))

    def _poll(self, process: WorkerProcess, journal: Journal) -> None:
        """Collects the results of a worker, and replaces it if it ended before its job."""
        # The process is asked before its journal is read: else its last lines could be missed.
        has_ended = process.has_ended()
        for test in process.new_results():
            self._add(test)
        failed = process.interrupted_test() if has_ended else process.stop_if_stuck()
        if failed is not None:
            journal.write(failed.to_line())
            self._add(failed)
        if not has_ended and failed is None:
            return
        self._running.remove(process)
        job = process.remaining_job()
        if job is None:
            return
        no_progress = job.failed_starts >= _MAX_FAILED_STARTS
        if no_progress or (failed is None and process.ended_in_order()):
            reason = self._too_many_failures() or f"a process {process.ending()}"
            self.stop_reason = self.stop_reason or reason
            print(process.log_tail())
        else:
            count = len(job.tests)
            print(f"a process {process.ending()}; another process runs its {count} remaining tests")
            self._waiting.appendleft(job)

    def _add(self, test: FinishedTest) -> None:
        self.results.add(test)
        if self.results.problem(test) is not None:
            self._failure_count += 1
            print(f"FAILED {test.test}" + ("" if test.round == 1 else f" (round {test.round})"))

    def _check_limits(self) -> None:
        self.stop_reason = self.stop_reason or self._too_many_failures()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self.stop_reason = self.stop_reason or "the time of --minutes is over"

    def _too_many_failures(self) -> str | None:
        count = self._failure_count
        if self._max_failures and count >= self._max_failures:
            return f"{count} failure(s), after which -x or --maxfail stops"
        return None

    def _progress(self) -> str:
        finished, expected = len(self.results.finished), len(self.results.expected)
        rounds = sorted({process.job.round for process in self._running})
        return (
            f"{time.monotonic() - self._start_time:5.0f} s: {finished} of {expected} tests, "
            f"{self._failure_count} failed; at work: {len(self._running)}, "
            f"in round {' and '.join(map(str, rounds))}"
        )

    def _stop_workers(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.stop()
        for process in self._running:
            for test in process.new_results():
                self._add(test)


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Turns SIGTERM into KeyboardInterrupt, so that the report is written at either signal."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # Only the main thread may set a handler.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def report_writer(
    results: RunResults, path: Path | None, environment: Mapping[str, str]
) -> Callable[[], None]:
    """Returns a function that writes the report, or does nothing if ``path`` is None."""

    def write() -> None:
        if path is not None:
            results.write(path, environment)

    return write
