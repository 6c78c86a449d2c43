"""The run on a GPU, ``python -m conformance run --device cuda``: runs of pytest, one after another.

In the first round every test runs. A test that compares bits repeats its call many times, while
other work is in flight on the device. In each further round the tests of bits run again, in fresh
processes that compile their programs again, and their bits must equal the bits of the first round.
With ``--rounds 2 -n 6`` these are, with the plugins and the arguments of the command,

    pytest --round=1 -m again -n 6 --other-work --repeats=100 --journal=gpu.json.journal
    pytest --round=2 -m again -n 6 --repeats=3 --journal=gpu.json.journal
    pytest --round=1 -m "not again" -n 6 --other-work --repeats=100 --journal=gpu.json.journal

The tests that tell most come first. The report is made of the journal, to which each result is
written at once, so the same command continues a run that was stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import impl
from conformance.adapters.base import Adapter
from conformance.pytest_plugin.run import RAN, compared, environment_of, read
from conformance.reporting import report

#: The exit status of a run in which some tests were not run, and no test failed.
UNFINISHED = 6
#: The defaults on a GPU: the rounds, the runs whose bits are compared, and the minutes.
_ROUNDS, _REPEATS, _MINUTES = 4, 100, 8.0
#: The greatest number of runs whose bits a fresh process compares.
_FRESH_REPEATS = 3
#: The greatest number of processes that share a device by default.
_MAX_PROCESSES = 8
#: The seconds of --minutes that are kept for the start and the end of the run.
_MARGIN = 10.0
_PACKAGES, _SUFFIXES = ("spec", "impl", "conformance"), {".py", ".toml", ".ini"}


def run(
    implementation: Adapter, options: argparse.Namespace, arguments: Sequence[str], *, on_gpu: bool
) -> int:
    """Runs the suite in rounds, prints the results and writes the report.

    A GPU has other defaults of the options. The exit status is 0, 1 if a test failed,
    ``UNFINISHED``, or pytest's own status if it collected no tests.
    """
    rounds = options.rounds or (_ROUNDS if on_gpu else 1)
    repeats = options.repeats or (_REPEATS if on_gpu else None)
    minutes = options.minutes or (_MINUTES if on_gpu else None)
    deadline = None if minutes is None else time.monotonic() + minutes * 60 - _MARGIN
    environment = {
        **environment_of(implementation),
        "rounds": str(rounds),
        "repeats": "the adapter's" if repeats is None else str(repeats),
    }
    identity = {**environment, "arguments": " ".join(arguments), "sources": source_digest()}
    with _journal(options.report) as journal:
        problem = _begin(journal, identity)
        if problem:
            print(f"python -m conformance run: {problem}", file=sys.stderr)
            return 2
        status: int | None = 0
        for number, mark in _parts(read(journal), rounds):
            print(f"\nround {number} of {rounds}, tests {mark!r}", flush=True)
            words = [*arguments, f"--round={number}", "-m", mark, f"--journal={journal.absolute()}"]
            status = _run([*words, *_repeats(number, repeats)], deadline)
            if status not in RAN:  # It was stopped, or an option is wrong.
                break
        lines = read(journal)
        results = list(compared(lines))
        left = [f"{mark!r} in round {n}" for n, mark in _parts(lines, rounds)]
        note = {"left": f"some tests were not run: {', '.join(left)}"} if left else {}
        if options.report is not None:
            report.write(options.report, {**environment, **note}, results)
        if not left:
            journal.unlink()
    if not results:
        return UNFINISHED if status is None else status
    for record in results:
        if record.outcome == "failed":
            print(f"FAILED {record}: {record.detail}")
    print("\nrows by evidence", *report.table(results), sep="\n")
    counts = Counter(record.outcome for record in results)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())), "records")
    if left:
        print(note["left"] + ("; the same command goes on with them" if options.report else ""))
    if counts["failed"] or any(line.get("outcome") == "failed" for line in lines):
        return 1
    return UNFINISHED if left else 0


def _parts(lines: Sequence[Mapping[str, Any]], rounds: int) -> Iterator[tuple[int, str]]:
    """Yields the rounds and marks of tests that have not all run, those that tell most first."""
    done = {(line["round"], line["complete"]) for line in lines if "complete" in line}
    parts = [*((number, "again") for number in range(1, rounds + 1)), (1, "not again")]
    yield from (part for part in parts if part not in done)


def _repeats(number: int, repeats: int | None) -> list[str]:
    """Returns the options of the repetition in a round."""
    if number > 1:
        repeats = repeats and min(repeats, _FRESH_REPEATS)
    options = ["--other-work"] if number == 1 else []
    return options + ([] if repeats is None else [f"--repeats={repeats}"])


def _run(arguments: Sequence[str], deadline: float | None) -> int | None:
    """Runs pytest until its end or the deadline; returns its exit status, None if it was stopped.

    A round tests whether a fresh compilation gives the same bits, so no process may use the
    programs that another one compiled, and XLA picks no kernels by timing them.
    """
    # pytest-benchmark would warn that it measures nothing with pytest-xdist.
    command = [sys.executable, "-m", "pytest", "-p", "no:benchmark", *arguments]
    if importlib.util.find_spec("xdist") and not any(word.startswith("-n") for word in arguments):
        processes = max(1, min((os.cpu_count() or 1) // 2, _MAX_PROCESSES))
        command += ["-n", str(processes), "--dist", "loadgroup"]
    flags = os.environ.get("XLA_FLAGS", "")
    if not flags or flags.lstrip().startswith("--"):  # Otherwise the variable names a file.
        with impl.deterministic():
            flags = f"{impl.xla_flags()} {flags}"  # XLA takes the last value of a flag.
    environment = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false", "XLA_FLAGS": flags}
    seconds = None if deadline is None else max(0, deadline - time.monotonic())
    with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        return subprocess.run(command, env=environment, timeout=seconds, check=False).returncode  # noqa: S603  # this interpreter, with pytest
    return None


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
    lines = read(journal)
    if not lines:
        journal.write_text(json.dumps(dict(identity)) + "\n", encoding="utf-8")
        return None
    names = sorted({*lines[0], *identity})
    different = [name for name in names if lines[0].get(name) != identity.get(name)]
    if not different:
        count = sum("test" in line for line in lines)
        print(f"going on: {count} tests were run before ({journal})")
        whole = (json.dumps(line) + "\n" for line in lines)  # The last one may have been cut.
        journal.write_text("".join(whole), encoding="utf-8")
        return None
    changes = (f"{name} {lines[0].get(name)} then, {identity.get(name)} now" for name in different)
    return (
        f"{journal} holds the beginning of another run: {'; '.join(changes)}. Remove the file, or "
        "name another report by --report"
    )


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
