"""Checks the names that one file uses and another declares.

Profiles, orders, facts, devices, documents, releases and rows have names, and so do ops in alerts.

For ``order = "plane"`` in the first row of ``index_add.toml`` it yields a line::

    index_add.toml: R0001: the order 'plane' is not in orders.toml; add it there
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from spec import conditions, loader
from spec.conditions import named_values
from spec.model import Fact, SpecError, Test

#: The file of a row, and the row as TOML has it.
FileRow: TypeAlias = tuple[str, dict[str, Any]]
#: A file, the name of a row or of an entry, and a description of the problem.
Finding: TypeAlias = tuple[str, str, str]


def findings(rows: list[FileRow], tables: Mapping[str, Any]) -> Iterator[Finding]:
    """Yields names that are used and not declared, and names that are declared twice."""
    if sum(profile["default"] for profile in tables["profiles"].values()) != 1:
        yield "profiles.toml", "", "exactly one profile is the default; mark one"
    yield from _devices(tables["devices"])
    yield from _orders(tables["orders"], tables["facts"])
    yield from _portable(tables["portable"]["class"])
    yield from _hints(tables["hints"]["hint"], tables["portable"]["class"])
    for file, row in rows:
        errata = [_erratum(row, erratum, tables) for erratum in row.get("erratum", [])]
        own = (_row(row, tables), _device(row, tables["devices"]), _callers(row))
        for text in itertools.chain(*own, _sources(row, tables), *errata):
            yield file, row["id"], text
    yield from _files(rows)


def _devices(devices: Mapping[str, Any]) -> Iterator[Finding]:
    """Yields platforms and backends that two devices claim, and names that are unknown."""
    for device, entry in devices.items():
        unknown = sorted(set(entry.get("untried", {})) - set(entry["platforms"]))
        if unknown:
            yield "devices.toml", device, f"untried: {unknown} are no platforms of it"
        like = entry.get("like")
        if like is not None and ("like" in devices.get(like, {"like": ""}) or like == device):
            text = f"like: {like!r} is not a device with rows of its own"
            yield "devices.toml", device, text
    for kind in ("platforms", "backends"):
        owner: dict[str, str] = {}
        for device, entry in devices.items():
            for name in entry[kind]:
                if owner.setdefault(name, device) != device:
                    text = f"{kind}: {name!r} is {owner[name]!r} already; keep it in one of them"
                    yield "devices.toml", device, text


def _orders(orders: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Finding]:
    for name, order in orders.items():
        for when in order.get("order_free_when", []):
            for text in _when(when, facts):
                yield "orders.toml", name, f"order_free_when: {text}"


def _portable(classes: Mapping[str, Any]) -> Iterator[Finding]:
    """Yields primitives that are in two classes of real numbers, or of complex ones."""
    owners: dict[bool, dict[str, str]] = {True: {}, False: {}}
    for name, entry in classes.items():
        of_complex = any(dtype.startswith("complex") for dtype in entry.get("dtypes", ()))
        owner = owners[of_complex]
        for primitive in entry["primitives"]:
            if owner.setdefault(primitive, name) != name:
                text = f"{primitive!r} is in {owner[primitive]!r} already; keep it in one of them"
                yield "portable.toml", name, text


def _hints(hints: Sequence[Mapping[str, Any]], classes: Mapping[str, Any]) -> Iterator[Finding]:
    """Yields primitives of hints that no class has, or that a library has two hints on."""
    known = {name for entry in classes.values() for name in entry["primitives"]}
    seen: set[tuple[str, str]] = set()
    for hint in hints:
        library = hint["library"]
        for primitive in hint["primitives"]:
            if primitive not in known:
                text = f"{primitive!r} is in no class of portable.toml; correct it, or add it there"
                yield "hints.toml", library, text
            if (library, primitive) in seen:
                yield "hints.toml", library, f"{primitive!r} has a hint already; keep one of them"
            seen.add((library, primitive))


def _row(row: Mapping[str, Any], tables: Mapping[str, Any]) -> Iterator[str]:
    facts, profiles = tables["facts"], tables["profiles"]
    yield from _when(row.get("when", {}), facts)
    for erratum in row.get("erratum", []):
        for text in _when(erratum.get("when", {}), facts):
            yield f"erratum: {text}"
    if row.get("switch") not in (None, *facts):
        yield f"the fact {row['switch']!r} of switch is not in facts.toml; add it there"
    order = row.get("order")
    if order not in (None, *tables["orders"]):
        yield f"the order {order!r} is not in orders.toml; add it there"
    for source in itertools.chain(row["source"], *(e["source"] for e in row.get("erratum", []))):
        if source["document"] not in tables["documents"]:
            yield f"the document {source['document']!r} is not in documents.toml; add it there"
    listed = {} if row.get("kind") == "primitive" else row.get("behaviour", {})
    for name, behaviour in listed.items():
        if name not in profiles:
            yield f"the profile {name!r} is not in profiles.toml; use one of {sorted(profiles)}"
        else:
            yield from _citation(row, name, profiles[name]["release"], behaviour)


def _citation(row: Mapping[str, Any], profile: str, release: str, behaviour: str) -> Iterator[str]:
    """Yields a problem if no source of the row shows that a PyTorch release lists it."""
    # A switch is on no list, and neither is attention; the notes describe them.
    allowed = ["fill"] if behaviour == "fill" else ["list", "notes"]
    if row.get("kind") == "backend":
        allowed = ["notes"]
    cited = any(
        source["document"] in allowed and release in source["releases"] for source in row["source"]
    )
    if release and not cited:
        yield (
            f"no source says that {profile} lists it; cite the document "
            f"{' or '.join(map(repr, allowed))} of release {release}"
        )


def _device(row: Mapping[str, Any], devices: Mapping[str, Any]) -> Iterator[str]:
    device = row["device"]
    if device not in ("any", *devices):
        yield f"device {device!r} is not one of {['any', *devices]}; add it to devices.toml"
    elif device != "any" and "reason" in devices[device] and row["state"] != "out_of_scope":
        yield f"state must be out_of_scope: {devices[device]['reason']}"
    elif device != "any" and "like" in devices[device]:
        like = devices[device]["like"]
        yield f"no row may name {device!r}, where rows of {like!r} decide; leave `like` out of it"
    elif "mode_off" in row and device != "any" and not devices[device]["races"]:
        yield f"must not have mode_off: nothing races on {devices[device]['english']} device"


def _when(when: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[str]:
    """Yields unknown facts, values of a wrong type, and tests that have no English."""
    for name, test in when.items():
        if name not in facts:
            yield f"the fact {name!r} is not in facts.toml; add it there"
            continue
        fact = Fact(name=name, **loader.frozen(facts[name]))
        frozen: Test = loader.frozen(test)
        for value in named_values(frozen):
            try:
                conditions.check_facts({name: value}, {name: fact})
            except SpecError as error:
                yield str(error)
        for key in sorted(_phrases(fact, frozen) - set(fact.english)):
            yield f"the fact {name!r} has no English for {key!r}; add it in facts.toml"


def _phrases(fact: Fact, test: Test) -> set[str]:
    """Returns the keys of ``english`` that the test needs."""
    if isinstance(test, Mapping):
        return set(test)
    if fact.type == "bool" and isinstance(test, bool):
        return {"true" if test else "false"}
    return {"is"}


def _files(rows: list[FileRow]) -> Iterator[Finding]:
    """Yields rows whose op has rows in another file too."""
    first: dict[str, str] = {}
    for file, row in rows:
        home = first.setdefault(row["op"], file)
        if home != file:
            yield file, row["id"], f"the rows of {row['op']!r} are in {home}; move it there"


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
