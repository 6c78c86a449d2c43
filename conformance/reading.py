"""The commands that read reports: ``python -m conformance show`` and ``diff``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from conformance import report


def show(options: argparse.Namespace) -> int:
    """Prints a report: what it was made with, the rows by evidence, and what failed.

    Returns:
        The exit status: 0, 1 where a check failed, 2 where the file cannot be read.
    """
    try:
        shown = report.read(options.report)
    except report.ReportError as error:
        return _unreadable("show", error)
    print(f"made {shown.made}")
    for name, value in shown.environment.items():
        print(f"  {name} {value}")
    outcomes = Counter(record.outcome for record in shown.records)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    print()
    for line in report.table(shown.records):
        print(line)
    failed = [record for record in shown.records if record.outcome == "failed"]
    for record in failed:
        print(f"failed: {record}" + (f": {record.detail}" if record.detail else ""))
    return 1 if failed else 0


def diff(options: argparse.Namespace) -> int:
    """Prints what is weaker in a report than in an earlier one, and which bits are others.

    Returns:
        The exit status: 0 where nothing is, 1 where something is, 2 where a file cannot be read.
    """
    try:
        old, new = report.read(options.old), report.read(options.new)
    except report.ReportError as error:
        return _unreadable("diff", error)
    for name in sorted({*old.environment, *new.environment}):
        before, now = old.environment.get(name), new.environment.get(name)
        if before != now:
            print(f"{name}: {before} before, {now} now")
    lines = list(report.difference(old, new))
    for line in lines:
        print(line)
    print(f"{len(lines)} finding(s)" if lines else "nothing is weaker, and no bits are others")
    return 1 if lines else 0


def _unreadable(command: str, error: Exception) -> int:
    print(f"python -m conformance {command}: {error}", file=sys.stderr)
    return 2
