"""Settings and their verdicts, by the table in ``settings.toml``."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from impl.diagnosis._report import Item, Verdict

Kind: TypeAlias = Literal["flag", "variable", "config"]

#: In their order in a report.
SECTIONS = ("XLA flags", "Caches", "Environment variables", "JAX settings")

_SECTIONS: dict[Kind, str] = {
    "flag": "XLA flags",
    "variable": "Environment variables",
    "config": "JAX settings",
}
_SAME = "It is the same in each process with this environment."


@dataclasses.dataclass(frozen=True)
class Found:
    """The settings of this process: values by name, of what is set (of a config, of all)."""

    flag: Mapping[str, str]
    variable: Mapping[str, str]
    config: Mapping[str, str]

    def has(self, wanted: Mapping[str, list[str]]) -> bool:
        """Whether each of these settings has one of its values."""
        everything = {**self.config, **self.variable, **self.flag}
        return all(everything.get(name) in values for name, values in wanted.items())


@dataclasses.dataclass(frozen=True)
class Case:
    """What is said of a setting where all that is given here fits."""

    verdict: Verdict
    reason: str
    remedy: str | None = None
    values: tuple[str, ...] | None = None
    set: bool | None = None
    given: str | None = None
    platforms: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Setting:
    """One entry of the table."""

    kind: Kind
    name: str
    section: str
    cases: tuple[Case, ...]
    platforms: tuple[str, ...] | None
    usual: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Table:
    """The table: settings, and the conditions that their cases name."""

    settings: tuple[Setting, ...]
    conditions: Mapping[str, list[dict[str, list[str]]]]


@functools.cache
def table() -> Table:
    """The table, read once."""
    raw = tomllib.loads(Path(__file__).with_name("settings.toml").read_text(encoding="utf-8"))
    return Table(tuple(_setting(**entry) for entry in raw["setting"]), raw["conditions"])


def _setting(kind: Kind, name: str, case: Any = (), **rest: Any) -> Setting:
    return Setting(
        kind,
        name,
        rest.pop("section", _SECTIONS[kind]),
        tuple(_case(**entry) for entry in case),
        _tuple(rest.pop("platforms", None)),
        _tuple(rest.pop("usual", ())) or (),
        **rest,
    )


def _case(platforms: Any = None, **rest: Any) -> Case:
    return Case(values=_tuple(rest.pop("is", None)), platforms=_tuple(platforms), **rest)


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def items(found: Found, platform: str | None) -> Iterator[Item]:
    """What there is to say of each setting, in the order of the table.

    Args:
        found: The settings.
        platform: That of the devices; None where it is not known, when all may matter.
    """
    known = table()
    for setting in known.settings:
        for name, value in _values(setting, found):
            yield from _judged(known, setting, name, value, found, platform)
    flags = [setting.name for setting in known.settings if setting.kind == "flag"]
    for name, value in found.flag.items():
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in flags):
            reason = f"The doctor knows nothing of this flag. {_SAME}"
            yield Item(_SECTIONS["flag"], name, value, "fixed", reason)


def _values(setting: Setting, found: Found) -> list[tuple[str, str | None]]:
    """The settings of this process that an entry speaks of; one that is not set has None."""
    present: Mapping[str, str] = getattr(found, setting.kind)
    if setting.kind != "config" and "*" not in setting.name:
        return [(setting.name, present.get(setting.name))]
    # A release of JAX that has no such setting has nothing to be said of it.
    return [(name, value) for name, value in present.items() if _is(name, setting.name)]


def _is(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern)


def _judged(
    known: Table,
    setting: Setting,
    name: str,
    value: str | None,
    found: Found,
    platform: str | None,
) -> Iterator[Item]:
    is_set = value is not None and value not in setting.usual
    if platform is not None and setting.platforms and platform not in setting.platforms:
        if is_set:
            reason = f"It does nothing on a {platform.upper()}."
            yield Item(setting.section, name, value, "fixed", reason)
        return
    shown = None if setting.kind == "config" and value == "None" else value
    for case in setting.cases:
        if (
            (case.values is None or value in case.values)
            and case.set in (None, is_set)
            and (case.platforms is None or platform in case.platforms)
            and (case.given is None or any(map(found.has, known.conditions[case.given])))
        ):
            yield Item(setting.section, name, shown, case.verdict, case.reason, case.remedy)
            return
    if is_set:
        yield Item(setting.section, name, value, "fixed", _SAME)
