"""The command line of the benchmarks: ``python -m conformance.benchmarks``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType

from conformance.benchmarks import (
    convs,
    losses,
    recurrent,
    scans,
    scatter,
    selection,
    sparse,
    spatial,
)
from conformance.benchmarks.timing import Measured, machine

_LEGEND = (
    "Milliseconds, medians of {rounds} rounds in which each side ran once; in brackets, times "
    "{base}. Kept: what the ordered program needs beside its arguments and its result."
)
_BENCHMARKS: Mapping[str, ModuleType] = MappingProxyType(
    {
        module.__name__.rpartition(".")[2]: module
        for module in (convs, losses, recurrent, scans, scatter, selection, sparse, spatial)
    }
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m conformance.benchmarks", description=__doc__)
    parser.add_argument("benchmark", nargs="*", metavar="NAME", help=", ".join(_BENCHMARKS))
    parser.add_argument("--times", type=int, default=1, metavar="N", help="N times the sizes")
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="default: 30")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the table as well")
    options = parser.parse_args(arguments)
    if unknown := set(options.benchmark) - set(_BENCHMARKS):
        parser.error(f"there is no benchmark {min(unknown)!r}, but {', '.join(_BENCHMARKS)}")
    if min(options.times, options.rounds) < 1:
        parser.error("--times and --rounds must be 1 or more")
    if options.write is not None and not options.write.absolute().parent.is_dir():
        parser.error(f"--write {options.write}: there is no such folder")
    text = ""
    for benchmark in options.benchmark or _BENCHMARKS:
        table = report(benchmark, times=options.times, rounds=options.rounds)
        table = f"\n{table}" if text else table
        print(table, end="")
        text += table
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")
    return 0


def report(benchmark: str, *, times: int, rounds: int) -> str:
    """The table of a benchmark, as Markdown."""
    module = _BENCHMARKS[benchmark]
    found: list[Measured] = list(module.measure(times=times, rounds=rounds))
    case, sides = list(found[0].case), list(found[0].ms)
    lines = [
        f"# {module.TITLE}",
        "",
        _LEGEND.format(rounds=rounds, base=module.BASE),
        "",
        f"- {machine()}",
        f"- `python -m conformance.benchmarks {benchmark} --times {times} --rounds {rounds}`",
        "",
        _row([*case, *sides, "kept, bytes", "result, bytes"]),
        _row(["---"] * len(case) + ["---:"] * (len(sides) + 2)),
    ]
    for one in found:
        base = one.ms[module.BASE]
        ratios = [f"{ms:.2f} ({ms / base:.1f})" for ms in one.ms.values()]
        lines.append(_row([*one.case.values(), *ratios, f"{one.kept:,}", f"{one.result:,}"]))
    remarks: Sequence[str] = getattr(module, "REMARKS", ())
    lines += ["", *(f"- {remark}" for remark in remarks)] if remarks else []
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
