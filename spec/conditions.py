"""Decides whether the facts of a call meet a ``when``, and which row decides a call.

It yields the calls that the rows of an op can tell apart, so that each of them can be checked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from spec.model import Direction, Fact, Facts, FactValue, Row, Spec, SpecError, Test


def meets(test: Test, value: FactValue) -> bool:
    """Returns whether the ``value`` of one fact passes the ``test`` of a ``when``."""
    if isinstance(test, Mapping):
        bounds = {"min": lambda limit: value >= limit, "max": lambda limit: value <= limit}
        return all(
            value not in limit if name == "not" else bounds[name](limit)
            for name, limit in test.items()
        )
    if isinstance(test, tuple):
        return value in test
    return value == test


def holds(when: Mapping[str, Test], facts: Facts) -> bool:
    """Returns whether ``facts`` pass every test of ``when``.

    Raises:
        SpecError: ``when`` asks for a fact that the op did not state.
    """
    missing = sorted(set(when) - set(facts))
    if missing:
        raise SpecError(f"the spec asks for {missing}, which the op did not state")
    return all(meets(test, facts[name]) for name, test in when.items())


def check_facts(facts: Facts, vocabulary: Mapping[str, Fact]) -> None:
    """Raises if a fact is not in the vocabulary or has a value of the wrong type.

    Raises:
        SpecError: A name is unknown, or a value is of the wrong type.
    """
    for name, value in facts.items():
        fact = vocabulary.get(name)
        if fact is None:
            raise SpecError(f"unknown fact {name!r}; facts.toml has {sorted(vocabulary)}")
        right = {
            "bool": isinstance(value, bool),
            "int": isinstance(value, int) and not isinstance(value, bool),
            "choice": value in fact.values,
            "string": isinstance(value, str),
        }[fact.type]
        if not right:
            allowed = list(fact.values) or fact.type
            raise SpecError(f"fact {name!r} got {value!r}; allowed: {allowed}")


def deciding_row(
    rows: Iterable[Row], op: str, direction: Direction, device: str, facts: Facts, profile: str
) -> Row | None:
    """Returns the active row that decides a call under ``profile``, or None.

    If several rows match, the row that asks for the most facts decides, because documents state
    the rule first and its exceptions after it. Of two rows that ask for equally many facts, the
    row that names the device decides before the row for any device. ``spec.check`` reports a tie
    that is left.

    Raises:
        SpecError: A row asks for a fact that the op did not state.
    """
    matching = [
        row
        for row in rows
        if row.op == op and may_decide(row, direction, device, profile) and holds(row.when, facts)
    ]
    return max(matching, key=specificity, default=None)


def may_decide(row: Row, direction: Direction, device: str, profile: str) -> bool:
    """Returns whether the row is active, and lists some calls of this kind under ``profile``."""
    return (
        row.decides(direction)
        and row.active
        and row.covers(device)
        and row.behaviour[profile] is not None
    )


def specificity(row: Row) -> tuple[int, bool]:
    """Returns how narrow a row is: the number of its facts, then whether it names a device."""
    return len(row.when), row.device != "any"


def precedence(row: Row) -> tuple[bool, int]:
    """Returns the precedence of a row about a primitive of JAX.

    A row that names the device is about a path of its own there, so it decides before all rows for
    any device. Between rows of one device the number of facts decides.
    """
    return row.device != "any", len(row.when)


def yields_to(row: Row, spec: Spec) -> tuple[Row, ...]:
    """Returns the rows that decide, instead of ``row``, each call that both match.

    It asks ``deciding_row`` about one such call for each row, because the answer is the same for
    all of them. Of rows of other kinds than ``op``, several can hold at once: none yields.
    """
    rivals = [r for r in spec.rows if r.op == row.op and r.kind == row.kind == "op"]
    return tuple(rival for rival in rivals if rival is not row and _goes_before(rival, row, spec))


def _goes_before(first: Row, second: Row, spec: Spec) -> bool:
    """Returns whether some call matches both rows, and ``first`` decides it."""
    rows = [row for row in spec.rows if row in (first, second)]  # In the order of the files.
    devices = [device.name for device in spec.devices.values() if device.platforms]
    kinds = [
        kind
        for kind in itertools.product(get_args(Direction), devices, spec.profiles)
        if all(may_decide(row, *kind) for row in rows)
    ]
    for facts in distinct_calls(rows, spec.facts) if kinds else ():
        if all(holds(row.when, facts) for row in rows):
            direction, device, profile = kinds[0]
            return deciding_row(rows, first.op, direction, device, facts, profile) is first
    return False


def distinct_calls(rows: Iterable[Row], facts: Mapping[str, Fact]) -> Iterator[Facts]:
    """Yields the facts of one call for each case that ``rows`` can decide.

    The values of a fact lie on both sides of every test. Any other call is decided as one of
    these: the rows see no difference between two numbers if no test has its bound between them,
    nor between two strings that no test names.

    Args:
        rows: The rows of one op and direction.
        facts: The vocabulary.
    """
    tests: dict[str, list[Test]] = {}
    for row in rows:
        for name, test in row.when.items():
            tests.setdefault(name, []).append(test)
    values = [_values(facts[name], tests_of_fact) for name, tests_of_fact in tests.items()]
    for combination in itertools.product(*values):
        yield dict(zip(tests, combination, strict=True))


def named_values(test: Test) -> list[FactValue]:
    """Returns the values that a test names."""
    if isinstance(test, Mapping):
        return [value for limit in test.values() for value in named_values(limit)]
    return list(test) if isinstance(test, tuple) else [test]


def _values(fact: Fact, tests: Iterable[Test]) -> list[FactValue]:
    if fact.type == "bool":
        return [False, True]
    if fact.type == "choice":
        return list(fact.values)
    named = [value for test in tests for value in named_values(test)]
    if fact.type == "string":
        return sorted({"", *map(str, named)})
    numbers = {int(value) + step for value in named for step in (-1, 0, 1)}
    return sorted(number for number in numbers if number >= 0)
