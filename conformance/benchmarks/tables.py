"""The tables of a report of the benchmarks, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.benchmarks import machine
from conformance.benchmarks.measurements import Family, Measurement, Report

_LEGEND = (
    "Milliseconds: medians of rounds in which each side ran once. In brackets: the ratio to {base}."
)
_LEGEND_OF_COPY = (
    "Spread: the distance of the quartiles of {ours}, divided by its median. Times a copy: its "
    "median divided by the time of a copy of its arguments and result. Temporary: its memory "
    "besides these."
)


def table(report: Report, family: Family) -> str:
    """Returns the table of a family of a report."""
    sides = list(dict.fromkeys(side for each in family.measurements for side in each.sides))
    refused = {m.refused[s] for m in family.measurements for s in m.refused}
    columns = list(dict.fromkeys(column for each in family.measurements for column in each.case))
    more = ["spread", "GB/s", "times a copy", "temporary, bytes"]
    legend = _LEGEND.format(base=family.base), _LEGEND_OF_COPY.format(ours=family.ours)
    lines = [
        f"# {family.title}",
        "",
        " ".join(legend),
        "",
        f"- {machine.line(report.environment)}",
        f"- `{report.command}`, {report.made[:10]}",
        "",
        _row([*columns, *sides, *more]),
        _row(["---"] * len(columns) + ["---:"] * (len(sides) + len(more))),
    ]
    for each in family.measurements:
        cells = [each.case.get(column, "") for column in columns]
        cells += [_time(each, side, family.base) for side in sides]
        lines.append(_row([*cells, *_of_ours(each, family)]))
    remarks = [*family.remarks, *(f"Refused: {message}" for message in sorted(refused))]
    lines += ["", *(f"- {remark}" for remark in remarks)] if remarks else []
    return "\n".join(lines) + "\n"


def _time(measurement: Measurement, side: str, base: str) -> str:
    times = measurement.sides.get(side)
    if times is None:
        return "refused" if side in measurement.refused else ""
    text = f"{times.median:.3g}" if times.median < 100 else f"{times.median:.0f}"
    if base not in measurement.sides:
        return text
    return f"{text} ({times.median / measurement.sides[base].median:.1f})"


def _of_ours(measurement: Measurement, family: Family) -> list[str]:
    times = measurement.sides[family.ours]
    rate, copied = measurement.gigabytes_per_second(family.ours), measurement.copy_ms
    return [
        f"{(times.high - times.low) / times.median:.0%}",
        "" if rate is None else f"{rate:.1f}",
        "" if copied is None else f"{times.median / copied:.1f}",
        "" if measurement.temporary_bytes is None else f"{measurement.temporary_bytes:,}",
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
