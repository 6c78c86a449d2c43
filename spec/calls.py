"""The calls that the rows of an op can tell apart, so that each of them can be checked."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from spec.model import Fact, Facts, FactValue, Row, Test


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
