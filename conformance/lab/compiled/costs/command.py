"""The command ``python -m conformance costs``."""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import jax

from conformance.lab.compiled import compiler
from conformance.lab.compiled.costs import (
    along_rows,
    budgets,
    records,
    samples,
    scatters,
    spatial,
)
from conformance.lab.compiled.costs.case import CostCase
from conformance.lab.compiled.costs.counts import CaseCost, measure
from conformance.lab.compiled.row_calls import is_selected


def cases() -> Iterator[CostCase]:
    """Yields all cases."""
    for module in (scatters, along_rows, spatial, samples):
        yield from module.cases()


@functools.cache
def by_name() -> dict[str, CostCase]:
    """Returns all cases, by their names."""
    return {case.name: case for case in cases()}


def main(options: argparse.Namespace) -> int:
    """Counts what the options select, and returns the exit status."""
    words = [*options.words, *options.explain]
    selected = [name for name in by_name() if is_selected(name, words)]
    problem = None if selected else f"no case has {' or '.join(words)} in its name"
    if options.processes < 1:
        problem = f"-n {options.processes}: at least one process is needed"
    if problem:
        print(f"python -m conformance costs: {problem}", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(selected))
        return 0
    start = time.perf_counter()
    costs = _measure_all(selected, options.target, min(options.processes, len(selected)))
    if costs is None:
        return 2
    for each in costs:
        if any(word in each.case for word in options.explain):
            print("\n".join(["", *records.explanation(each)]))
    if options.write:
        counted = {each.case: records.data(each) for each in costs}
        records.write(counted, list(by_name()), options.target)
    failures = list(_failures(costs, complete=not words))
    for failure in failures:
        print(f"\nFAILED {failure}")
    print(f"\n{len(costs)} cases, {len(failures)} failures, {time.perf_counter() - start:.0f} s")
    return 1 if failures else 0


def _failures(costs: Sequence[CaseCost], *, complete: bool) -> Iterator[str]:
    known = budgets.known_excesses()
    for each in costs:
        yield from budgets.failures(by_name()[each.case], each, known)
    if complete:
        yield from budgets.unknown_names(known, by_name())


def _measure_all(names: Sequence[str], target: str, processes: int) -> list[CaseCost] | None:
    """Counts cases in several processes; None if nothing can be compiled here."""
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="samebits-") as folder,
        ProcessPoolExecutor(processes, context, compiler.prepare, (Path(folder),)) as pool,
    ):
        reason = pool.submit(compiler.unavailable_reason).result()
        if reason:
            print(
                f"python -m conformance costs: nothing can be compiled for a GPU here: {reason}\n"
                "`nox -s gpu_compile` installs what that needs.",
                file=sys.stderr,
            )
            return None
        costs = []
        for number, each in enumerate(pool.map(_measure, names, [target] * len(names)), 1):
            print(f"[{number}/{len(names)}] {records.line(each)}", flush=True)
            costs.append(each)
    return costs


def _measure(name: str, target: str) -> CaseCost:
    """Counts a case; runs in a process of the pool."""
    try:
        return measure(by_name()[name], target)
    finally:
        jax.clear_caches()  # The next case shares no program with this one.
