"""The facts on the page of an op, on the page of a primitive of JAX, and in the matrix.

``docs/_templates/pages`` has the texts. For ``cumsum`` with the mode off, ``digest`` gives the
lines of a card::

    **may vary**: the call on a CUDA device, when the dtype is floating or complex
    **same bits anyway**: the call on a CPU; the call on a CUDA device, in all other cases
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import answers
import costs
import jax_functions
import row_evidence
import spec
from answers import grouped
from conformance.cases.table import samples
from conformance.reporting.report import Report
from spec import english, oracles

#: The calls of a direction, as the subject of a phrase.
SUBJECTS: Mapping[str, str] = {"forward": "the call", "backward": "its gradient"}
#: The folder of the reports, from the sources of the site.
REPORTS = "../conformance/reports"
#: The headings of the table of all answers.
ANSWER_HEADINGS = ("Call", "When", "Mode and profile", "Answer")
#: The headings of the matrix before the columns of answers.
MATRIX_HEADINGS = ("Operation", "Direction", "Device")


def device_name(name: str) -> str:
    """Returns a device as people write it: ``a CPU``, ``a CUDA device``."""
    device = spec.load().devices[name]
    return f"{device.english} device" if device.races else device.english


def where(devices: Iterable[str]) -> str:
    """Returns devices as a part of a sentence: ``on a CPU``, or ``on every device``."""
    devices = list(devices)
    if set(devices) == set(spec.DEVICES):
        return "on every device"
    return "on " + " and ".join(map(device_name, devices))


def digest(cells: Sequence[answers.Cell]) -> Iterator[str]:
    """Yields a line for each word: the word, and the calls that it is about."""
    by_place = grouped(((cell.direction, cell.device), cell) for cell in cells)
    devices = grouped(
        ((word, condition, direction), device)
        for (direction, device), own in by_place.items()
        for word, condition in _conditions(own).items()
    )
    of_ops = any(cell.kind == "op" for cell in cells)
    calls = grouped(
        ((word, where(names), condition), SUBJECTS[direction] if of_ops else "")
        for (word, condition, direction), names in devices.items()
    )
    phrases = grouped(
        (word, f"{' and '.join(dict.fromkeys(subjects))} {place}{condition}".strip())
        for (word, place, condition), subjects in calls.items()
    )
    for word in answers.ordered(phrases):
        yield f"**{word}**: {'; '.join(phrases[word])}"


def _conditions(cells: Sequence[answers.Cell]) -> dict[answers.Word, str]:
    """Returns the condition of each word in the calls of one direction on one device."""
    by_word = grouped((cell.word, cell) for cell in cells)
    if len(by_word) == 1:
        return dict.fromkeys(by_word, "")
    every = [facts for cell in cells for facts in cell.calls]
    conditions = {}
    # Together the words are about all calls, so the last word has the remaining ones.
    last = answers.ordered(by_word)[-1]
    for word, own in by_word.items():
        short = _box([facts for cell in own for facts in cell.calls], every)
        listed = "in all other cases" if word == last else _listed(own, cells)
        conditions[word] = f", when {short}" if short else f", {listed}"
    return conditions


def _box(calls: Sequence[spec.Facts], every: Sequence[spec.Facts]) -> str:
    """Returns a condition that these calls alone meet; empty if there is no simple one."""
    names = list(every[0]) if every else []
    values = {name: {facts[name] for facts in calls} for name in names}
    inside = [f for f in every if all(f[name] in values[name] for name in names)]
    tests = {n: v for n, v in values.items() if v != {facts[n] for facts in every}}
    facts_of = spec.load().facts
    if len(inside) != len(calls) or any(facts_of[n].type not in ("bool", "choice") for n in tests):
        return ""
    # The English has the facts in the order of the vocabulary.
    whens = {
        name: (
            next(iter(found))
            if facts_of[name].type == "bool"
            else tuple(value for value in facts_of[name].values if value in found)
        )
        for name, found in tests.items()
    }
    return english.conditions(whens, facts_of)


def _listed(own: Sequence[answers.Cell], cells: Sequence[answers.Cell]) -> str:
    """Returns the conditions of the cells of one word, one after the other."""
    others = [cell for cell in cells if cell.word != own[0].word and cell.condition]
    # "In all other cases" covers a narrower condition, if no condition of another word overlaps it.
    rest = any(not cell.condition for cell in own)
    stated = [c for c in own if c.condition and not (rest and not _touched(c, others))]
    texts = [f"when {cell.condition}" for cell in stated] + ["in all other cases"] * rest
    return " or ".join(dict.fromkeys(texts))


def _touched(cell: answers.Cell, others: Sequence[answers.Cell]) -> bool:
    """Returns whether a call of a cell meets the condition of another cell's row too."""
    whens = [spec.load().row(other.row).when for other in others if other.row]
    return any(
        set(when) <= set(facts) and spec.holds(when, facts)
        for when in whens
        for facts in cell.calls
    )


