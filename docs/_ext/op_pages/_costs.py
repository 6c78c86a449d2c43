"""The cost of an op or a primitive, from the files of benchmarks and of counted launches.

A reader of a page wants to know the price of the mode before they turn it on. ``card`` gives the
price in two lines, and ``section`` gives the tables of all sizes behind the lines. Suppose that two
benchmarks of ``index_add`` took 0.67 and 4 times the time of the fast path on a CPU, and that its
compiled code has 8 launches. The card is::

    **on a CPU**, measured: 0.67 to 4.0 times the time of plain `.at[].add`
    **on a GPU**, counted in compiled code: 8 launches, where plain JAX has 2, and 2.5 times the
    bytes of its arrays (index_add of float32[1], int32[100M], float32[100M])

The second line is about the largest case of each call. A gradient is another call, and has a line
of its own.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import answers
import cost_files
import spec
from cost_files import Counted, Timed
from op_pages import _jax_names, _text

#: The side of a benchmark to compare with, where plain JAX has no such function.
_PEER = "PyTorch, deterministic"


@functools.cache
def _measured() -> tuple[Timed, ...]:
    """Returns the measurements of all reports."""
    return tuple(each for path in cost_files.reports() for each in cost_files.timed(path))


@functools.cache
def _counted() -> tuple[Counted, ...]:
    """Returns the costs of compiled programs; without the file there are none."""
    return tuple(cost_files.counted())


def measurements(op: str) -> list[Timed]:
    """Returns the measurements of an op."""
    return [each for each in _measured() if each.is_of(op)]


def counted(op: str) -> list[Counted]:
    """Returns the counted cases of an op; cases of the suite only if it has no larger ones."""
    own = [each for each in _counted() if each.case is not None and each.case.op == op]
    sized = [each for each in own if not each.name.startswith(cost_files.SAMPLE)]
    return sized or own


def card(op: str) -> Iterator[str]:
    """Yields lines: the time on a CPU compared with the fast path, and the launches on a GPU."""
    yield _on_cpu(measurements(op))
    # The largest of each call: a gradient is another call.
    last = {each.label: each for each in counted(op)}
    if not last:
        yield "**on a GPU**: no program of it was counted"
    for each in last.values():
        yield f"**on a GPU**, counted in compiled code: {_launches(each)} ({_of(each)})"


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


def _launches(each: Counted) -> str:
    """Returns the launches of a call and the bytes that it moves, as a phrase."""
    plain = each.launches("plain")
    beside = "" if plain is None else f", where plain JAX has {plain}"
    number = each.launches("on")
    launches = "1 launch" if number == 1 else f"{number} launches"
    return f"{launches}{beside}, and {each.floors:.1f} times the bytes of its arrays"


def _of(each: Counted) -> str:
    """Returns the call that was counted, in words: ``index_add of float32[1k], ...``."""
    return f"{each.label} of {', '.join(each.inputs)}"


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
    cases = counted(op)
    yield from _counted_table(cases)
    if not timed and not cases:
        yield "No figure is kept about it.\n"


def _time_row(each: Timed) -> list[str]:
    sides = each.measurement.sides
    times = "; ".join(f"{side} {values.median:.3g}" for side, values in sides.items())
    ratio = each.times()
    return [_case(each), times, f"{ratio:.1f}" if ratio else "nothing to compare"]


def _counted_table(cases: Sequence[Counted]) -> Iterator[str]:
    if not cases:
        return
    found = cost_files.read_counts()
    yield (
        f"Programs compiled for one {found['target'].upper()} by jax {found['jax']}, and"
        " counted. Nothing ran. Times the arrays: the bytes that the launches move, as a"
        " multiple of the bytes of operands and results.\n"
    )
    yield _text.list_table(
        "Launches and bytes on a GPU",
        ["Case", "Launches, mode on", "Times the arrays", "Launches, mode off", "Plain JAX"],
        map(_row, cases),
    )


def _row(each: Counted) -> list[str]:
    others = (each.launches(side) for side in ("off", "plain"))
    launches = ["" if number is None else str(number) for number in others]
    return [_of(each), str(each.launches("on")), f"{each.floors:.1f}", *launches]


def of_primitive(op: str) -> list[Counted]:
    """Returns the counted calls of this library that stand for a primitive.

    Plain JAX does them with the primitive, and they take an order that the mode gives it. Of each
    call, the case of the largest size is returned.
    """
    rules = spec.load()
    orders = {row.order for row in rules.primitives if row.op == op and row.active}
    sized = (each for each in _counted() if not each.name.startswith(cost_files.SAMPLE))
    last = {each.label: each for each in sized}
    return [
        each
        for each in last.values()
        if each.case is not None
        and not orders.isdisjoint(_orders(each.case.op, each.case.direction) - {None})
        and op in _primitives_of(each.label)
    ]


def _orders(op: str, direction: str) -> set[str | None]:
    """Returns the orders that rows have for the calls of an op in one direction."""
    rows = spec.load().select(op=op, kind="op", active=True)
    return {row.order for row in rows if row.decides(cast(spec.Direction, direction))}


@functools.cache
def _primitives_of(label: str) -> frozenset[str]:
    """Returns the primitives, by the op of their rows, by which plain JAX does a counted call."""
    rows = spec.load().op_of_primitive
    for each in _counted():
        if each.label == label and each.case is not None and each.case.plain is not None:
            names = _jax_names.primitives(each.case.plain, *each.case.inputs)
            return frozenset(rows[name] for name in names if name in rows)
    return frozenset()


def card_of_primitive(op: str, cells: Sequence[answers.Cell]) -> Iterator[str]:
    """Yields lines: whether the mode changes the primitive, and what the changed one costs."""
    acted = _acted(cells)
    free = [device for device in answers.devices() if device not in acted]
    if free:
        yield f"**{_text.where(free)}**: nothing, since the mode leaves it as it is"
    if not acted:
        return
    where = _text.where(acted)
    cases = of_primitive(op)
    ratios = sorted(ratio for each in cases if (ratio := each.times_plain) is not None)
    if len(ratios) > 1:
        yield (
            f"**{where}**, counted in compiled code: {_ratio(statistics.median(ratios))} times the"
            f" bytes that plain JAX moves ({_ratio(ratios[0])} to {_ratio(ratios[-1])}), the median"
            f" of {len(ratios)} calls with the same order"
        )
    elif cases:
        yield f"**{where}**, counted in compiled code: {_launches(cases[0])} ({_of(cases[0])})"
    else:
        yield f"**{where}**: no program with it was counted"


def _acted(cells: Iterable[answers.Cell]) -> list[str]:
    """Returns the devices on which the mode changes a primitive."""
    changed = (c for c in cells if c.word in ("deterministic", "raises"))
    return sorted({cell.device for cell in changed if cell.guarantee == "run_to_run"})


def section_of_primitive(op: str, cells: Sequence[answers.Cell]) -> Iterator[str]:
    """Yields the counted calls of this library that stand for a primitive."""
    others = "[What determinism costs](../cost.md) has the figures of whole programs"
    if not _acted(cells):
        yield f'The mode leaves it as it is. {others}, and of `guarantee="portable"`.\n'
        return
    cases = of_primitive(op)
    if not cases:
        yield f"No figure is kept about it. {others}.\n"
        return
    yield (
        "Plain JAX does these calls with the primitive. This library does them in the order that"
        " the mode gives it. Of each call, the largest size is shown.\n"
    )
    yield from _counted_table(cases)
    ops = dict.fromkeys(each.case.op for each in cases if each.case is not None)
    links = ", ".join(f"[{name}](../ops/{name}.md#what-it-costs)" for name in ops)
    yield f"Other sizes, and times on a CPU: {links}.\n"
