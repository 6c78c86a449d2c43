"""What is to be expected of an implementation that is one release of PyTorch.

A profile says what the documents of its own release list. Another release has documents of its
own, of which the profiles before and after it tell, and code that may differ from them, of which
the errata tell.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import spec
from conformance.cells import Cell, Expected
from spec.conditions import specificity


def number(release: str) -> tuple[int, ...]:
    """A release as numbers to compare by: ``2.13.0+cpu`` is as ``2.13``."""
    return tuple(int(part) for part in release.split("+", maxsplit=1)[0].split(".")[:2])


def seen(cell: Cell, release: str) -> Cell:
    """The cell as a release of PyTorch is expected to see it."""
    found = expected(cell, release)
    return cell if found.why is None else dataclasses.replace(cell, instead=found)


def expected(cell: Cell, release: str) -> Expected:
    """What a release of PyTorch is to do in a cell, by the documents and the errata.

    Args:
        cell: A call, and the profile that it is tried under.
        release: Of what runs it, as ``2.13``.
    """
    rules = spec.load()
    near = list(_around(rules.profiles.values(), number(release)))
    listed = {profile.name: _listed(rules, cell, profile.name) for profile in near}
    erratum = _erratum(rules, cell, [profile.name for profile in near], number(release))
    if erratum is not None:
        return erratum if erratum.behaviour != cell.behaviour else _as_listed(cell)
    behaviours = {one.behaviour for one in listed.values()}
    if len(behaviours) > 1 or behaviours == {cell.behaviour}:
        return _as_listed(cell)
    (profile, now), *_ = listed.items()
    release = rules.profiles[profile].release
    return dataclasses.replace(now, why=f"The documents of {release} say so.")


def _as_listed(cell: Cell) -> Expected:
    return Expected(cell.behaviour, cell.row)


def _listed(rules: spec.Spec, cell: Cell, profile: str) -> Expected:
    row = spec.deciding_row(
        rules.rows, cell.op, cell.direction, cell.device, cell.sample.facts, profile
    )
    return Expected(row.behaviour[profile] if row else None, row)


def _around(profiles: Iterable[spec.Profile], release: tuple[int, ...]) -> Iterator[spec.Profile]:
    """The profiles of the last release up to this one, and of the first from it on."""
    known = sorted((p for p in profiles if p.release), key=lambda p: number(p.release))
    before = [p for p in known if number(p.release) <= release]
    after = [p for p in known if number(p.release) >= release]
    chosen = {p.name: p for p in (*before[-1:], *after[:1])}
    yield from chosen.values()


def _erratum(
    rules: spec.Spec, cell: Cell, near: list[str], release: tuple[int, ...]
) -> Expected | None:
    """What the narrowest row says of the code that the documents do not, if any does."""
    releases = [p.name for p in rules.profiles.values() if p.release]
    facts = cell.sample.facts
    matching = [
        row
        for row in rules.select(op=cell.op, active=True)
        if row.decides(cell.direction)
        and row.covers(cell.device)
        and spec.holds(row.when, facts)
        # A row of other releases alone says nothing of this one; ours may say what none lists.
        and (any(row.behaviour[p] for p in near) or not any(row.behaviour[p] for p in releases))
    ]
    told = [row for row in matching if row.erratum and number(row.erratum.since) <= release]
    for row in sorted(told, key=specificity, reverse=True):
        assert row.erratum is not None  # noqa: S101  # narrows its type
        if any(
            specificity(row) < specificity(o) and any(o.behaviour[p] for p in near)
            for o in matching
        ):
            continue  # What is listed more narrowly is not what this erratum speaks of.
        why = f"Erratum of {row.id}: {row.erratum.statement}"
        if spec.holds(row.erratum.when, facts):
            return Expected(row.erratum.behaviour, row, why)
        if row.erratum.unaffected_elsewhere:
            return Expected(None, row, why)
    return None
