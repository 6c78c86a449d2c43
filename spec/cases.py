"""The calls that an op's rows tell apart: one set of facts for each case they can decide."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from spec.model import Fact, Facts, FactValue, Row, Test


def cases(rows: Iterable[Row], facts: Mapping[str, Fact]) -> Iterator[Facts]:
    """Every combination of the facts that ``rows`` ask for, with values on each side of a test.

    A call outside the combinations is decided as one of them: between two numbers that no test
    names, and for two strings that no test names, the rows see no difference.

    Args:
        rows: The rows of one op and direction.
        facts: The vocabulary.

    Yields:
        One value for each fact asked for.
    """
    tests: dict[str, list[Test]] = {}
    for row in rows:
        for name, test in row.when.items():
            tests.setdefault(name, []).append(test)
    values = [_values(facts[name], asked) for name, asked in tests.items()]
    for combination in itertools.product(*values):
        yield dict(zip(tests, combination, strict=True))


def named_values(test: Test) -> list[FactValue]:
    """The values that a test names."""
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
