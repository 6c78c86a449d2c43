"""The command ``python -m conformance run`` in rounds: runs of pytest, those that tell most first.

With ``--rounds 2 --processes 6`` it runs, with the plugins and the arguments of the command,

    pytest --round=1 -m again -n 6 --background-work --repeats=100 --journal=gpu.json.journal
    pytest --round=2 -m again -n 6 --repeats=3 --journal=gpu.json.journal
    pytest --round=1 -m "not again" -n 6 --background-work --repeats=100 --journal=...

and makes the report of the journal. A run that was stopped left out some of them, or a part of one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from conformance.adapters.base import Adapter
from conformance.hardware import plugin
from conformance.hardware.options import UNFINISHED, RoundOptions
from conformance.pytest_plugin import records
from conformance.reporting import report
from conformance.reporting.report import Record

#: The greatest number of runs whose bits a fresh process compares.
_FRESH_REPEATS = 3
#: The slowest tests that each round prints.
_SLOWEST = 10
#: The seconds of --minutes that are kept for the start and the end of the run.
_MARGIN = 10.0
#: The seconds that a round has to end by itself after it was asked to.
_GRACE = 5.0
_PACKAGES, _SUFFIXES = ("spec", "impl", "conformance"), {".py", ".toml", ".ini"}


def run(
    implementation: Adapter,
    options: RoundOptions,
    arguments: Sequence[str],
    path: Path | None,
    *,
    start_time: float,
) -> int:
    """Runs the suite in rounds, prints the results and writes the report.

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
    problem = None
    if any(argument.startswith("-n") for argument in arguments):
        problem = "-n is for a run on a CPU; --processes N says how many processes share the tests"
    elif importlib.util.find_spec("xdist") is None:
        problem = "several processes need pytest-xdist: python -m pip install pytest-xdist"
    environment = {**records.environment_of(implementation), **_environment(options)}
    identity = {**environment, "arguments": " ".join(arguments), "sources": source_digest()}
    with _journal(path) as journal:
        problem = problem or _begin(journal, identity)
        if problem:
            print(f"python -m conformance run: {problem}", file=sys.stderr)
            return 2
        deadline = options.minutes and start_time + options.minutes * 60 - _MARGIN
        status = _run_rounds(journal, options, arguments, deadline)
        lines = plugin.read(journal)
        results = list(compared(lines, implementation.name))
        left = [f"{mark!r} in round {n}" for n, mark in _parts(lines, options.rounds)]
        note = {"left": f"some tests were not run: {', '.join(left)}"} if left else {}
        if path is not None:
            report.write(path, {**environment, **note}, results)
        if not left:
            journal.unlink()
    if not results:
        return status
    failures = [record for record in results if record.outcome == "failed"]
    for record in failures:
        print(f"FAILED {record}: {record.detail}")
    print("\nrows by evidence", *report.table(results), sep="\n")
    counts = Counter(record.outcome for record in results)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())), "records")
    if left:
        print(f"{note['left']}; the same command goes on with them" if path else note["left"])
    is_failed = failures or any(line.get("outcome") == "failed" for line in lines)
    return 1 if is_failed else UNFINISHED if left else 0


def _run_rounds(
    journal: Path, options: RoundOptions, arguments: Sequence[str], deadline: float | None
) -> int:
    """Runs the parts that are not complete, one after another; returns the last exit status."""
    status = 0
    for number, mark in _parts(plugin.read(journal), options.rounds):
        command = [sys.executable, "-m", "pytest", *arguments, f"--round={number}"]
        command += [f"--journal={journal.absolute()}", f"--durations={_SLOWEST}"]
        command += ["-n", str(options.processes), "--dist", "loadgroup", "-m", mark]
        repeats = options.repeats
        if number == 1:
            command.append("--background-work")
        else:
            repeats = repeats and min(repeats, _FRESH_REPEATS)
        command += [f"--repeats={repeats}"] if repeats else []
        print(f"\nround {number} of {options.rounds}, tests {mark!r}", flush=True)
        status = _run(command, options.processes, deadline)
        if status not in plugin.RAN:  # It was stopped, or an option is wrong.
            break
    return status


def _parts(lines: Sequence[Mapping[str, Any]], rounds: int) -> Iterator[tuple[int, str]]:
    """Yields the rounds and marks of tests that have not all run, those that tell most first."""
    done = {(line["round"], line["complete"]) for line in lines if "complete" in line}
    parts = [*((number, "again") for number in range(1, rounds + 1)), (1, "not again")]
    yield from (part for part in parts if part not in done)


