"""The cost of an op or a primitive, from the reports of benchmarks and of compiled programs.

A reader of a page wants to know the price of the mode before they turn it on. ``card`` gives the
price in a few lines, and ``section`` gives a table of all sizes. Suppose that two benchmarks of
``index_add`` took 0.67 and 4 times the time of the fast path on a CPU, and that its code was
compiled for an H200. The card is::

    **on a CPU**, measured: 0.67 to 4.0 times the time of plain `.at[].add`
    **on a GPU**, as compiled for an H200: 15 launches, ...; with the mode off 2 launches, ...
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

import answers
import cost_files
import row_evidence
from conformance.lab.compiled import programs
from conformance.lab.compiled.report_records import PROGRAM_CHECK
from conformance.reporting.report import Record
from cost_files import Timed
from op_pages import _text

#: The side of a benchmark to compare with, where plain JAX has no such function.
_PEER = "PyTorch, deterministic"


@functools.cache
def _measured() -> tuple[Timed, ...]:
    """Returns the measurements of all reports."""
    return tuple(each for path in cost_files.reports() for each in cost_files.timed(path))


@functools.cache
def _compiled() -> tuple[Record, ...]:
    """Returns the records of the compiled calls of ops."""
    reports = row_evidence.our_reports(row_evidence.REPORTS).values()
    records = (record for each in reports for record in each.records)
    return tuple(r for r in records if r.check == PROGRAM_CHECK and r.op in programs.CALLS)


def measurements(op: str) -> list[Timed]:
    """Returns the measurements of an op."""
    return [each for each in _measured() if each.is_of(op)]


def card(op: str) -> Iterator[str]:
    """Yields lines: the time on a CPU compared with the fast path, and the launches on a GPU."""
    yield _on_cpu(measurements(op))
    for record in _compiled():
        name, *others = re.split(r"\b", record.op, maxsplit=2)[1:]
        if name == op.rpartition(".")[2]:
            device = f"an {str(record.lowering).upper()}"
            yield f"**on a GPU**{''.join(others)}, as compiled for {device}: {record.detail}"


def _on_cpu(timed: Sequence[Timed]) -> str:
    for beside in (None, _PEER):
        ratios = sorted(ratio for each in timed if (ratio := each.times(beside)) is not None)
        if ratios:
            base = beside or next(each.family.base for each in timed if each.times())
            whose = "PyTorch's deterministic mode" if base == _PEER else base
            span = _ratio(ratios[0])
            if len(ratios) > 1:
                span += f" to {_ratio(ratios[-1])}"
            return f"**on a CPU**, measured: {span} times the time of {whose}"
    if timed:
        times = (f"{each.ordered:.2g} ms ({_case(each)})" for each in timed[:2])
        return f"**on a CPU**, measured: {'; '.join(times)}"
    return "**on a CPU**: no benchmark of it is kept"


def _ratio(value: float) -> str:
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _case(timed: Timed) -> str:
    """Returns the size of a case in words."""
    return ", ".join(
        str(value) if key in ("size", "input", "direction", "op", "work") else f"{value} {key}"
        for key, value in timed.measurement.case.items()
        if key != "beside"
    )


def section(op: str) -> Iterator[str]:
    """Yields the tables of all figures."""
    timed = measurements(op)
    for made, report in {each.report.made[:10]: each.report for each in timed}.items():
        versions = f"jax {report.environment['jax']}, {report.environment['device']}"
        yield f"Milliseconds on a CPU, medians, measured on {made} with {versions}.\n"
    yield _text.list_table(
        "Times on a CPU, in milliseconds",
        ["Case", "Times", "Ordered, in times of the first"],
        map(_time_row, timed),
    )
    if not timed:
        yield "No time of it is kept.\n"


def _time_row(each: Timed) -> list[str]:
    sides = each.measurement.sides
    times = "; ".join(f"{side} {values.median:.3g}" for side, values in sides.items())
    ratio = each.times()
    return [_case(each), times, f"{ratio:.1f}" if ratio else "nothing to compare"]


def card_of_primitive(cells: Sequence[answers.Cell]) -> Iterator[str]:
    """Yields lines: whether the mode changes the primitive, and what the changed one costs."""
    acted = _acted(cells)
    free = [device for device in answers.devices() if device not in acted]
    if free:
        yield f"**{_text.where(free)}**: nothing, since the mode leaves it as it is"
    if not acted:
        return
    yield f"**{_text.where(acted)}**: [Launches and bytes of ops](../cost.md#on-a-gpu) has examples"


def _acted(cells: Iterable[answers.Cell]) -> list[str]:
    """Returns the devices on which the mode changes a primitive."""
    changed = (c for c in cells if c.word in ("deterministic", "raises"))
    return sorted({cell.device for cell in changed if cell.guarantee == "run_to_run"})


def section_of_primitive(cells: Sequence[answers.Cell]) -> Iterator[str]:
    """Yields where the figures are."""
    figures = "[What determinism costs](../cost.md) has the figures of whole programs and of ops"
    unchanged = "" if _acted(cells) else "The mode leaves it as it is. "
    yield f'{unchanged}{figures}, and of `guarantee="portable"`.\n'
