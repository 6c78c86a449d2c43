"""The commands that read reports: ``show``, ``diff``, ``differences`` and ``expectations``.

They return the exit status. If a file cannot be read, the error goes to the caller.
"""

from __future__ import annotations

import argparse
from collections import Counter

from conformance.reporting import report as reports


def show(options: argparse.Namespace) -> int:
    """Prints a report: its environment, the rows by evidence, and failures; returns 1 for any."""
    report = reports.read(options.report)
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

    Returns 1 if there are any.
    """
    old, new = reports.read(options.old), reports.read(options.new)
    for name in sorted({*old.environment, *new.environment}):
        before, now = old.environment.get(name), new.environment.get(name)
        if before != now:
            print(f"{name}: {before} before, {now} now")
    lines = list(reports.difference(old, new))
    for line in lines:
        print(line)
    print(f"{len(lines)} finding(s)" if lines else "nothing is weaker, and no bits differ")
    return 1 if lines else 0


def differences(options: argparse.Namespace) -> int:
    """Prints the differences from PyTorch's documents."""
    from conformance.reporting import pytorch_differences  # noqa: PLC0415  # it reads the samples

    print(pytorch_differences.markdown(options.report), end="")
    return 0


def rewrite(options: argparse.Namespace) -> int:
    """Brings a file of expectations up to date with a report."""
    from conformance.reporting import expectations  # noqa: PLC0415  # it needs packaging

    print(expectations.rewrite(options.rewrite, options.report))
    return 0
