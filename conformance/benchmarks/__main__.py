"""The command line of the benchmarks: ``python -m conformance.benchmarks``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType

from conformance.benchmarks import (
    convs,
    elementary,
    exact_products,
    exact_sums,
    libraries,
    losses,
    portable,
    programs,
    recurrent,
    scans,
    scatter,
    selection,
    sparse,
    spatial,
)
from conformance.benchmarks.timing import Measurement, machine
from conformance.benchmarks.torch_peer import torch_peer

_LEGEND = (
    "Milliseconds: medians of {rounds} rounds in which each side ran once. In brackets: the ratio "
    "to {base}. Temporary: the memory of the ordered program beside its arguments and its result."
)
_BENCHMARKS: Mapping[str, ModuleType] = MappingProxyType(
    {
        module.__name__.rpartition(".")[2]: module
        for module in (
            convs,
            exact_products,
            elementary,
            exact_sums,
            libraries,
            losses,
            portable,
            programs,
            recurrent,
            scans,
            scatter,
            selection,
            sparse,
            spatial,
        )
    }
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m conformance.benchmarks", description=__doc__)
    parser.add_argument("benchmark", nargs="*", metavar="NAME", help=", ".join(_BENCHMARKS))
    parser.add_argument("--times", type=int, default=1, metavar="N", help="N times the sizes")
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="default: 30")
    parser.add_argument(
        "--write", type=Path, metavar="FILE.md", help="also write the tables to a file"
    )
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
        print(table, end="", flush=True)
        text += table
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")
    return 0


def report(benchmark: str, *, times: int, rounds: int) -> str:
    """Measures a benchmark and returns its table, as Markdown."""
    module = _BENCHMARKS[benchmark]
    with torch_peer(
        deterministic_on_gpu=getattr(module, "TORCH_DETERMINISTIC_ON_GPU", True)
    ) as torch:
        measurements: list[Measurement] = list(
            module.measure(times=times, rounds=rounds, torch=torch)
        )
    columns, sides = list(measurements[0].case), list(measurements[0].ms)
    lines = [
        f"# {module.TITLE}",
        "",
        _LEGEND.format(rounds=rounds, base=module.BASE),
        "",
        f"- {machine()}",
        f"- `python -m conformance.benchmarks {benchmark} --times {times} --rounds {rounds}`",
        "",
        _row([*columns, *sides, "temporary, bytes", "result, bytes"]),
        _row(["---"] * len(columns) + ["---:"] * (len(sides) + 2)),
    ]
    for measurement in measurements:
        base = measurement.ms[module.BASE]
        ratios = [f"{ms:.2f} ({ms / base:.1f})" for ms in measurement.ms.values()]
        sizes = [f"{measurement.temporary_bytes:,}", f"{measurement.result_bytes:,}"]
        lines.append(_row([*measurement.case.values(), *ratios, *sizes]))
    remarks: Sequence[str] = getattr(module, "REMARKS", ())
    lines += ["", *(f"- {remark}" for remark in remarks)] if remarks else []
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
