"""``python -m conformance.mutants``: breaks a copy of the checkout, again and again.

The exit status is 0 where the tests found every mutant, 1 where they did not, and 2 where what was
asked for makes no sense.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.mutants import FOLDER, Mutant, read, running

_ROOT = Path(__file__).parents[2]
#: What is broken runs on the CPU, also where there is something else.
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu"}


def main(
    arguments: Sequence[str] | None = None,
    *,
    root: Path = _ROOT,
    folder: Path = FOLDER,
    packages: Sequence[str] = ("spec", "impl", "conformance"),
) -> int:
    """Tries mutants and returns the exit status.

    Args:
        arguments: Of the command line.
        root: The checkout.
        folder: Where the mutants are.
        packages: What has to be imported from a copy of the checkout.
    """
    parser = argparse.ArgumentParser(
        prog="python -m conformance.mutants",
        description="Breaks copies of the checkout on purpose: the tests have to find each.",
    )
    parser.add_argument(
        "-k", metavar="NAME", action="append", help="only mutants whose name contains one of these"
    )
    parser.add_argument(
        "-n", type=int, metavar="N", default=os.cpu_count(), help="so many at once; default: cores"
    )
    options = parser.parse_args(arguments)
    if options.n < 1:
        parser.error(f"-n {options.n}: it takes at least one at a time")
    try:
        mutants = _chosen(root, folder, options.k)
        files = running.tracked(root)
    except ValueError as error:
        parser.error(str(error))
    with running.Copies(root, files, options.n, _ENVIRONMENT) as copies:
        try:
            copies.check(packages)
        except ValueError as error:
            parser.error(str(error))
        return _try(copies, mutants)


def _chosen(root: Path, folder: Path, names: Sequence[str] | None) -> list[Mutant]:
    every = read(folder)
    for name in names or ():
        if not any(name in mutant.name for mutant in every):
            raise ValueError(f"-k {name}: of {len(every)} mutants none has that in its name")
    chosen = [m for m in every if names is None or any(name in m.name for name in names)]
    for mutant in chosen:
        mutant.broken(root)
    return chosen


def _try(copies: running.Copies, mutants: Sequence[Mutant]) -> int:
    start = time.monotonic()
    commands = {mutant.run for mutant in mutants}
    print(f"{len(commands)} commands, with nothing broken:")
    took = running.baseline(copies, mutants, lambda text: print(text, flush=True))
    if len(took) < len(commands):
        print(
            f"\n{len(commands) - len(took)} of {len(commands)} commands fail with nothing broken, "
            "so that every mutant would seem to be found; mend that first"
        )
        return 1
    print(f"\n{len(mutants)} mutants:")
    results = []
    for result in running.attempt(copies, mutants, took):
        results.append(result)
        print(
            f"{result.verdict:8} {result.seconds:5.1f} s  {result.mutant.name}: {result.detail}",
            flush=True,
        )
    wrong = [result for result in results if result.verdict != "killed"]
    print(f"\n{len(results) - len(wrong)} of {len(results)} mutants were found", end="")
    print(f" ({time.monotonic() - start:.0f} s)")
    for result in wrong:
        print(f"{result.verdict}: {result.mutant.name}: {result.mutant.why}")
    return 1 if wrong else 0


if __name__ == "__main__":
    # What ends it in another way than Ctrl-C leaves nothing behind either.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
