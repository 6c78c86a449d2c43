"""The cost of the ordered path: ``python -m conformance bench``.

``bench`` measures the families of cases and writes a report; ``tables`` prints tables of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: The module of each family.
FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("convs", "scans", "selection", "spatial"), "calls"),
    **dict.fromkeys(("elementary", "exact_sums"), "calls"),
    **dict.fromkeys(("exact_products", "libraries", "portable"), "whole"),
    "overheads": "overheads",
    **dict.fromkeys(("losses", "recurrent", "scatter", "sparse"), "ops"),
}


def add_commands(commands: Any) -> None:
    """Adds the commands to the parsers of ``python -m conformance``."""
    bench_parser = commands.add_parser("bench", help="measure the cost of the ordered path")
    bench_parser.add_argument(
        "--family",
        action="append",
        choices=FAMILIES,
        metavar="F",
        help=f"may be given again; default: all of {', '.join(FAMILIES)}",
    )
    bench_parser.add_argument(
        "--quick", action="store_true", help="fewer and smaller cases, in at most 8 minutes"
    )
    bench_parser.add_argument(
        "--report", type=Path, metavar="FILE.json", help="write the measurements to a file"
    )
    tables_parser = commands.add_parser("tables", help="print the tables of a report of `bench`")
    tables_parser.add_argument("report", type=Path, metavar="FILE.json", help="what `bench` wrote")


def run_bench(options: argparse.Namespace) -> int:
    """Runs ``bench`` and returns its exit status."""
    from conformance.benchmarks import bench_command  # noqa: PLC0415  # it imports JAX

    return bench_command.bench(options)


def print_tables(options: argparse.Namespace) -> int:
    """Runs ``tables`` and returns its exit status."""
    from conformance.benchmarks.measurements import Report, table  # noqa: PLC0415  # as above

    report = Report.read(options.report)
    print("\n".join(table(report, family) for family in report.families.values()), end="")
    return 0
