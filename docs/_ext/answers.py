"""Answers: what the mode does to each call that the rows tell apart, as a cell with a short word.

Every page, table and matrix of the site takes its words from here:

    for cell in answers.of_op("index_add"):
        print(cell.direction, cell.device, cell.condition, cell.profile, cell.guarantee, cell.word)

``spec.resolve`` answers single calls, so the calls that the rows tell apart are asked one by one,
and the calls with one answer become one cell. For ``cumsum`` on CUDA under ``torch-2.12``,
``of_op`` returns among other cells::

    calls                                     dtype floating, dtype complex     dtype integer
    rows that decide                          R0059                             R0060
    condition                                 the dtype is floating or complex  integer or bool
    word with the mode off                    same bits anyway
    word, ``run_to_run``                      raises                            same bits anyway
    word, ``portable``                        raises                            exact everywhere

With the mode off both columns are one cell: the profile ``complete`` decides there, and its row
R0060 is about every dtype. ``docs/tests/test_answers.py`` asks ``impl`` about the calls of each
cell, and compares.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar, get_args

import spec
from conformance.cases.table import Sample, samples
from spec import english
from spec.conditions import distinct_calls, precedence
from spec.resolve import precedence_of

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Word: TypeAlias = Literal[
    "raises",
    "refused",
    "may vary",
    "unknown",
    "deterministic",
    "ordered under complete",
    "fills",
    "same bits anyway",
    "exact everywhere",
    "JAX's rules",
]
#: The words, and what each means wherever it stands: the legend of a table. The first of several
#: words is the one that a reader has to know first.
WORDS: Mapping[Word, str] = {
    "raises": "The call raises an error that names it, or warns if `warn_only=True`.",
    "refused": "The guarantee `portable` has no path for it, and raises an error with the reason.",
    "may vary": "Two runs of one program on one machine can give other bits.",
    "unknown": "Nothing that the mode does can decide whether two runs give the same bits.",
    "deterministic": "The mode runs a deterministic algorithm, as the profile lists it.",
    "ordered under complete": (
        "PyTorch's documents do not list the call. The mode runs the deterministic algorithm of"
        " the profile `complete`."
    ),
    "fills": "The mode writes a known value into memory that would otherwise be uninitialized.",
    "same bits anyway": "Each run gives the same bits, also with the mode off.",
    "exact everywhere": (
        "The bits are the same on a CPU and on any GPU, over any number of devices."
    ),
    "JAX's rules": (
        "The call is made of primitives of JAX, and the rules of the guarantee `portable` hold for"
        " them: each gives the same bits everywhere, or is refused by name."
    ),
}
#: The sentence about memory that is not filled.
NOT_FILLED = "The memory is not filled: it keeps what it held, which can be anything."
SAME: Word = "same bits anyway"
#: The guarantee of a cell with the mode off.
OFF = None
#: The guarantees that a user can ask for.
GUARANTEES = ("run_to_run", "portable")


@dataclasses.dataclass(frozen=True)
class Cell:
    """The answer to the calls of an op that the rows do not tell apart.

    Attributes:
        op: The dotted name of the op: ``nn.functional.pad``, or ``lax.scatter_add``.
        kind: ``op`` for a function of ``impl``, ``primitive`` for a primitive of JAX.
        direction: ``forward`` for the call, ``backward`` for its gradient.
        device: The name of the device.
        condition: The calls, in English; empty for all of them. Among cells that differ in nothing
            else, the first one whose condition holds is the answer. So a cell without a condition
            is for all calls that meet no earlier condition.
        calls: The facts of one call for each case that the rows tell apart.
        profile: The profile; None where it does not matter: with the mode off, and for primitives
            of JAX.
        guarantee: ``run_to_run`` or ``portable``; None with the mode off.
        word: The answer.
        sentence: The answer to a person who sees no other cell.
        row: The id of the row that decides; None if no row does.
        order: The name of the order of the path that is taken; None if it has none.
        primitives: The names in a jaxpr that the cell is about; none for an op.
    """

    op: str
    kind: Literal["op", "primitive"]
    direction: spec.Direction
    device: str
    condition: str
    calls: tuple[spec.Facts, ...]
    profile: str | None
    guarantee: str | None
    word: Word
    sentence: str
    row: str | None = None
    order: str | None = None
    primitives: tuple[str, ...] = ()


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Returns the second parts of pairs by the first ones, in the order in which they come."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def ordered(words: Iterable[Word]) -> tuple[Word, ...]:
    """Returns words, each once, in the order of the legend."""
    found = set(words)
    return tuple(word for word in WORDS if word in found)


def number(word: Word) -> int:
    """Returns the number of a word in the legend. The class of HTML with it has the colour."""
    return list(WORDS).index(word)


def ops(rules: spec.Spec | None = None) -> tuple[str, ...]:
    """Returns the names of the ops, in alphabetical order."""
    rules = rules or spec.load()
    return tuple(sorted({row.op for row in rules.select(kind="op", active=True)}))


def primitives(rules: spec.Spec | None = None) -> tuple[str, ...]:
    """Returns the names that rows have for JAX's primitives, in alphabetical order."""
    rules = rules or spec.load()
    return tuple(sorted({row.op for row in rules.primitives if row.active}))


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
    under = [(None, OFF), *itertools.product(rules.profiles, GUARANTEES)]
    for direction in get_args(spec.Direction):
        rows = [r for r in rules.select(op=op, kind="op", active=True) if r.decides(direction)]
        own = [sample for sample in of_calls if direction in sample.directions]
        asked = {name for row in rows for name in row.when}
        stated = asked.union(*(sample.facts for sample in own))
        calls = _calls(rows, stated, rules)
        calls = [facts for facts in calls if not of_calls or _made(facts, own, asked)]
        places = itertools.product(spec.DEVICES, under) if rows and calls else ()
        for device, (profile, guarantee) in places:
            yield from _cells(op, direction, device, calls, profile, guarantee, rules)


