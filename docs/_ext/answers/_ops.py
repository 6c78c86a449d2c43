"""The cells of the functions of ``impl``.

A cell is the answer to one question of a reader: which bits does this call give on this device,
under this profile and guarantee? ``spec.resolve`` answers single calls, so the calls that the rows
tell apart are asked one by one, and the calls with one answer become one cell. For ``cumsum`` on
CUDA under ``torch-2.12``, ``of_op`` returns among other cells::

    calls                                     dtype floating, dtype complex     dtype integer
    rows that decide                          R0059                             R0060
    condition                                 the dtype is floating or complex  integer or bool
    word with the mode off                    same bits anyway
    word, ``run_to_run``                      raises                            same bits anyway
    word, ``portable``                        raises                            exact everywhere

With the mode off both columns are one cell: the profile ``complete`` decides there, and its row
R0060 is about every dtype.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import get_args

import spec
from answers._cell import GUARANTEES, NOT_FILLED, OFF, SAME, WORDS, Cell, Word, devices
from conformance.suite.sample import Sample, samples
from spec import english
from spec.calls import distinct_calls
from spec.conditions import specificity


def of_op(op: str, rules: spec.Spec | None = None) -> tuple[Cell, ...]:
    """Returns the cells of an op: with the mode off, then by profile and guarantee.

    A direction that no row is about is left out, and so are facts that no sample of the
    conformance suite has, since no call may have them. Each row has a sample.

    Args:
        op: Dotted name of the op.
        rules: The rows; None for this distribution's rows.
    """
    return tuple(_of_op(op, rules or spec.load()))


def _of_op(op: str, rules: spec.Spec) -> Iterator[Cell]:
    of_calls = samples(op)
    for direction in get_args(spec.Direction):
        rows = [r for r in rules.select(op=op, kind="op", active=True) if r.decides(direction)]
        own = [sample for sample in of_calls if direction in sample.directions]
        asked = {name for row in rows for name in row.when}
        stated = asked.union(*(sample.facts for sample in own))
        calls = _calls(rows, stated, rules)
        calls = [facts for facts in calls if not of_calls or _made(facts, own, asked)]
        for device in devices(rules) if rows and calls else ():
            yield from _without_mode(op, direction, device, calls, rules)
            for profile in rules.profiles:
                for guarantee in GUARANTEES:
                    yield from _with_mode(op, direction, device, calls, profile, guarantee, rules)


def _calls(rows: Sequence[spec.Row], stated: Collection[str], rules: spec.Spec) -> list[spec.Facts]:
    """Returns the calls that the rows tell apart, or that are free of order.

    Args:
        rows: The rows of an op and a direction.
        stated: The facts that calls of the op state.
        rules: The spec.
    """
    free = [
        dataclasses.replace(row, when=when)
        for row in rows
        if row.order
        for when in rules.orders[row.order].order_free_when
        if set(when) <= set(stated)
    ]
    return list(distinct_calls([*rows, *free], rules.facts))


def _made(facts: spec.Facts, of_calls: Sequence[Sample], asked: Collection[str]) -> bool:
    """Returns whether a call may have these facts, to judge by the samples.

    Some sample has all the facts that rows ask for. It may leave one out, such as a setting of the
    process. Each of the remaining facts, which make calls free of order, occurs in some sample.
    """

    def has(sample: Sample) -> bool:
        return all(sample.facts.get(name, facts[name]) == facts[name] for name in asked)

    others = {name: value for name, value in facts.items() if name not in asked}
    return any(map(has, of_calls)) and all(
        any(sample.facts.get(name) == value for sample in of_calls)
        for name, value in others.items()
    )


def _is_free(row: spec.Row | None, facts: spec.Facts, rules: spec.Spec) -> bool:
    """Returns whether every order gives the bits of the row's order in a call."""
    order = rules.orders[row.order] if row is not None and row.order else None
    return order is not None and any(
        set(when) <= set(facts) and spec.holds(when, facts) for when in order.order_free_when
    )


