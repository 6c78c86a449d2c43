"""The command ``python -m conformance.lab.mutants``: it makes each fault in a copy of the checkout.

The exit status is 0 if the tests found every mutant, 1 if they did not, and 2 if the options make
no sense.
"""

from __future__ import annotations

import argparse
import heapq
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.lab.mutants.copies import CheckoutCopies, tracked_files
from conformance.lab.mutants.mutant import FOLDER, Mutant, read
from conformance.lab.mutants.verdicts import MutantResult, run_baseline, run_mutants

_ROOT = Path(__file__).parents[3]
#: The tests run on the CPU, even if there is another device.
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu"}
#: The slowest mutants that are printed.
_SLOWEST = 10


def main(
    arguments: Sequence[str] | None = None,
    *,
    root: Path = _ROOT,
    folder: Path = FOLDER,
    packages: Sequence[str] = ("spec", "impl", "conformance"),
) -> int:
    """Runs the mutants and returns the exit status.

    Args:
        arguments: The arguments of the command line.
        root: The checkout.
        folder: The folder of the mutants.
        packages: The packages that Python must import from a copy of the checkout.
    """
    parser = argparse.ArgumentParser(
        prog="python -m conformance.lab.mutants",
        description="Breaks copies of the checkout on purpose: the tests have to find each.",
    )
    parser.add_argument(
        "-k", metavar="NAME", action="append", help="only mutants whose name contains one of these"
    )
    parser.add_argument(
        "-n",
        type=int,
        metavar="N",
        default=os.cpu_count(),
        help="at once; default: one a core",
    )
    options = parser.parse_args(arguments)
    if options.n < 1:
        parser.error(f"-n {options.n}: it takes at least one at a time")
    try:
        mutants = select(read(folder), options.k)
        for mutant in mutants:
            mutant.broken_text(root)
        files = tracked_files(root)
    except ValueError as error:
        parser.error(str(error))
    with CheckoutCopies(root, files, options.n, _ENVIRONMENT) as copies:
        try:
            copies.check_imports(packages)
        except ValueError as error:
            parser.error(str(error))
        return _run(copies, mutants)


def select(mutants: Sequence[Mutant], words: Sequence[str] | None) -> list[Mutant]:
    """Returns the mutants whose name contains one of the words, or all if ``words`` is None.

    Raises:
        ValueError: No name contains one of the words.
    """
    for word in words or ():
        if not any(word in mutant.name for mutant in mutants):
            raise ValueError(f"-k {word}: of {len(mutants)} mutants none has that in its name")
    return [m for m in mutants if words is None or any(word in m.name for word in words)]


def _run(copies: CheckoutCopies, mutants: Sequence[Mutant]) -> int:
    start = time.monotonic()
    commands = {mutant.run for mutant in mutants}
    print(f"{len(commands)} commands, with nothing broken:")
    baseline = run_baseline(copies, mutants, lambda text: print(text, flush=True))
    if len(baseline) < len(commands):
        print(
            f"\n{len(commands) - len(baseline)} of {len(commands)} commands fail with nothing "
            "broken, so that every mutant would seem to be found; mend that first"
        )
        return 1
    print(f"\n{len(mutants)} mutants:")
    results = []
    for result in run_mutants(copies, mutants, baseline):
        results.append(result)
        print(
            f"[{len(results)}/{len(mutants)}] {result.verdict:8} {result.seconds:5.1f} s  "
            f"{result.mutant.name}: {result.detail}",
            flush=True,
        )
    return _print_summary(results, time.monotonic() - start)


def _print_summary(results: Sequence[MutantResult], seconds: float) -> int:
    """Prints the slowest mutants and those that were not found; returns the exit status."""
    print("\nslowest:")
    for result in heapq.nlargest(_SLOWEST, results, key=lambda result: result.seconds):
        print(f"{result.seconds:7.1f} s  {result.mutant.name}")
    missed = [result for result in results if result.verdict != "killed"]
    print(f"\n{len(results) - len(missed)} of {len(results)} mutants were found ({seconds:.0f} s)")
    for result in missed:
        print(f"{result.verdict}: {result.mutant.name}: {result.mutant.why}")
    return 1 if missed else 0


if __name__ == "__main__":
    # Raise KeyboardInterrupt at SIGTERM too, so that the copies are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
