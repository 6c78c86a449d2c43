"""The command ``python -m conformance tables``."""

from __future__ import annotations

import argparse
import sys

from conformance.benchmarks import tables
from conformance.benchmarks.measurements import MeasurementsError, Report


def main(options: argparse.Namespace) -> int:
    """Prints or writes the tables and plots of a report, and returns the exit status."""
    try:
        report = Report.read(options.report)
        if options.folder is None:
            print("\n".join(tables.table(report, name) for name in report.families), end="")
            return 0
        from conformance.benchmarks import plots  # noqa: PLC0415  # it needs Matplotlib

        for path in [*tables.write(report, options.folder), *plots.write(report, options.folder)]:
            print(path)
    except (OSError, MeasurementsError) as error:
        print(f"python -m conformance tables: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(
            f"python -m conformance tables: plots need {error.name}: python -m pip install "
            f"{error.name}",
            file=sys.stderr,
        )
        return 2
    return 0
