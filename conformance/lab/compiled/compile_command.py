"""The command ``python -m conformance compile``: every program for every GPU, in several processes.

A task is one op, or a program without a row, and one GPU. Each process compiles a task at a time,
and the command prints a line for each task that ends. XLA and its plugin for CUDA compile for a GPU
that is not there, so a change that races on a GPU fails on a machine without one. A fault that
several profiles have is printed once, with the command that compiles it again::

    [17/240] index_add for h200: 9 programs, 21 s, 2 with faults
    ...
    FAILED R0001-index_add-complete for h200, and under 1 more profiles: it races: ...
    again: python -m conformance compile --target h200 -k R0001-index_add-complete
    edit:  index_add in impl.ops._scatters, if the implementation is wrong
           spec/rows/index_add.toml, if a row is wrong

The numbers are made up. The exit status is 0 without failures, 1 with one, and 2 where
nothing can be compiled.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import shlex
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import jax

import impl
import spec
from conformance.lab.compiled import (
    PROGRAM_TARGETS,
    TARGETS,
    compiler,
    program_calls,
    programs,
    report_records,
)
from conformance.lab.compiled.report_records import unique_programs
from conformance.lab.compiled.row_calls import CheckedCall, check_op, gpu_cells, is_selected
from conformance.reporting import report
from conformance.suite.cells import ops_with_samples, to_edit

_INSTALL = (
    "python -m pip install jax==0.11.2 jax-cuda13-plugin==0.11.2 jax-cuda13-pjrt==0.11.2 "
    "absl-py nvidia-cuda-nvcc nvidia-nvvm"
)


@dataclasses.dataclass(frozen=True)
class Task:
    """The work that a process does at a time.

    Attributes:
        op: The op; ``program_calls.ELEMENTARY``; or the name by which ``-k`` picks a program.
        target: The name of the GPU.
    """

    op: str
    target: str

    def __str__(self) -> str:
        return f"{self.op} for {self.target}"


def main(options: argparse.Namespace) -> int:
    """Compiles what the options select, and returns the exit status."""
    problem = _problem(options)
    targets = options.target or dict.fromkeys((*TARGETS, *PROGRAM_TARGETS))
    tasks = [] if problem else list(_tasks(targets, options.words))
    if not problem and not tasks:
        problem = f"nothing has {' or '.join(options.words)} in its name"
    if problem:
        print(f"python -m conformance compile: {problem}", file=sys.stderr)
        return 2
    start = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with (
        # The folder is the outer context: the processes that write to it end first.
        tempfile.TemporaryDirectory(prefix="samebits-") as folder,
        ProcessPoolExecutor(options.processes, context, compiler.prepare, (Path(folder),)) as pool,
    ):
        reason = pool.submit(compiler.unavailable_reason).result()
        if reason:
            print(
                f"python -m conformance compile: nothing can be compiled for a GPU here: {reason}"
                f"\nIt needs {_INSTALL}, or `nox -s gpu_compile`, which installs it.",
                file=sys.stderr,
            )
            return 2
        environment = pool.submit(_environment).result()
        try:
            calls = []
            for task_calls in _run_tasks(pool, tasks, options.words):
                calls += task_calls
                if options.report is not None:
                    made = report_records.records(task_calls)
                    report.update(options.report, environment, made)
        except BrokenProcessPool as error:
            print(f"python -m conformance compile: {error} (-n 1 shows which)", file=sys.stderr)
            return 1
    records = list(report_records.records(calls))
    return _print_summary(calls, records, time.perf_counter() - start)


def _problem(options: argparse.Namespace) -> str | None:
    if options.processes < 1:
        return f"-n {options.processes}: at least one process is needed"
    if options.report is not None and not options.report.absolute().parent.is_dir():
        return f"--report {options.report}: there is no folder {options.report.absolute().parent}"
    return None


def _tasks(targets: Iterable[str], words: Sequence[str]) -> Iterator[Task]:
    """Yields the tasks: whole programs, and then the ops with the most cells first."""

    def selected(names: Iterable[str]) -> list[str]:
        return [x for x in map(program_calls.name_of, names) if is_selected(x, words)]

    counts = {
        op: sum(is_selected(str(cell), words) for cell in gpu_cells(op))
        for op in ops_with_samples()
    }
    ops = [op for op in sorted(counts, key=lambda op: -counts[op]) if counts[op]]
    elementary = [program_calls.ELEMENTARY] if selected(programs.elementary()) else []
    known = {program_calls.name_of(name): gpus for name, gpus in programs.BUDGETS.items()}
    for name in [*selected(programs.BUDGETS), *elementary, *ops]:
        yield from (Task(name, x) for x in targets if x in known.get(name, TARGETS))


def _run_tasks(
    pool: ProcessPoolExecutor, tasks: Sequence[Task], words: Sequence[str]
) -> Iterator[list[CheckedCall]]:
    """Yields the calls of each task that ended, and prints a line for it.

    Raises:
        BrokenProcessPool: A process died.
    """
    futures = {pool.submit(run_task, task, words): task for task in tasks}
    for number, future in enumerate(as_completed(futures), 1):
        task = futures[future]
        task_calls = future.result()
        programs = unique_programs(task_calls)
        fault_count = sum(bool(call.faults) for call in task_calls)
        print(
            f"[{number}/{len(tasks)}] {task}: {len(programs)} programs, "
            f"{sum(program.seconds for program in programs):.0f} s"
            f"{f', {fault_count} with faults' if fault_count else ''}",
            flush=True,
        )
        yield task_calls


def run_task(task: Task, words: Sequence[str]) -> list[CheckedCall]:
    """Compiles and checks the programs of a task; runs in a process of the pool."""
    try:
        if task.op == program_calls.ELEMENTARY:
            return program_calls.check_elementary(task.target, words)
        for name in programs.BUDGETS:
            if task.op == program_calls.name_of(name):
                return [program_calls.check_program(name, task.target)]
        return check_op(task.op, task.target, words)
    finally:
        jax.clear_caches()  # The next task shares no program with this one.


def _environment() -> dict[str, str]:
    packages = ("jax-cuda13-plugin", "nvidia-cuda-nvcc")
    versions = {name: report.version(name) for name in packages}
    return {**report.environment(), "namespace": impl.__name__, **versions}


def _print_summary(
    calls: Sequence[CheckedCall],
    records: Sequence[report.Record],
    seconds: float,
) -> int:
    """Prints the failures and the counts; returns the exit status."""
    failures = list(_failures(calls))
    for failure in failures:
        print(f"\nFAILED {failure}")
    print()
    for line in report_records.summary(records, unique_programs(calls)):
        print(line)
    print(f"{len(failures)} failures, {seconds:.0f} s")
    return 1 if failures else 0


def _failures(calls: Iterable[CheckedCall]) -> Iterator[str]:
    """Yields the faults, once for all profiles and options that have a fault."""
    groups: dict[tuple[tuple[object, ...], str, str], list[CheckedCall]] = defaultdict(list)
    for call in calls:
        fields = tuple(map(call.about.get, ("row", "op", "direction", "sample")))
        program = call.name if "sample" not in call.about else None
        for fault in call.faults:
            groups[(*fields, program), call.target, fault].append(call)
    for (_, target, fault), group in groups.items():
        name, others = group[0].name, len({call.name for call in group}) - 1
        only_by_jit = all(call.by_jit for call in group)
        yield (
            f"{name} for {target}"
            + (f", and under {others} more profiles" if others else "")
            + (", with the options of impl.jit alone" if only_by_jit else "")
            + f": {fault}\nagain: python -m conformance compile --target {target} "
            + "\n".join([f"-k {shlex.quote(name)}", *_files_to_edit(group[0])])
        )


def _files_to_edit(call: CheckedCall) -> Iterator[str]:
    """Yields the files that may cause a fault of a row's call."""
    row, op = call.about.get("row"), call.about["op"]
    if "sample" in call.about:
        yield from to_edit(spec.load().row(row) if row else None, op, impl)
