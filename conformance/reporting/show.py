"""The commands that read reports: ``python -m conformance show`` and ``diff``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from conformance.reporting import report as reports


def show(options: argparse.Namespace) -> int:
    """Prints a report: its environment, the rows by evidence, and the checks that failed.

    Returns:
        The exit status: 0, 1 where a check failed, 2 where the file cannot be read.
    """
    try:
        report = reports.read(options.report)
    except reports.ReportError as error:
        return _unreadable("show", error)
    print(f"made {report.made}")
    for name, value in report.environment.items():
        print(f"  {name} {value}")
    outcomes = Counter(record.outcome for record in report.records)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    print()
    for line in reports.table(report.records):
        print(line)
    failed = [record for record in report.records if record.outcome == "failed"]
    for record in failed:
        print(f"failed: {record}" + (f": {record.detail}" if record.detail else ""))
    return 1 if failed else 0


def diff(options: argparse.Namespace) -> int:
    """Prints the rows whose evidence is weaker than in an earlier report, and the changed bits.

    Returns:
        The exit status: 0 without a finding, 1 with one, 2 where a file cannot be read.
    """
    try:
        old, new = reports.read(options.old), reports.read(options.new)
    except reports.ReportError as error:
        return _unreadable("diff", error)
    for name in sorted({*old.environment, *new.environment}):
        before, now = old.environment.get(name), new.environment.get(name)
        if before != now:
            print(f"{name}: {before} before, {now} now")
    lines = list(reports.difference(old, new))
    for line in lines:
        print(line)
    print(f"{len(lines)} finding(s)" if lines else "nothing is weaker, and no bits differ")
    return 1 if lines else 0


def _unreadable(command: str, error: Exception) -> int:
    print(f"python -m conformance {command}: {error}", file=sys.stderr)
    return 2
