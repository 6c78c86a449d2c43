"""The command ``python -m conformance run``, where several processes share the tests."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from conformance.adapters.base import Adapter
from conformance.hardware import jobs
from conformance.hardware.options import UNFINISHED, RoundOptions
from conformance.hardware.results import RunResults
from conformance.hardware.run_folder import OtherRunError, RunFolder, source_digest
from conformance.hardware.runner import Runner, report_writer
from conformance.hardware.worker_process import WorkerSettings
from conformance.pytest_plugin import records
from conformance.reporting import report

#: The greatest number of runs whose bits a fresh process compares.
_FRESH_REPEATS = 3
#: The number of failures that are printed in full. The report has the rest.
_FULL_FAILURES = 5
#: The slowest tests that are printed.
_SLOWEST = 10
_NOT_XDIST = "-n is for a run on a CPU; --processes N says how many processes share the tests"
#: The seconds of --minutes that are kept for the start and the end of the run.
_MARGIN = 10.0


def run(
    implementation: Adapter,
    options: RoundOptions,
    arguments: Sequence[str],
    path: Path | None,
    *,
    start_time: float,
) -> int:
    """Runs the suite in rounds and prints the results.

    Args:
        implementation: The implementation under test.
        options: The options of the run.
        arguments: The arguments of pytest, without a report.
        path: The file of the report; None for no report.
        start_time: The time when the run began, by ``time.monotonic``.

    Returns:
        The exit status: 0, 1 if a test failed, ``UNFINISHED``, or pytest's own status if it
        collected no tests.
    """
    if any(argument.startswith("-n") for argument in arguments):
        print(f"python -m conformance run: {_NOT_XDIST}", file=sys.stderr)
        return 2
    status, output, collected = jobs.collect(arguments)
    if status != 0:
        print(output, file=sys.stderr)
        return status
    environment = {
        **records.environment_of(implementation),
        **_environment(options),
        "sources": source_digest(implementation.name),
    }
    expected = jobs.expected_keys(collected.tests, options.rounds)
    results = RunResults(expected, implementation.name)
    try:
        with _open_folder(path, _identity(environment, arguments)) as folder:
            runner = Runner(
                results,
                _settings(options, arguments),
                folder,
                report_writer(results, path, environment),
                deadline=_deadline(options, start_time),
                max_failures=collected.max_failures,
            )
            _continue(runner, folder, collected.tests, options)
    except OtherRunError as error:
        print(f"python -m conformance run: {error}", file=sys.stderr)
        return 2
    _print_summary(results, path, runner.stop_reason, time.monotonic() - start_time)
    if results.failures():
        return 1
    return UNFINISHED if results.unfinished_count else 0


def _continue(
    runner: Runner, folder: RunFolder, tests: Sequence[jobs.PlannedTest], options: RoundOptions
) -> None:
    """Runs the tests whose results the folder does not hold yet."""
    results = runner.results
    for test in folder.finished_tests():
        results.add(test)
    finished = results.finished
    if finished:
        print(f"going on: {len(finished)} tests were run before ({folder.path})")
    runner.run(jobs.jobs(tests, options.rounds, options.processes, finished))
    folder.close(complete=results.unfinished_count == 0)


def _deadline(options: RoundOptions, start_time: float) -> float | None:
    return None if options.minutes is None else start_time + options.minutes * 60 - _MARGIN


def _settings(options: RoundOptions, arguments: Sequence[str]) -> WorkerSettings:
    fresh_repeats = None if options.repeats is None else min(options.repeats, _FRESH_REPEATS)
    return WorkerSettings(tuple(arguments), options.repeats, fresh_repeats, options.processes)


def _environment(options: RoundOptions) -> dict[str, str]:
    repeats = "the adapter's" if options.repeats is None else str(options.repeats)
    return {
        "rounds": str(options.rounds),
        "repeats": repeats,
        "processes": str(options.processes),
    }


def _identity(environment: Mapping[str, str], arguments: Sequence[str]) -> dict[str, str]:
    """Returns all that decides the results of a run.

    The number of processes and the paths of files do not count.
    """
    identity = {name: value for name, value in environment.items() if name != "processes"}
    words = [word for word in arguments if str(Path(__file__).parents[1]) not in word]
    for index, word in enumerate(words):
        option, _, value = word.partition("=")
        if option == "--expectations":
            words[index] = f"{option}={hashlib.sha256(Path(value).read_bytes()).hexdigest()}"
    return {**identity, "arguments": " ".join(words)}


@contextlib.contextmanager
def _open_folder(path: Path | None, identity: Mapping[str, str]) -> Iterator[RunFolder]:
    """Opens the folder next to the report or, without a report, a temporary folder."""
    if path is not None:
        yield RunFolder(path.with_name(f"{path.name}.parts"), identity)
        return
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        yield RunFolder(Path(folder), identity)


def _error_line(text: str) -> str:
    """Returns the first line of pytest's text that states the error, or else its first line."""
    lines = text.splitlines()
    return next((line for line in lines if line.startswith("E  ")), lines[0])


def _print_summary(
    results: RunResults, path: Path | None, stop_reason: str | None, seconds: float
) -> None:
    for number, (title, text) in enumerate(results.failures().items()):
        print(f"\n____ {title} ____\n{text if number < _FULL_FAILURES else _error_line(text)}")
    slowest = results.slowest(_SLOWEST)
    if slowest:
        print("\nslowest tests")
        for title, duration in slowest:
            print(f"{duration:7.1f} s  {title}")
    records = list(results.records())
    print("\nrows by evidence")
    for line in report.table(records):
        print(line)
    counts = Counter(record.outcome for record in records)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"{outcomes or 'no'} records in {seconds:.0f} s")
    if path is not None:
        print(f"report: {path}")
    if results.unfinished_count:
        print(
            f"stopped: {stop_reason or 'some tests were not run'}. {results.unfinished_count} of "
            f"{len(results.expected)} tests are left"
            + ("; the same command goes on with them" if path is not None else "")
        )
