"""Whether the rows together decide every call once, and the same way each time."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeAlias, get_args

from spec import conditions
from spec.cases import cases
from spec.loader import thawed
from spec.model import DEVICES, Direction, Facts, Row, Spec

#: The id of a row, and what is wrong with it.
Finding: TypeAlias = tuple[str, str]


def findings(spec: Spec) -> Iterator[Finding]:
    """What is wrong between rows that are each right.

    Yields:
        The row's id, and what is wrong and what to do.
    """
    yield from _unique(spec)
    yield from _options(spec)
    families: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in spec.rows:
        if row.active and row.kind == "op":
            for direction in get_args(Direction):
                if row.decides(direction):
                    families[row.op, direction].append(row)
    for rows in families.values():
        yield from _ties(rows, spec)
        yield from _uncovered(rows, spec)


def _unique(spec: Spec) -> Iterator[Finding]:
    """Rows that stand twice, as data or as the reader sees them."""
    data: dict[Any, str] = {}
    seen: dict[Any, str] = {}
    for row in spec.rows:
        when = json.dumps(thawed(row.when), sort_keys=True)
        key = (row.op, row.device, row.direction, when, row.statement)
        if data.setdefault(key, row.id) != row.id:
            yield row.id, f"{data[key]} speaks of the same calls; make them one row"
            continue
        for profile, behaviour in row.behaviour.items():
            if behaviour is None:
                continue
            entry = (row.torch, row.condition, behaviour, profile, row.statement)
            if seen.setdefault(entry, row.id) != row.id:
                yield row.id, f"{seen[entry]} reads the same under {profile}; tell them apart"


def _options(spec: Spec) -> Iterator[Finding]:
    """Two rows that set one option to different values: both can hold."""
    first: dict[str, Row] = {}
    for row in spec.rows:
        for option, value in row.options.items():
            other = first.setdefault(option, row)
            if other.options[option] != value:
                yield row.id, f"{other.id} sets {option} to another value; let them agree"


def _ties(rows: list[Row], spec: Spec) -> Iterator[Finding]:
    """Two rows that decide one call with equal right and say different things."""
    reported: set[tuple[str, str, str]] = set()
    for facts, device, profile in _calls(rows, spec):
        matching = [row for row in rows if _speaks(row, device, profile, facts)]
        top = max(map(conditions.specificity, matching), default=None)
        tied = [row for row in matching if conditions.specificity(row) == top]
        for one, other in itertools.pairwise(tied):
            if _says(one, profile) == _says(other, profile):
                continue
            if (one.id, other.id, profile) not in reported:
                reported.add((one.id, other.id, profile))
                call = f"{dict(facts)} on {device} under {profile}"
                yield (
                    other.id,
                    f"{one.id} decides {call} as well and differs; ask for one more fact in one",
                )


def _uncovered(rows: list[Row], spec: Spec) -> Iterator[Finding]:
    """Calls that a profile of ours, which speaks of every op, leaves out or refuses."""
    own = [name for name, profile in spec.profiles.items() if not profile.release]
    for row, profile in itertools.product(rows, own):
        if row.behaviour[profile] == "raise":
            yield row.id, f"it raises under {profile}, where nothing does; give it an order"
    reported: set[tuple[str, str, str]] = set()
    for facts, device, profile in _calls(rows, spec):
        listing = [row for row in rows if conditions.holds(row.when, facts)]
        if profile not in own or any(_speaks(row, device, profile, facts) for row in listing):
            continue
        for row in listing[:1]:
            if (row.id, device, profile) not in reported:
                reported.add((row.id, device, profile))
                call = f"{row.op} ({row.direction}) with {dict(facts)} on {device}"
                yield row.id, f"no row says what {call} does under {profile}; add one"


def _calls(rows: list[Row], spec: Spec) -> Iterator[tuple[Facts, str, str]]:
    return itertools.product(cases(rows, spec.facts), DEVICES, spec.profiles)


def _speaks(row: Row, device: str, profile: str, facts: Facts) -> bool:
    return (
        row.covers(device)
        and row.behaviour[profile] is not None
        and conditions.holds(row.when, facts)
    )


def _says(row: Row, profile: str) -> tuple[object, ...]:
    behaviour = row.behaviour[profile]
    return (behaviour, row.caller if behaviour == "raise" else (row.order, row.guarantee))
