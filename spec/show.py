"""Writes what the mode does to the calls of one op, for a person: ``python -m spec show``.

The rows are TOML that no person reads in the order in which they decide. This module asks
``spec.resolve`` about every call that the rows tell apart, and writes one line for each answer, the
deciding one first. ``python -m spec show cumsum --device cuda --direction forward`` prints::

    With the mode on under torch-2.12:

    cumsum, forward on cuda
      when the dtype is floating or complex: raises [R0059]
        Alert: cumsum_cuda_kernel
        ...
      otherwise: the same bits anyway [R0060]
        ...

Devices and directions with the same lines share a block. The rules of the orders that the lines
name follow the blocks.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from spec import english
from spec.conditions import precedence
from spec.model import Direction, Primitive, Row, Source, Spec, SpecError
from spec.resolve import (
    Answer,
    cases,
    effect_of_primitive,
    portable_answer,
    portable_classes,
    precedence_of,
    unknown_op,
    varies,
)

_WIDTH = 100


def text(
    op: str,
    rules: Spec,
    *,
    device: str | None = None,
    profile: str | None = None,
    direction: Direction | None = None,
) -> str:
    """Returns what happens in the calls of an op with the mode on.

    Args:
        op: The name under ``impl``, the name in PyTorch, or the name of a primitive of JAX.
        rules: The rows.
        device: The device; None for each that JAX has a platform for.
        profile: The profile; None for the default one.
        direction: The direction; None for each that a row is about.

    Raises:
        SpecError: The op, the device or the profile is unknown.
    """
    devices = [entry.name for entry in rules.devices.values() if entry.platforms]
    profile = _one_of("profile", profile or rules.default_profile, list(rules.profiles))
    shown = [_one_of("device", device, devices)] if device else devices
    rows = [row for row in rules.rows if row.active and op in (row.op, row.torch)]
    if not rows and (of_jax := _of_jax(op, shown, rules)):
        return of_jax
    if not rows:
        raise SpecError(unknown_op(op.removeprefix("torch."), rules))
    blocks: list[str] = []
    orders: dict[str, None] = {}
    for name in dict.fromkeys(row.op for row in rows):
        blocks += [_statement(r) for r in rules.select(op=name, active=True) if r.kind != "op"]
        of_op = rules.select(op=name, kind="op", active=True)
        directions = [d for d in get_args(Direction) if any(row.decides(d) for row in of_op)]
        calls = itertools.product([direction] if direction and of_op else directions, shown)
        # Directions and devices with the same answers share a block.
        headings: dict[str, dict[str, list[str]]] = {}
        for one, where in calls:
            answers = _answers(name, one, where, profile, rules)
            for answer in answers:
                orders |= dict.fromkeys(filter(None, [answer.order]))
            body = "\n".join(_lines(answers, where, profile, rules))
            headings.setdefault(body, {}).setdefault(one, []).append(where)
        blocks += [f"{name}, {_on(heads)}\n{body}" for body, heads in headings.items()]
    lead = f"With the mode on under {profile}:"
    return "\n\n".join([lead, *blocks, *(_order(name, rules) for name in orders)]) + "\n"


def _on(devices: Mapping[str, Sequence[str]]) -> str:
    """Returns devices by direction as a list: ``forward on cpu and cuda, backward on cpu``."""
    return ", ".join(f"{one} on {' and '.join(of_one)}" for one, of_one in devices.items())


def _of_jax(name: str, devices: Sequence[str], rules: Spec) -> str:
    """Returns what happens to a primitive of JAX, by its name or its op's; empty for no such."""
    rows = [row for row in rules.primitives if name in (row.op, *row.primitives)]
    headings: dict[str, list[str]] = {}
    for device in devices:
        matching = [row for row in rows if row.covers(device)]
        matching.sort(key=precedence, reverse=True)
        # After a row without a condition no other decides.
        last = next((n for n, row in enumerate(matching) if not row.when), len(matching))
        body = "\n".join(_primitive_lines(matching[: last + 1], device, rules))
        headings.setdefault(body, []).append(f"on {device}")
    own = rules.class_of_primitive.get(name)
    if own is None and not rows:
        return ""
    names = [name] if own else rows[0].primitives
    classes = (own,) if own else portable_classes(rows[0], rules)
    known = [_wrapped(line, 1) for line in english.portabilities(names, classes)]
    blocks = [f"{name}, {', '.join(heads)}\n{body}" for body, heads in headings.items() if body]
    orders = dict.fromkeys(row.order for row in rows if row.order)
    blocks = ["With the mode on:", *blocks] if blocks else []
    asked = "\n".join([f'{name}, with guarantee="portable"', *known])
    return "\n\n".join([*blocks, asked, *(_order(order, rules) for order in orders)]) + "\n"