@dataclasses.dataclass(frozen=True)
class _Group:
    """Calls with one answer.

    Attributes:
        answer: The answer.
        free: Whether every order gives the same bits in these calls.
        calls: The facts of the calls.
        fills: Whether the op is about memory that can be filled.
    """

    answer: spec.Answer
    free: bool
    calls: tuple[spec.Facts, ...]
    fills: bool

    @property
    def is_memory(self) -> bool:
        """Whether the calls are about memory that nothing else writes."""
        return self.fills and self.answer.effect in ("fills", "unknown")

    def condition(self, rules: spec.Spec) -> str:
        """Returns what the row and the order ask for, in English."""
        row = self.answer.row
        own = english.conditions(row.when, rules.facts) if row else ""
        if row is None or row.order is None or not self.free:
            return own
        whens = [
            {name: test for name, test in when.items() if name not in row.when}
            for when in rules.orders[row.order].order_free_when
            if any(spec.holds(when, c) for c in self.calls if set(when) <= set(c))
        ]
        free = " or ".join(english.conditions(when, rules.facts) for when in whens if when)
        return " and ".join(filter(None, (own, free)))


def _groups(
    op: str,
    direction: spec.Direction,
    device: str,
    calls: Sequence[spec.Facts],
    profile: str,
    rules: spec.Spec,
) -> list[_Group]:
    """Returns the calls by their answer, in the order in which their conditions decide."""
    found: dict[tuple[object, bool], tuple[spec.Answer, list[spec.Facts]]] = {}
    for facts in calls:
        answer = spec.resolve(op, direction, device, facts, profile, rules)
        key = answer.key, _is_free(answer.row, facts, rules)
        found.setdefault(key, (answer, []))[1].append(facts)
    rows = (r for r in rules.select(op=op, kind="op", active=True) if r.decides(direction))
    fills = any("fill" in row.behaviour.values() for row in rows)
    groups = [_Group(answer, free, tuple(of), fills) for (_, free), (answer, of) in found.items()]
    return sorted(groups, key=_rank, reverse=True)


def _rank(group: _Group) -> tuple[bool, tuple[int, bool], bool]:
    """Returns the precedence: listed by a profile, then narrower rows, then free of order."""
    answer = group.answer
    return answer.listed, specificity(answer.row) if answer.row else (-1, False), group.free


def _without_mode(
    op: str,
    direction: spec.Direction,
    device: str,
    calls: Sequence[spec.Facts],
    rules: spec.Spec,
) -> Iterator[Cell]:
    """Yields the cells with the mode off, by the rows of the project's own profile."""
    profile = rules.own_profile or rules.default_profile
    groups = _groups(op, direction, device, calls, profile, rules)
    words = [_word_without_mode(group, device, rules) for group in groups]
    for group, word in _joined(groups, words):
        sentence = "With the mode off, each run gives the same bits."
        if group.is_memory:
            sentence = NOT_FILLED
        elif word == "unknown":
            sentence = WORDS[word]
        elif word == "may vary":
            sentence = "With the mode off, two runs can give other bits."
        cell = _cell(op, direction, device, group, rules)
        yield dataclasses.replace(cell, word=word, sentence=sentence)


def _cell(op: str, direction: spec.Direction, device: str, group: _Group, rules: spec.Spec) -> Cell:
    """Returns the cell of a group of calls with the mode off, whose answer is to be filled in."""
    row = group.answer.row
    condition, id = group.condition(rules), row.id if row else None
    return Cell(op, "op", direction, device, condition, group.calls, None, OFF, "unknown", "", id)


def _word_without_mode(group: _Group, device: str, rules: spec.Spec) -> Word:
    """Returns the word for the calls of an op with the mode off."""
    row = group.answer.row
    varies = row is not None and spec.varies(row, device, rules) and not group.free
    if group.answer.effect == "unknown" and not group.fills:
        return "unknown"
    return "may vary" if varies or group.is_memory else SAME


