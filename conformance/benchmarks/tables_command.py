"""The command ``python -m conformance tables``."""

from __future__ import annotations

import argparse
import sys

from conformance.benchmarks import tables
from conformance.benchmarks.measurements import MeasurementsError, Report


def main(options: argparse.Namespace) -> int:
    """Prints the tables of a report, and returns the exit status."""
    try:
        report = Report.read(options.report)
    except (OSError, MeasurementsError) as error:
        print(f"python -m conformance tables: {error}", file=sys.stderr)
        return 2
    print("\n".join(tables.table(report, family) for family in report.families.values()), end="")
    return 0