def answer_rows(cells: Sequence[answers.Cell]) -> Iterator[list[str]]:
    """Yields the rows of the table of all answers; profiles with one answer share a row."""
    profiles = grouped((_answer(cell), cell.profile) for cell in cells)
    narrower = {(call, mode) for call, when, mode, _ in profiles if when}
    for (call, when, mode, answer), names in profiles.items():
        rest = "in all other cases" if (call, mode) in narrower else "always"
        links = ", ".join(f"{{profile}}`{name}`" for name in names if name)
        under = f": {links}" if links else ""
        if set(names) == set(spec.load().profiles):
            under = ", every profile"
        yield [call, f"when {when}" if when else rest, f"{mode}{under}", answer]


def _answer(cell: answers.Cell) -> tuple[str, str, str, str]:
    """Returns the call, the condition, the mode and the answer of a cell."""
    row = f" ({{row}}`{cell.row}`)" if cell.row else ""
    call = f"{SUBJECTS[cell.direction].capitalize()} on {device_name(cell.device)}"
    modes = {answers.OFF: "mode off", "run_to_run": "mode on"}
    mode = modes.get(cell.guarantee, '`guarantee="portable"`')
    return call, cell.condition, mode, f"**{cell.word}**. {cell.sentence}{row}"


def of_op(op: str, rules: spec.Spec, reports: Mapping[str, Report]) -> dict[str, Any]:
    """Returns the facts on the page of an op, from the reports that are evidence, by file name."""
    cells = answers.of_op(op, rules)
    every = rules.select(op=op, kind="op")
    rows = [row for row in every if row.active]
    orders = dict.fromkeys(row.order for row in rows if row.order)

    def under(profile: str | None, guarantee: str | None) -> list[answers.Cell]:
        own = (cell for cell in cells if cell.guarantee == guarantee)
        return [cell for cell in own if profile in (None, cell.profile)]

    # A report has thousands of records of other ops.
    ids = {row.id for row in rows}
    own = {
        name: dataclasses.replace(report, records=tuple(r for r in report.records if r.row in ids))
        for name, report in reports.items()
    }
    timed = costs.of_op(op)
    off = under(None, answers.OFF)
    varying = {cell.row for cell in off if cell.word == "may vary"}
    reasons = (rules.orders[str(r.order)].varies for r in rows if r.order and r.id in varying)
    directions = dict.fromkeys(d for s in samples(op) for d in s.directions)
    callers = (
        caller
        for row in every
        for caller in (*row.callers.values(), *(e.caller for e in row.errata if e.caller))
    )
    return {
        "op": op,
        "rules": rules,
        "cells": cells,
        "every": every,
        "rows": rows,
        "orders": [rules.orders[name] for name in orders],
        "under": under,
        "raising": dict.fromkeys(
            SUBJECTS[cell.direction]
            for cell in under(rules.default_profile, "run_to_run")
            if cell.word == "raises"
        ),
        "varies": bool(varying) or any(cell.word == "may vary" for cell in off),
        "reasons": dict.fromkeys(reason for reason in reasons if reason),
        "ran": False,
        "errors": {},
        "example": None,
        "silent": [d for d in directions if not any(cell.direction == d for cell in cells)],
        "callers": list(dict.fromkeys(callers)),
        "evidence_lines": list(_evidence_lines(rows, own)),
        "card_of_evidence": [
            *_card_of_evidence(rows, own),
            *([] if row_evidence.ran_on_gpu(reports.values()) else ["not yet verified on a GPU"]),
        ],
        "measured": {each.report.made[:10]: each.report for each in timed},
        "times": list(map(_times, timed)),
        "short_names": jax_functions.short_names(op),
        "functions": jax_functions.of_op(op),
    }


def documented(row: spec.Row, rules: spec.Spec) -> Mapping[str, Sequence[str]]:
    """Returns the titles of the releases whose documents list a row, by what they list."""
    return grouped(
        (english.verb(behaviour), rules.profiles[name].title)
        for name, behaviour in row.behaviour.items()
        if behaviour and rules.profiles[name].release
    )


def source_of(order: str) -> str:
    """Returns the code of the oracle of an order; empty if it has none."""
    function = getattr(oracles, order, None)
    return inspect.getsource(function) if function is not None else ""


def _times(each: costs.Timed) -> list[str]:
    """Returns the case, the times and the ratio of a measurement."""
    sides = each.measurement.sides
    times = "; ".join(f"{side} {values.median:.3g}" for side, values in sides.items())
    ratio = each.times()
    return [each.size, times, f"{ratio:.1f}" if ratio else "nothing to compare"]


