"""The command line of the benchmarks: ``python -m conformance.benchmarks``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from conformance.benchmarks import scatter
from conformance.benchmarks.timing import machine

_LEGEND = (
    "Milliseconds, medians of {rounds} rounds in which each side ran once; in brackets, times "
    "{plain}. Kept: what the ordered program needs beside its arguments and its result."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m conformance.benchmarks", description=__doc__)
    parser.add_argument("--times", type=int, default=1, metavar="N", help="N times the sizes")
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="default: 30")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the table as well")
    options = parser.parse_args(arguments)
    if min(options.times, options.rounds) < 1:
        parser.error("--times and --rounds must be 1 or more")
    if options.write is not None and not options.write.absolute().parent.is_dir():
        parser.error(f"--write {options.write}: there is no such folder")
    text = report(scatter.measure(times=options.times, rounds=options.rounds), options)
    print(text, end="")
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")
    return 0


def report(measured: Iterable[scatter.Measured], options: argparse.Namespace) -> str:
    """The table, as Markdown."""
    found = list(measured)
    sides = list(found[0].ms)
    lines = [
        "# index_add, float32",
        "",
        _LEGEND.format(rounds=options.rounds, plain=scatter.PLAIN),
        "",
        f"- {machine()}",
        f"- `python -m conformance.benchmarks --times {options.times} --rounds {options.rounds}`",
        "",
        _row(["destinations", "contributions", "width", *sides, "kept, bytes", "result, bytes"]),
        _row(["---:"] * (len(sides) + 5)),
    ]
    for one in found:
        plain = one.ms[scatter.PLAIN]
        times = [f"{ms:.2f} ({ms / plain:.1f})" for ms in one.ms.values()]
        sizes = [f"{n:,}" for n in (*one.size, one.kept, one.destination)]
        lines.append(_row([*sizes[:3], *times, *sizes[3:]]))
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
