"""Checks errata and callers: the releases that they name, and the name in an alert."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from spec.check.names import FileRow, Finding


def findings(rows: list[FileRow], tables: Mapping[str, Any]) -> Iterator[Finding]:
    """Yields releases, devices and profiles of errata, sources and callers that do not fit."""
    for file, row in rows:
        errata = [_erratum(row, erratum, tables) for erratum in row.get("erratum", [])]
        for text in itertools.chain(_callers(row), _sources(row, tables), *errata):
            yield file, row["id"], text


def _callers(row: Mapping[str, Any]) -> Iterator[str]:
    """Yields a problem if the callers name other profiles than the ones that raise."""
    caller = row.get("caller")
    if not isinstance(caller, dict):
        return
    raising = {name for name, behaviour in row["behaviour"].items() if behaviour == "raise"}
    if set(caller) != raising:
        yield f"caller is of the profiles {sorted(caller)}; those that raise are {sorted(raising)}"
    elif len(set(caller.values())) == 1:
        yield "caller has the same name for all profiles; write it once"


def _sources(row: Mapping[str, Any], tables: Mapping[str, Any]) -> Iterator[str]:
    """Yields releases of sources that are neither a release nor a profile."""
    known = {*tables["releases"]["torch"], *tables["profiles"]}
    if row.get("kind") == "primitive":
        known = set(tables["releases"].get("jax", ()))
    sources = itertools.chain(row["source"], *(e["source"] for e in row.get("erratum", [])))
    for release in sorted({release for s in sources for release in s["releases"]} - known):
        yield f"source: {_unknown(release)}"


def _erratum(
    row: Mapping[str, Any], erratum: Mapping[str, Any], tables: Mapping[str, Any]
) -> Iterator[str]:
    releases = tables["releases"]["torch"]
    since, until = erratum["since"], erratum.get("until", releases[-1])
    unknown = [release for release in (since, until) if release not in releases]
    for release in unknown:
        yield f"erratum: {_unknown(release)}"
    if not unknown and releases.index(until) < releases.index(since):
        yield f"erratum: until {until} is before since {since}; swap them"
    device = erratum.get("device")
    if device is not None and (row["device"] != "any" or device not in tables["devices"]):
        yield f"erratum: device {device!r} is not one of devices.toml, or the row is for one device"
    named = not {"caller", "message"}.isdisjoint({*row, *erratum})
    if erratum["behaviour"] == "raise" and not named and row.get("state") != "out_of_scope":
        yield "erratum: it raises, and no caller is given; add the name in the alert"


def _unknown(release: str) -> str:
    return f"{release!r} is not a release in releases.toml; add it there"