def _run(command: Sequence[str], processes: int, deadline: float | None) -> int:
    """Runs a round until its end or the deadline; returns the exit status of pytest."""
    with subprocess.Popen(command, env=_variables(processes)) as process, _sigterm_as_interrupt():  # noqa: S603  # this interpreter, with pytest
        try:
            return process.wait(None if deadline is None else max(0, deadline - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(_GRACE)
            process.kill()
            return int(signal.SIGINT)


def _variables(processes: int) -> dict[str, str]:
    """Returns the environment of a round: a share of the device's memory, and no caches.

    A round tests whether a fresh compilation gives the same bits, so no process may use the
    programs that another one compiled.
    """
    environment = dict(os.environ)
    # JAX accepts either name for the fraction, and refuses both together.
    if not {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"} & set(environment):
        environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 / processes:.2f}"
    environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return {**environment, "JAX_ENABLE_COMPILATION_CACHE": "false"}


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Turns SIGTERM into KeyboardInterrupt, so that the report is written at either signal."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _journal(path: Path | None) -> Iterator[Path]:
    """Yields the journal next to the report or, without a report, a temporary one."""
    if path is not None:
        yield path.with_name(f"{path.name}.journal")
        return
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        yield Path(folder) / "journal"


def _begin(journal: Path, identity: Mapping[str, str]) -> str | None:
    """Begins a journal, or returns why the run that it holds cannot be continued.

    A run whose code, data, versions or arguments differ would mix two results in one report.
    """
    lines = plugin.read(journal)
    if not lines:
        journal.write_text(json.dumps(dict(identity)) + "\n", encoding="utf-8")
        return None
    before = lines[0]
    different = [
        name for name in sorted({*before, *identity}) if before.get(name) != identity.get(name)
    ]
    if not different:
        print(
            f"going on: {sum('test' in line for line in lines)} tests were run before ({journal})"
        )
        return None
    changes = (f"{name} {before.get(name)} then, {identity.get(name)} now" for name in different)
    return (
        f"{journal} holds the beginning of another run: {'; '.join(changes)}. Remove the file, or "
        "name another report by --report"
    )


def _environment(options: RoundOptions) -> dict[str, str]:
    repeats = "the adapter's" if options.repeats is None else str(options.repeats)
    return {"rounds": str(options.rounds), "repeats": repeats}


def source_digest() -> str:
    """Returns a SHA-256 of the code and data of the packages that decide the results of a run."""
    digest = hashlib.sha256()
    for name in _PACKAGES:
        root = Path(str(importlib.import_module(name).__file__)).parent
        for path in sorted(root.rglob("*")):
            if path.suffix in _SUFFIXES and "tests" not in path.relative_to(root).parts:
                digest.update(f"{path.name} {path.stat().st_size}\n".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def compared(lines: Sequence[Mapping[str, Any]], namespace: str) -> Iterator[Record]:
    """Yields the records of a journal. Records of a fresh process are compared with round 1.

    Args:
        lines: The lines of the journal.
        namespace: The name of the implementation under test, for the command that reruns a row.
    """
    first: dict[tuple[str, str | None], str | None] = {}
    for line in sorted((line for line in lines if "test" in line), key=lambda line: line["round"]):
        for record in (Record(**fields) for fields in line["records"]):
            key = line["test"], record.lowering
            if line["round"] == 1:
                first[key] = record.sha256
            bits = first.get(key)
            if record.outcome != "passed" or None in (record.sha256, bits) or record.sha256 == bits:
                yield record
                continue
            detail = (
                f"{record.row}: a fresh process gives the bits {record.sha256}, the first one gave "
                f"{bits}; alone: {rerun_command(record, namespace)}"
            )
            yield dataclasses.replace(record, outcome="failed", detail=detail)


def rerun_command(record: Record, namespace: str = "impl") -> str:
    """Returns the command that runs the tests of a record's row, op and profile alone."""
    parts = (record.row, record.op, record.direction, record.device, record.profile)
    name = "-".join(part or "unlisted" for part in parts)
    option = "" if namespace == "impl" else f" --namespace {namespace}"
    return f'python -m conformance run --device {record.device}{option} -k "{name}"'
