"""Choices of rows, and words about them, from which templates make lists."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import spec
from answers import grouped
from spec import english, releases_of_jax
from spec.resolve import answers_of, unlisted

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
#: The behaviours of PyTorch's documents and of its code, in the words of a reader.
BEHAVIOURS: Mapping[spec.Behaviour | None, str] = {
    "deterministic": "deterministic",
    "raise": "raises",
    "fill": "fills memory",
}
#: The sections of a profile's page about rows that it lists, by their behaviour.
LISTED: Mapping[spec.Behaviour, str] = {
    "deterministic": "Operations that become deterministic",
    "raise": "Operations that raise",
    "fill": "Operations that fill memory",
}
#: The sections about calls that the documents do not list, by the effect of the mode.
UNLISTED: Mapping[spec.Effect, str] = {
    "ordered_unlisted": "Operations that the documents do not list, and that are ordered here",
    "fills": "Operations that the documents do not list, and that fill memory here",
    "same": "Operations that the documents do not list, and that give the same bits anyway",
}
OUT_OF_SCOPE = "Out of scope"
#: The sections of rows that set options of XLA, by kind.
OPTIONS: Mapping[spec.Kind, str] = {
    "backend": "Switches of backends",
    "compiler": "Rules of the compiler",
}


def unlisted_rows(profile: str, effect: spec.Effect) -> list[spec.Row]:
    """Returns the rows that decide calls which the profile does not list, with this effect."""
    rules = spec.load()
    rows = rules.select(kind="op", active=True)
    return [row for row in rows if unlisted(row, profile, rules) == effect]


def of_kind(kind: str) -> tuple[spec.Row, ...]:
    """Returns the active rows of a kind other than ``op``."""
    if kind not in spec.KINDS or kind == "op":
        raise ValueError(f"no kind {kind!r} to list; there are {spec.KINDS[1:]}")
    return spec.load().select(kind=kind, active=True)


def by_op() -> Mapping[str, Sequence[spec.Row]]:
    """Returns all rows by the name of their op, those about functions first."""
    rows = sorted(spec.load().rows, key=lambda row: (row.kind != "op", row.op, row.id))
    return grouped((row.op, row) for row in rows)


def effects(row: spec.Row) -> Mapping[tuple[str, str], Sequence[str]]:
    """Returns the profiles by a heading and a text about the row under them."""
    return grouped((_effect(row, profile), profile) for profile in row.behaviour)


def _effect(row: spec.Row, profile: str) -> tuple[str, str]:
    if row.behaviour[profile]:
        return english.verb(row.behaviour[profile]).capitalize(), ""
    if row.kind != "op" or not row.active:
        return "Not listed", ""
    effect = unlisted(row, profile)
    if effect is not None:
        return "Not listed", english.EFFECTS[effect]
    others = sorted({answer.row.id for answer in answers_of(row, profile) if answer.row})
    return "Left to other rows", ", ".join(others)


def callers(row: spec.Row) -> Mapping[str, Sequence[str]]:
    """Returns the profiles by the name that their alerts have for a row."""
    return grouped((caller, profile) for profile, caller in row.callers.items())


def documented(row: spec.Row, profiles: Sequence[spec.Profile]) -> str:
    """Returns what PyTorch's documents list for a row, by the releases that have a profile."""
    releases = grouped(
        (BEHAVIOURS.get(row.behaviour[profile.name], "not listed"), str(profile.release))
        for profile in profiles
        if profile.release
    )
    if len(releases) == 1:
        return next(iter(releases))
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in releases.items())


def changes() -> Iterator[tuple[spec.Profile, spec.Profile, list[spec.Row]]]:
    """Yields each pair of releases that follow each other, and the rows whose behaviour changed."""
    rules = spec.load()
    released = [profile for profile in rules.profiles.values() if profile.release]
    for old, new in itertools.pairwise(released):
        yield (
            old,
            new,
            [row for row in rules.rows if row.behaviour[old.name] != row.behaviour[new.name]],
        )


def primitives(effect: str, device: str, *, named: bool = False) -> list[spec.Primitive]:
    """Returns the rows about primitives that have one effect on a device, by their name.

    ``named`` leaves out rows about any device.
    """
    rows = [
        row
        for row in spec.load().primitives
        if row.active
        and (row.device == device if named else row.covers(device))
        and spec.effect_of_primitive(row, device) == effect
    ]
    if device not in spec.DEVICES or not rows:
        raise ValueError(f"no row about a primitive has the effect {effect!r} on {device!r}")
    return sorted(rows, key=lambda row: (row.op, row.id))


def orders_of_derivatives(found: releases_of_jax.Otherwise) -> str:
    """Returns the orders of the derivatives of a function that differ, in English."""
    kinds = {"": found.bits, " at borders": found.borders, " not tried": found.untried}
    return "; ".join(", ".join(map(str, orders)) + kind for kind, orders in kinds.items() if orders)


def urls() -> Mapping[str, str]:
    """Returns the addresses of the project that pyproject.toml names, by their labels."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    addresses: Mapping[str, str] = project.get("urls", {})
    return addresses
