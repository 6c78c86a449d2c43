"""The behaviour to expect of an implementation that is one release of PyTorch.

A profile lists what the documents of its own release state. The implementation under test may be
another release. The profiles of the releases before and after it then tell what its documents
state, and the errata of rows tell where its code differs from its documents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import spec
from conformance.suite.cells import Cell, ReleaseBehaviour
from spec.conditions import specificity


def number(release: str) -> tuple[int, ...]:
    """Returns the major and minor number of a release: ``2.13.0+cpu`` equals ``2.13``."""
    return tuple(int(part) for part in release.split("+", maxsplit=1)[0].split(".")[:2])


def for_release(cell: Cell, release: str) -> Cell:
    """Returns the cell with the behaviour to expect of a release of PyTorch."""
    behaviour = expected(cell, release)
    if behaviour.reason is None and behaviour.caller == cell.caller:
        return cell
    return dataclasses.replace(cell, release=behaviour)


def expected(cell: Cell, release: str) -> ReleaseBehaviour:
    """Returns the behaviour of a release in a cell, by its documents and the errata."""
    rules = spec.load()
    neighbours = list(_neighbours(rules.profiles.values(), number(release)))
    names = [profile.name for profile in neighbours]
    listed = {name: _listed(rules, cell, name, names) for name in names}
    erratum = _erratum(rules, cell, names, number(release))
    if erratum is not None:
        agrees = erratum.behaviour == cell.behaviour
        return dataclasses.replace(erratum, row=cell.row, reason=None) if agrees else erratum
    behaviours = {entry.behaviour for entry in listed.values()}
    if len(behaviours) > 1 or behaviours == {cell.behaviour}:
        return ReleaseBehaviour(cell.behaviour, cell.row, _caller(cell.row, cell.behaviour, names))
    (profile, entry), *_ = listed.items()
    release = rules.profiles[profile].release
    return dataclasses.replace(entry, reason=f"The documents of {release} say so.")


def _caller(
    row: spec.Row | None, behaviour: spec.Behaviour | None, neighbours: Iterable[str]
) -> str | None:
    """Returns the name in the alert of a release, by the profiles of the releases around it."""
    if row is None or behaviour != "raise":
        return None
    named = [row.callers[profile] for profile in neighbours if profile in row.callers]
    return next(iter((*named, *row.callers.values())), None)


def _listed(
    rules: spec.Spec, cell: Cell, profile: str, neighbours: Iterable[str]
) -> ReleaseBehaviour:
    row = spec.deciding_row(
        rules.rows, cell.op, cell.direction, cell.device, cell.sample.facts, profile
    )
    behaviour = row.behaviour[profile] if row else None
    return ReleaseBehaviour(behaviour, row, _caller(row, behaviour, neighbours))


def _neighbours(
    profiles: Iterable[spec.Profile], release: tuple[int, ...]
) -> Iterator[spec.Profile]:
    """Yields the profile of the last release up to this one, and of the first from it on."""
    ordered = sorted((p for p in profiles if p.release), key=lambda p: number(p.release))
    before = [p for p in ordered if number(p.release) <= release]
    after = [p for p in ordered if number(p.release) >= release]
    neighbours = {p.name: p for p in (*before[-1:], *after[:1])}
    yield from neighbours.values()


def _erratum(
    rules: spec.Spec, cell: Cell, neighbours: list[str], release: tuple[int, ...]
) -> ReleaseBehaviour | None:
    """Returns the behaviour of the code by the narrowest row with an erratum for a cell, if any."""
    releases = [p.name for p in rules.profiles.values() if p.release]
    facts = cell.sample.facts
    matching = [
        row
        for row in rules.select(op=cell.op, active=True)
        if row.decides(cell.direction)
        and row.covers(cell.device)
        and spec.holds(row.when, facts)
        # A row that only other releases list tells nothing about this one. A row of this project
        # that no release lists may have an erratum for every release.
        and (
            any(row.behaviour[p] for p in neighbours) or not any(row.behaviour[p] for p in releases)
        )
    ]
    for row in sorted(matching, key=specificity, reverse=True):
        errata = [erratum for erratum in row.errata if _is_about(erratum, cell.device, release)]
        if not errata or any(
            specificity(row) < specificity(other) and any(other.behaviour[p] for p in neighbours)
            for other in matching
        ):
            continue  # A narrower row lists the call, so these errata do not speak of it.
        for erratum in errata:
            reason = f"Erratum of {row.id}: {erratum.statement}"
            if spec.holds(erratum.when, facts):
                caller = erratum.caller or _caller(row, erratum.behaviour, neighbours)
                return ReleaseBehaviour(erratum.behaviour, row, caller, reason)
            if erratum.unaffected_elsewhere:
                return ReleaseBehaviour(None, row, reason=reason)
    return None


def _is_about(erratum: spec.Erratum, device: str, release: tuple[int, ...]) -> bool:
    """Returns whether facts, the device and the release tell that an erratum holds for a call."""
    last = release if erratum.until is None else number(erratum.until)
    # The suite does not know which calls those are that only English describes.
    return (
        erratum.calls is None
        and erratum.covers(device)
        and number(erratum.since) <= release <= last
    )
