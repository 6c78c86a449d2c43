"""What ``python -m conformance run`` does where its tests are shared by processes."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from conformance.adapters.base import Adapter as Implementation
from conformance.pytest_plugin import records
from conformance.reporting import report
from conformance.rounds import plan
from conformance.rounds.findings import Findings
from conformance.rounds.journal import Folder, OtherRunError, sources
from conformance.rounds.options import UNFINISHED, Asked
from conformance.rounds.processes import Settings
from conformance.rounds.runner import Runner, report_writer

#: Runs whose bits are compared in a fresh process, where more are in the first.
_AGAIN = 3
#: Failures of which everything is printed; of the others the report says more.
_IN_FULL = 5
_NOT_XDIST = "-n is for a run on a CPU; --processes N says how many processes share the tests"
#: Seconds that starting and ending take, out of the minutes.
_MARGIN = 10.0


def run(
    tried: Implementation,
    how: Asked,
    arguments: Sequence[str],
    path: Path | None,
    *,
    since: float,
) -> int:
    """Runs the suite in rounds and prints what was found.

    Args:
        tried: What is tried.
        how: How the run is made.
        arguments: Those of pytest, without a report.
        path: Where to write the report; None for nowhere.
        since: When the run began, by ``time.monotonic``.

    Returns:
        The exit status: 0, 1 where a test failed, ``UNFINISHED``, or pytest's own where it found
        no tests to run.
    """
    if any(word.startswith("-n") for word in arguments):
        print(f"python -m conformance run: {_NOT_XDIST}", file=sys.stderr)
        return 2
    status, said, collected = plan.collect(arguments)
    if status != 0:
        print(said, file=sys.stderr)
        return status
    environment = {**records.environment_of(tried), **_about(how), "sources": sources(tried.name)}
    findings = Findings(plan.wanted(collected.tests, how.rounds), tried.name)
    try:
        with _folder(path, _identity(environment, arguments)) as folder:
            for found in folder.finished():
                findings.add(found)
            if findings.done:
                print(f"going on: {len(findings.done)} tests were run before ({folder.path})")
            runner = Runner(
                findings,
                _settings(how, arguments),
                folder,
                report_writer(findings, path, environment),
                deadline=None if how.minutes is None else since + how.minutes * 60 - _MARGIN,
                limit=collected.limit,
            )
            runner.run(plan.jobs(collected.tests, how.rounds, how.processes, findings.done))
            folder.close(complete=findings.left == 0)
    except OtherRunError as error:
        print(f"python -m conformance run: {error}", file=sys.stderr)
        return 2
    _summary(findings, path, runner.why, time.monotonic() - since)
    if findings.failures():
        return 1
    return UNFINISHED if findings.left else 0


def _settings(how: Asked, arguments: Sequence[str]) -> Settings:
    again = None if how.repeats is None else min(how.repeats, _AGAIN)
    return Settings(tuple(arguments), how.repeats, again, how.processes)


def _about(how: Asked) -> dict[str, str]:
    runs = "the adapter's" if how.repeats is None else str(how.repeats)
    return {"rounds": str(how.rounds), "repeats": runs, "processes": str(how.processes)}


def _identity(environment: Mapping[str, str], arguments: Sequence[str]) -> dict[str, str]:
    """What decides the results of a run: not how many processes share it, nor where files are."""
    kept = {name: value for name, value in environment.items() if name != "processes"}
    words = [word for word in arguments if str(Path(__file__).parents[1]) not in word]
    for place, word in enumerate(words):
        option, _, value = word.partition("=")
        if option == "--expectations":
            words[place] = f"{option}={hashlib.sha256(Path(value).read_bytes()).hexdigest()}"
    return {**kept, "arguments": " ".join(words)}


@contextlib.contextmanager
def _folder(path: Path | None, identity: Mapping[str, str]) -> Iterator[Folder]:
    """The folder beside the report; without a report, one for this run alone."""
    if path is not None:
        yield Folder(path.with_name(f"{path.name}.parts"), identity)
        return
    with tempfile.TemporaryDirectory(prefix="samebits-") as made:
        yield Folder(Path(made), identity)


def _brief(text: str) -> str:
    """Of what pytest says of a failure the line that says what went wrong."""
    lines = text.splitlines()
    return next((line for line in lines if line.startswith("E  ")), lines[0])


def _summary(findings: Findings, path: Path | None, why: str | None, seconds: float) -> None:
    failures = findings.failures()
    for title, text in list(failures.items())[:_IN_FULL]:
        print(f"\n____ {title} ____\n{text}")
    for title, text in list(failures.items())[_IN_FULL:]:
        print(f"\n____ {title} ____\n{_brief(text)}")
    records = list(findings.records())
    print("\nrows by evidence")
    for line in report.table(records):
        print(line)
    counts = Counter(record.outcome for record in records)
    said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"{said or 'no'} records in {seconds:.0f} s")
    if path is not None:
        print(f"report: {path}")
    if findings.left:
        print(
            f"stopped: {why or 'some tests were not run'}. {findings.left} of "
            f"{len(findings.wanted)} tests are left"
            + ("; the same command goes on with them" if path is not None else "")
        )
