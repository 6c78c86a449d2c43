"""Checks that the rows of an op decide every call, and that no two of them contradict."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeAlias, get_args

from spec import conditions
from spec.conditions import distinct_calls
from spec.loader import thawed
from spec.model import Direction, Facts, Primitive, Row, Spec

#: The id of a row, and a description of the problem.
Finding: TypeAlias = tuple[str, str]


def findings(spec: Spec) -> Iterator[Finding]:
    """Yields the id of a row, and its problem with another row, where each is right alone."""
    yield from _twice(spec)
    yield from _options(spec)
    groups: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in spec.rows:
        if row.active and row.kind == "op":
            for direction in get_args(Direction):
                if row.decides(direction):
                    groups[row.op, direction].append(row)
    for rows in groups.values():
        yield from _ties(rows, spec)
        yield from _uncovered(rows, spec)
    yield from _primitives(spec)


def _primitives(spec: Spec) -> Iterator[Finding]:
    """Yields rows about primitives that contradict, or leave out a call on some device."""
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    owner: dict[str, Primitive] = {}
    for row in spec.primitives:
        groups[row.op].append(row)
        for name in row.primitives:
            other = owner.setdefault(name, row)
            if (other.op, other.primitives) != (row.op, row.primitives):
                yield row.id, f"{other.id} has the primitive {name!r} too; give them one op"
    devices = [*(device.name for device in spec.devices.values() if device.platforms), "any"]
    for op, rows in groups.items():
        reported: set[object] = set()
        for facts, device in itertools.product(distinct_calls(rows, spec.facts), devices):
            matching = [r for r in rows if r.covers(device) and conditions.holds(r.when, facts)]
            narrowest = max(map(conditions.precedence, matching), default=None)
            tied = [row for row in matching if conditions.precedence(row) == narrowest]
            call = f"{op} with {dict(facts)} on {device}"
            if not tied and device not in reported:
                reported.add(device)
                yield rows[0].id, f"no row says what {call} does; add one"
            for first, second in itertools.pairwise(tied):
                outcomes = [
                    (r.behaviour, r.order, r.guarantee, r.mode_off) for r in (first, second)
                ]
                if outcomes[0] != outcomes[1] and (first.id, second.id) not in reported:
                    reported.add((first.id, second.id))
                    yield second.id, f"{first.id} decides {call} as well and differs"


def _twice(spec: Spec) -> Iterator[Finding]:
    """Yields rows that are equal, as data or as a reader sees them."""
    as_data: dict[Any, str] = {}
    as_read: dict[Any, str] = {}
    for row in (*spec.rows, *spec.primitives):
        when = json.dumps(thawed(row.when), sort_keys=True)
        key = (row.op, row.device, row.direction, when, row.statement)
        first = as_data.setdefault(key, row.id)
        if first != row.id:
            yield row.id, f"{first} speaks of the same calls; make them one row"
            continue
        for profile, behaviour in row.behaviour.items():
            if behaviour is None:
                continue
            line = (row.torch or row.op, row.condition, behaviour, profile, row.statement)
            first = as_read.setdefault(line, row.id)
            if first != row.id:
                yield row.id, f"{first} reads the same under {profile}; tell them apart"


def _options(spec: Spec) -> Iterator[Finding]:
    """Yields rows that set one option to different values, since both rows can hold."""
    first: dict[str, Row] = {}
    for row in spec.rows:
        for option, value in row.options.items():
            other = first.setdefault(option, row)
            if other.options[option] != value:
                yield row.id, f"{other.id} sets {option} to another value; let them agree"


def _ties(rows: list[Row], spec: Spec) -> Iterator[Finding]:
    """Yields two equally specific rows that decide one call differently."""
    reported: set[tuple[str, str, str]] = set()
    for facts, device, profile in _calls(rows, spec):
        matching = [row for row in rows if _decides(row, device, profile, facts)]
        narrowest = max(map(conditions.specificity, matching), default=None)
        tied = [row for row in matching if conditions.specificity(row) == narrowest]
        for first, second in itertools.pairwise(tied):
            if _outcome(first, profile) == _outcome(second, profile):
                continue
            if (first.id, second.id, profile) not in reported:
                reported.add((first.id, second.id, profile))
                call = f"{dict(facts)} on {device} under {profile}"
                yield (
                    second.id,
                    f"{first.id} decides {call} as well and differs; ask for one more fact in one",
                )


def _uncovered(rows: list[Row], spec: Spec) -> Iterator[Finding]:
    """Yields calls that our own profiles, which cover every op, leave out or refuse."""
    own = [name for name, profile in spec.profiles.items() if not profile.release]
    for row, profile in itertools.product(rows, own):
        if row.behaviour[profile] == "raise":
            yield row.id, f"it raises under {profile}, where nothing does; give it an order"
    reported: set[tuple[str, str, str]] = set()
    for facts, device, profile in _calls(rows, spec):
        matching = [row for row in rows if conditions.holds(row.when, facts)]
        if profile not in own or any(_decides(row, device, profile, facts) for row in matching):
            continue
        for row in matching[:1]:
            if (row.id, device, profile) not in reported:
                reported.add((row.id, device, profile))
                call = f"{row.op} ({row.direction}) with {dict(facts)} on {device}"
                yield row.id, f"no row says what {call} does under {profile}; add one"


def _calls(rows: list[Row], spec: Spec) -> Iterator[tuple[Facts, str, str]]:
    """Yields the facts, the device and the profile of every call that the rows tell apart."""
    devices = [each.name for each in spec.devices.values() if each.platforms and not each.like]
    return itertools.product(distinct_calls(rows, spec.facts), devices, spec.profiles)


def _decides(row: Row, device: str, profile: str, facts: Facts) -> bool:
    return (
        row.covers(device)
        and row.behaviour[profile] is not None
        and conditions.holds(row.when, facts)
    )


def _outcome(row: Row, profile: str) -> tuple[object, ...]:
    """Returns what the row makes of a call under the profile."""
    behaviour = row.behaviour[profile]
    if behaviour == "raise":
        return behaviour, row.callers.get(profile)
    return behaviour, row.order, row.guarantee