def _primitive_lines(rows: Sequence[Primitive], device: str, rules: Spec) -> Iterator[str]:
    """Yields each row about a primitive with its condition, and below it the reasons."""
    for number, row in enumerate(rows):
        effect = effect_of_primitive(row, device, rules)
        words = _lead(number, english.conditions(row.when, rules.facts))
        yield _wrapped(f"{words}: {english.EFFECTS[effect]} [{row.id}]", 1)
        reasons = {"Order": row.order, "Guarantee": row.guarantee, "To do": row.remedy}
        for name, reason in {"Why": row.evidence, **reasons}.items():
            if reason:
                yield _wrapped(f"{name}: {reason}", 2)


def _lead(number: int, condition: str) -> str:
    """Returns how the line of an answer begins: `otherwise, when the dtype is integer`."""
    lead = "otherwise" if number else ("when" if condition else "always")
    if number and condition:
        lead += ", when"
    return " ".join(filter(None, (lead, condition)))


def _one_of(what: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise SpecError(f"no {what} {value!r}; there are {', '.join(known)}")
    return value


def _statement(row: Row) -> str:
    """Returns what a row states that is not about the calls of an op."""
    lines = [f"{row.op}: {row.statement} [{row.id}]"]
    if row.options:
        lines.append("sets " + ", ".join(f"{name}={value}" for name, value in row.options.items()))
    lines += [row.caveat] if row.caveat else []
    return "\n".join(_wrapped(line, 0 if number == 0 else 1) for number, line in enumerate(lines))


def _answers(op: str, direction: Direction, device: str, profile: str, rules: Spec) -> list[Answer]:
    """Returns the answers to all calls, in the order in which they decide."""
    answers = [case.answer for case in cases(op, direction, device, profile, rules)]
    return sorted(answers, key=precedence_of, reverse=True)


def _lines(answers: Sequence[Answer], device: str, profile: str, rules: Spec) -> Iterator[str]:
    """Yields each answer with its condition, and below it the reasons."""
    for number, answer in enumerate(answers):
        condition = english.conditions(answer.row.when, rules.facts) if answer.row else ""
        words = _lead(number, condition)
        row = f" [{answer.row.id}]" if answer.row else ""
        yield _wrapped(f"{words}: {english.EFFECTS[answer.effect]}{row}", 1)
        for line in _reasons(answer, device, profile, rules):
            yield _wrapped(line, 2)


def _reasons(answer: Answer, device: str, profile: str, rules: Spec) -> Iterator[str]:
    """Yields the order, the guarantee, the sources, and what PyTorch does."""
    row = answer.row
    if row is None:
        yield "No row of any profile is about such a call."
        return
    if answer.behaviour == "raise":
        yield f"Alert: {row.callers.get(profile, row.op)}"
    if answer.order:
        yield f"Order: {answer.order}"
    if answer.guarantee:
        yield f"Guarantee: {answer.guarantee}"
    if answer.behaviour != "raise" and (portable := portable_answer(row)):
        yield f"Under portable: {english.PORTABLE[portable]}"
    if varies(row, device, rules):
        yield "With the mode off: two runs can differ"
    if not answer.listed:
        yield f"Listed by: {rules.own_profile}, not by {profile}"
    yield from (f"Source: {_cited(source, rules)}" for source in row.sources)
    for erratum in row.errata:
        does = english.behaviour_of_code(erratum, rules.facts, rules.devices)
        yield f"{does} {erratum.statement}"
    if row.note:
        yield f"Note: {row.note}"


def _order(name: str, rules: Spec) -> str:
    """Returns the rule of an order."""
    order = rules.orders[name]
    free = " or when ".join(english.conditions(w, rules.facts) for w in order.order_free_when)
    lines = [f"The order {name}", order.statement]
    lines += [f"Every order gives the same bits when {free}."] if free else []
    return "\n".join([lines[0], *(_wrapped(line, 1) for line in lines[1:])])


def _cited(source: Source, rules: Spec) -> str:
    title = rules.documents[source.document].title
    return f"{title}, {', '.join(source.releases)}: “{source.phrase}”"


def _wrapped(line: str, depth: int) -> str:
    indent = "  " * depth
    return textwrap.fill(
        line,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