def _calls(rows: Sequence[spec.Row], stated: Collection[str], rules: spec.Spec) -> list[spec.Facts]:
    """Returns the calls that rows of an op and a direction tell apart, or that are free of order.

    ``stated`` are the facts that calls of the op state.
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
    return sorted(groups, key=lambda each: (precedence_of(each.answer), each.free), reverse=True)


def _cells(
    op: str,
    direction: spec.Direction,
    device: str,
    calls: Sequence[spec.Facts],
    profile: str | None,
    guarantee: str | None,
    rules: spec.Spec,
) -> Iterator[Cell]:
    """Yields the cells under a profile and a guarantee.

    With the mode off, the project's own profile has the rows.
    """
    own = rules.own_profile or rules.default_profile
    found: dict[tuple[str | None, Word], _Group] = {}
    for group in _groups(op, direction, device, calls, profile or own, rules):
        row = group.answer.row
        key = row.id if row else None, _word(group, device, profile, guarantee, rules)
        earlier = found[key].calls if key in found else ()
        # Of the groups with one row and one word, the one that is not free of order comes last. Its
        # condition is the condition of the row.
        found[key] = dataclasses.replace(group, calls=(*earlier, *group.calls))
    for (id, word), group in found.items():
        order = None if group.free or guarantee is OFF else _order(group.answer, guarantee)
        yield Cell(
            op,
            "op",
            direction,
            device,
            group.condition(rules),
            group.calls,
            profile,
            guarantee,
            word,
            _sentence(word, group, profile, order, rules),
            id,
            order,
        )


def _word(
    group: _Group, device: str, profile: str | None, guarantee: str | None, rules: spec.Spec
) -> Word:
    """Returns the word for the calls of an op."""
    answer, row = group.answer, group.answer.row
    varies = row is not None and spec.varies(row, device, rules)
    if guarantee is OFF:
        if answer.effect == "unknown" and not group.fills:
            return "unknown"
        return "may vary" if (varies and not group.free) or group.is_memory else SAME
    if answer.effect == "raises":
        return "raises"
    if answer.effect == "fills":
        return "fills"
    if answer.effect == "unknown":
        return "may vary" if group.is_memory else "unknown"
    if guarantee == "portable":
        portable = spec.portable_answer(row) if row else None
        return "exact everywhere" if portable == "exact" else "JAX's rules"
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


def _sentence(
    word: Word, group: _Group, profile: str | None, order: str | None, rules: spec.Spec
) -> str:
    """Returns the answer for a person who sees no other cell."""
    answer, row = group.answer, group.answer.row
    if profile is None and not group.is_memory and word != "unknown":
        varies = word == "may vary"
        runs = "two runs can give other bits" if varies else "each run gives the same bits"
        return f"With the mode off, {runs}."
    if word == "raises" and row is not None:
        caller = row.callers.get(str(profile), row.op)
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


def of_primitive(op: str, rules: spec.Spec | None = None) -> tuple[Cell, ...]:
    """Returns the cells of a primitive of JAX, which are the same under every profile.

    With the guarantee ``portable`` there is a cell for each class of ``portable.toml`` that one of
    its names is in.

    Args:
        op: The name that rows have for the primitive: ``lax.scatter_add``.
        rules: The rows; None for this distribution's rows.
    """
    return tuple(_of_primitive(op, rules or spec.load()))


def _of_primitive(op: str, rules: spec.Spec) -> Iterator[Cell]:
    rows = [row for row in rules.primitives if row.op == op and row.active]
    names = tuple(dict.fromkeys(name for row in rows for name in row.primitives))
    for device in spec.DEVICES:
        for guarantee in (OFF, "run_to_run"):
            yield from _by_rows(op, names, rows, device, guarantee, rules)
        for found in _classes(names, rules):
            own = tuple(name for name in names if name in found.primitives) or names
            word: Word = "refused" if found.answer == "refused" else "exact everywhere"
            yield Cell(
                op,
                "primitive",
                "forward",
                device,
                f"floats are {', '.join(sorted(found.dtypes))}" if found.dtypes else "",
                (),
                None,
                "portable",
                word,
                " ".join(filter(None, (english.portability(found), found.remedy))),
                primitives=own,
            )


def _classes(names: Sequence[str], rules: spec.Spec) -> tuple[spec.Portability, ...]:
    """Returns the classes of primitives under ``portable``, each once."""
    tables = rules.class_of_primitive, rules.class_of_complex
    found = [table[name] for name in names for table in tables if name in table]
    return tuple({each.name: each for each in found}.values()) or (rules.unlisted,)


def _by_rows(
    op: str,
    names: tuple[str, ...],
    rows: Sequence[spec.Primitive],
    device: str,
    guarantee: str | None,
    rules: spec.Spec,
) -> Iterator[Cell]:
    """Yields the cells that rows decide, with the mode off or on."""
    resolved = (
        (spec.resolve_primitive(names[0], device, facts, rules).row, facts)
        for facts in distinct_calls(rows, rules.facts)
    )
    calls = grouped((row.id if row else None, facts) for row, facts in resolved)
    by_id = {row.id: row for row in rows}
    deciding = sorted((by_id[id] for id in calls if id), key=precedence, reverse=True)
    for row in [*deciding, *([None] if None in calls else [])]:
        word = _word_of_primitive(row, device, guarantee, rules) if row else "unknown"
        yield Cell(
            op,
            "primitive",
            "forward",
            device,
            english.conditions(row.when, rules.facts) if row else "",
            tuple(calls[row.id if row else None]),
            None,
            guarantee,
            word,
            WORDS[word],
            row.id if row else None,
            row.order if row and word == "deterministic" else None,
            row.primitives if row else names,
        )


def _word_of_primitive(
    row: spec.Primitive, device: str, guarantee: str | None, rules: spec.Spec
) -> Word:
    """Returns the word for the equations that a row decides."""
    effect = spec.effect_of_primitive(row, device, rules)
    if guarantee is not OFF and effect == "raises":
        return "raises"
    if guarantee is not OFF and effect == "ordered":
        return "deterministic"
    if spec.varies(row, device, rules):
        return "may vary"
    return "unknown" if effect == "unknown" and not row.mode_off else "same bits anyway"


def every() -> Iterator[Cell]:
    """Yields the cells of all ops, then the cells of all primitives of JAX."""
    for op in ops():
        yield from of_op(op)
    for primitive in primitives():
        yield from of_primitive(primitive)