def _joined(groups: Sequence[_Group], words: Sequence[Word]) -> Iterator[tuple[_Group, Word]]:
    """Yields the groups, after groups with the same row and the same word are joined."""
    found: dict[tuple[str | None, Word], _Group] = {}
    for group, word in zip(groups, words, strict=True):
        key = group.answer.row.id if group.answer.row else None, word
        calls = (*found[key].calls, *group.calls) if key in found else group.calls
        # The group that is not free of order comes last. Its condition is the condition of the row.
        found[key] = dataclasses.replace(group, calls=calls)
    yield from ((group, word) for (_, word), group in found.items())


def _with_mode(
    op: str,
    direction: spec.Direction,
    device: str,
    calls: Sequence[spec.Facts],
    profile: str,
    guarantee: str,
    rules: spec.Spec,
) -> Iterator[Cell]:
    """Yields the cells with the mode on."""
    groups = _groups(op, direction, device, calls, profile, rules)
    words = [_word(group, device, profile, guarantee, rules) for group in groups]
    for group, word in _joined(groups, words):
        answer = group.answer
        order = _order(answer, guarantee) if not group.free else None
        yield dataclasses.replace(
            _cell(op, direction, device, group, rules),
            profile=profile,
            guarantee=guarantee,
            word=word,
            sentence=_sentence(word, group, profile, order, rules),
            order=order,
        )


def _word(group: _Group, device: str, profile: str, guarantee: str, rules: spec.Spec) -> Word:
    """Returns the word for the calls of an op with the mode on."""
    answer = group.answer
    if answer.effect == "raises":
        return "raises"
    if answer.effect == "fills":
        return "fills"
    if answer.effect == "unknown":
        return "may vary" if group.is_memory else "unknown"
    if guarantee == "portable":
        portable = spec.portable_answer(answer.row) if answer.row else None
        return "exact everywhere" if portable == "exact" else "JAX's rules"
    row = answer.row
    varies = row is not None and spec.varies(row, device, rules)
    # This project's own profile lists each op, also where nothing races.
    own = profile == rules.own_profile and not varies
    if answer.effect == "same" or group.free or own:
        return SAME
    return "deterministic" if answer.listed else "ordered under complete"


def _order(answer: spec.Answer, guarantee: str) -> str | None:
    """Returns the name of the order that is taken; None if none is."""
    if answer.row is None or answer.order is None:
        return None
    if guarantee == "portable":
        return answer.order if spec.portable_answer(answer.row) == "exact" else None
    return answer.order


def _sentence(word: Word, group: _Group, profile: str, order: str | None, rules: spec.Spec) -> str:
    """Returns the answer for a person who sees no other cell."""
    answer = group.answer
    row = answer.row
    if word == "raises" and row is not None:
        caller = row.callers.get(profile, row.op)
        return f"Raises `RuntimeError`, which names `{caller}`; warns if `warn_only=True`."
    if word == "may vary":
        return NOT_FILLED
    if word == "fills":
        return "Writes a known value into the memory."
    if group.free and word == "same bits anyway":
        return "Each run gives the same bits, because every order of its operations does."
    if word == "same bits anyway":
        taken = f" The order is {_named(order, rules)}." if order else ""
        return f"Each run gives the same bits, with the mode on or off.{taken}"
    if word == "exact everywhere":
        taken = f", in the order {_named(order, rules)}" if order else ""
        return f"Gives the same bits on every device and over any number of devices{taken}."
    if word in ("JAX's rules", "unknown"):
        return WORDS[word]
    taken = f": {_named(order, rules)}" if order else ""
    silent = "" if answer.listed else "PyTorch's documents do not list it. "
    return f"{silent}Takes a deterministic path{taken}."


def _named(order: str | None, rules: spec.Spec) -> str:
    """Returns the title of an order, as a part of a sentence."""
    title = rules.orders[str(order)].title
    return f"“{title[0].lower()}{title[1:]}”"
