"""The command ``python -m conformance compile``: every program, for every GPU, in processes."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shlex
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import jax

import impl
import spec
from conformance.compiled import TARGETS, compiler, kernels, known, records
from conformance.compiled.programs import Tried, of_op, picked, tried
from conformance.reporting import report, sources
from conformance.suite.cells import ops_with_samples as tried_ops

#: Stands among the ops for the kernels by themselves.
KERNELS = "impl._kernels"
_INSTALL = (
    "python -m pip install jax==0.11.2 jax-cuda13-plugin==0.11.2 jax-cuda13-pjrt==0.11.2 "
    "absl-py nvidia-cuda-nvcc nvidia-nvvm"
)


def main(options: argparse.Namespace) -> int:
    """Compiles what the options say, and returns the exit status."""
    problem = _problem(options)
    tasks = [] if problem else list(_tasks(options.target or TARGETS, options.words))
    if not problem and not tasks:
        problem = f"nothing has {' or '.join(options.words)} in its name"
    if problem:
        print(f"python -m conformance compile: {problem}", file=sys.stderr)
        return 2
    begun = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with (
        # Outside: it goes after the processes that write to it.
        tempfile.TemporaryDirectory(prefix="samebits-") as folder,
        ProcessPoolExecutor(options.processes, context, compiler.prepare, (Path(folder),)) as pool,
    ):
        lacking = pool.submit(compiler.missing).result()
        if lacking:
            print(
                f"python -m conformance compile: nothing can be compiled for a GPU here: {lacking}"
                f"\nIt needs {_INSTALL}, or `nox -s gpu_compile`, which installs it.",
                file=sys.stderr,
            )
            return 2
        environment = pool.submit(_environment).result()
        try:
            found = list(_results(pool, tasks, options.words))
        except BrokenProcessPool as error:
            print(f"python -m conformance compile: {error}", file=sys.stderr)
            return 1
    unused = [] if options.words else _unused(found, tasks)
    made = list(records.records(found, known.load()))
    if options.report is not None:
        report.write(options.report, environment, made)
    return _conclude(found, made, unused, time.perf_counter() - begun)


def _problem(options: argparse.Namespace) -> str | None:
    if options.processes < 1:
        return f"-n {options.processes}: at least one process is needed"
    if options.report is not None and not options.report.absolute().parent.is_dir():
        return f"--report {options.report}: there is no folder {options.report.absolute().parent}"
    return None


def _tasks(targets: Sequence[str], words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What one process does at a time: an op and a GPU, those with most to do first."""
    counts = {op: sum(picked(str(cell), words) for cell in of_op(op)) for op in tried_ops()}
    ops = [op for op in sorted(counts, key=lambda op: -counts[op]) if counts[op]]
    alone = any(picked(str(case), words) for case in kernels.cases())
    for op in [KERNELS, *ops] if alone else ops:
        for target in targets:
            yield op, target


def _results(
    pool: ProcessPoolExecutor, tasks: Sequence[tuple[str, str]], words: Sequence[str]
) -> Iterator[Tried]:
    waiting = {pool.submit(task, op, target, words): (op, target) for op, target in tasks}
    for number, done in enumerate(as_completed(waiting), 1):
        op, target = waiting[done]
        try:
            found = done.result()
        except BrokenProcessPool as error:
            ended = ", ".join(f"{op} for {target}" for op, target in _begun(waiting))
            raise BrokenProcessPool(f"a process ended while it compiled one of {ended}") from error
        programs = {id(each.made) for each in found}
        bad = sum(bool(each.faults) for each in found)
        seconds = sum(made.seconds for made in {id(t.made): t.made for t in found}.values())
        print(
            f"[{number}/{len(tasks)}] {op} for {target}: {len(programs)} programs, "
            f"{seconds:.0f} s{f', {bad} with faults' if bad else ''}",
            flush=True,
        )
        yield from found


def _begun(waiting: dict[Future[list[Tried]], tuple[str, str]]) -> list[tuple[str, str]]:
    """The tasks that did not end by themselves and had begun, which are the first of the rest."""
    rest = [about for future, about in waiting.items() if not future.done() or future.exception()]
    return rest[: 2 * (os.cpu_count() or 1)]


def task(op: str, target: str, words: Sequence[str]) -> list[Tried]:
    """Compiles the programs of an op, or the kernels, for a GPU; in a process of the pool."""
    try:
        return kernels.tried(target, words) if op == KERNELS else tried(op, target, words)
    finally:
        jax.clear_caches()  # the next op shares nothing


def _environment() -> dict[str, str]:
    more = ("jax-cuda13-plugin", "nvidia-cuda-nvcc")
    versions = {name: report.version(name) for name in more}
    return {**report.environment(), "namespace": impl.__name__, **versions}


def _unused(found: Sequence[Tried], tasks: Sequence[tuple[str, str]]) -> list[known.Known]:
    """What is known and was not found, though it was looked for."""
    seen = [(each, fault) for each in found for fault in each.faults]
    return [
        entry
        for entry in known.load()
        if {(entry.op, target) for target in entry.targets} & set(tasks)
        and not any(entry.is_of(each, fault) for each, fault in seen)
    ]


def _conclude(
    found: Sequence[Tried],
    made: Sequence[report.Record],
    unused: Sequence[known.Known],
    seconds: float,
) -> int:
    """Says what came of it; returns the exit status."""
    failures = [*_failures(found), *map(_outdated, unused)]
    for failure in failures:
        print(f"\nFAILED {failure}")
    print()
    programs = {id(each.made): each.made for each in found}.values()
    for line in records.summary(made, list(programs)):
        print(line)
    print(f"{len(failures)} failures, {seconds:.0f} s")
    return 1 if failures else 0


def _failures(found: Iterable[Tried]) -> Iterator[str]:
    """What is wrong and not known, once for all profiles and options that have it."""
    entries = known.load()
    groups: dict[tuple[tuple[object, ...], str, str], list[Tried]] = defaultdict(list)
    for each in found:
        call = tuple(map(each.about.get, ("row", "op", "direction", "sample")))
        for fault in each.faults:
            if not any(entry.is_of(each, fault) for entry in entries):
                unnamed = each.name if "sample" not in each.about else None
                groups[(*call, unnamed), each.target, fault].append(each)
    for (_, target, fault), group in groups.items():
        name, others = group[0].name, len({each.name for each in group}) - 1
        ways = {each.by_jit for each in group}
        yield (
            f"{name} for {target}"
            + (f", and under {others} more profiles" if others else "")
            + (", with the options of impl.jit alone" if ways == {True} else "")
            + f": {fault}\nagain: python -m conformance compile --target {target} "
            + "\n".join([f"-k {shlex.quote(name)}", *_to_edit(group[0])])
        )


def _to_edit(each: Tried) -> Iterator[str]:
    """Where what is wrong may be; of a kernel by itself its name says so."""
    row, op = each.about.get("row"), each.about["op"]
    if "sample" in each.about:
        yield from sources.to_edit(spec.load().row(row) if row else None, op, impl)


def _outdated(entry: known.Known) -> str:
    return f"known.toml: {entry.op} does not say {entry.says!r} any more; remove the entry"