def _evidence_lines(
    rows: Sequence[spec.Row], reports: Mapping[str, Report]
) -> Iterator[tuple[str, ...]]:
    """Yields the row, the device, the evidence, the report and its date."""
    of_report = {name: row_evidence.by_row({name: report}) for name, report in reports.items()}
    for row in rows:
        for device in row_evidence.deciding_devices(row):
            found = [
                (str(entry), f"{{download}}`{name} </{REPORTS}/{name}>`", report.made[:10])
                for name, report in reports.items()
                if (entry := of_report[name].get((row.id, device)))
            ]
            for cells in found or [("none", "no report", "")]:
                yield (f"{{row}}`{row.id}`", device_name(device), *cells)


def _card_of_evidence(rows: Sequence[spec.Row], reports: Mapping[str, Report]) -> Iterator[str]:
    """Yields a line for each device with the evidence that all rows have there."""
    merged = row_evidence.by_row(reports)
    for device in spec.DEVICES:
        own = [row for row in rows if device in row_evidence.deciding_devices(row)]
        levels = [merged.get((row.id, device), row_evidence.NO_EVIDENCE) for row in own]
        if texts := dict.fromkeys(map(str, levels)):
            yield f"**on {device_name(device)}**: {'; '.join(texts)}"


def of_primitive(op: str, rules: spec.Spec) -> dict[str, Any]:
    """Returns the facts on the page of a primitive."""
    cells = answers.of_primitive(op, rules)
    rows = [row for row in rules.primitives if row.op == op and row.active]
    by_guarantee = grouped((cell.guarantee, cell) for cell in cells)
    off, on = by_guarantee[answers.OFF], by_guarantee["run_to_run"]
    # The evidence for answers that a reader has to know; if no row has one of these, for all.
    told = {cell.row for cell in (*off, *on) if cell.word != answers.SAME}
    texts = {row.id: row.evidence for row in rows if row.evidence}
    acted = sorted({cell.device for cell in on if cell.word in ("deterministic", "raises")})
    return {
        "op": op,
        "cells": cells,
        "rows": rows,
        "names": list(dict.fromkeys(name for row in rows for name in row.primitives)),
        "off": off,
        "on": on,
        "portable": dict.fromkeys(f"**{c.word}**: {c.sentence}" for c in by_guarantee["portable"]),
        "words": answers.ordered(cell.word for cell in on),
        "varies": any(cell.word == "may vary" for cell in off),
        "evidence_texts": [t for id, t in texts.items() if id in told] or list(texts.values()),
        "acted": acted,
        "free": [device for device in spec.DEVICES if device not in acted],
        "uses": jax_functions.uses().get(op, ()),
        "functions": {entry.name for entry in jax_functions.table()},
    }


def index(kind: str) -> Mapping[str, Mapping[str | None, Sequence[answers.Word]]]:
    """Returns the words of each operation of a kind, by guarantee, under the default profile."""
    default = (None, spec.load().default_profile)
    every = (cell for cell in answers.every() if cell.kind == kind and cell.profile in default)
    words = grouped((cell.op, (cell.guarantee, cell.word)) for cell in every)
    return {
        op: {name: answers.ordered(each) for name, each in grouped(pairs).items()}
        for op, pairs in words.items()
    }


class Column(NamedTuple):
    """A column of answers in the matrix; without a profile and a guarantee, the mode is off."""

    heading: str
    profile: str | None
    guarantee: str | None


class Line(NamedTuple):
    """A line of the matrix, with the words of each column.

    It has several devices if all their cells are equal.
    """

    op: str
    kind: str
    direction: spec.Direction
    words: tuple[tuple[answers.Word, ...], ...]
    devices: tuple[str, ...] = ()


def matrix_columns() -> tuple[Column, ...]:
    """Returns the columns of answers in the matrix.

    The guarantee ``portable`` has one column, under the project's own profile: another profile
    differs from it in what it raises, which the column of that profile shows.
    """
    rules = spec.load()
    by_profile = (Column(name, name, answers.GUARANTEES[0]) for name in rules.profiles)
    own = rules.own_profile or rules.default_profile
    portable = Column(answers.GUARANTEES[1], own, answers.GUARANTEES[1])
    return (Column("mode off", None, answers.OFF), *by_profile, portable)


def matrix_lines() -> Iterator[Line]:
    """Yields the lines of the matrix: functions of ``impl``, then primitives of JAX."""
    cells = grouped(
        ((cell.op, cell.kind, cell.direction, cell.device), cell) for cell in answers.every()
    )
    columns = matrix_columns()
    devices = grouped(
        (Line(op, kind, direction, tuple(_words(own, each) for each in columns)), device)
        for (op, kind, direction, device), own in cells.items()
    )
    for line, names in devices.items():
        yield line._replace(devices=tuple(names))


def _words(cells: list[answers.Cell], column: Column) -> tuple[answers.Word, ...]:
    """Returns the words of a column, in the order of the legend."""
    return answers.ordered(
        cell.word
        for cell in cells
        # The answers about primitives name no profile, because they hold under each.
        if cell.guarantee == column.guarantee and cell.profile in (column.profile, None)
    )
