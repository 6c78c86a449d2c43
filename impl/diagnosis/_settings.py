"""Items about environment variables, flags of XLA and settings of JAX.

The table ``settings.toml`` has their verdicts.

For example, ``XLA_FLAGS="--xla_gpu_deterministic_ops=true --xla_new=1"`` has the items::

    xla_gpu_deterministic_ops   fixed   on a GPU: The older name of
                                        xla_gpu_exclude_nondeterministic_ops.
    xla_gpu_deterministic_ops   fixed   on a CPU: It does nothing on a CPU.
    xla_new                     fixed   on both: The doctor knows nothing of this flag. ...
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from impl import _jax
from impl._mode import compilation
from impl.diagnosis._report import Item, Verdict

Kind: TypeAlias = Literal["flag", "variable", "config"]

#: The sections, in their order in a report.
SECTIONS = ("XLA flags", "Caches", "Environment variables", "JAX settings")

_SECTIONS: dict[Kind, str] = {
    "flag": "XLA flags",
    "variable": "Environment variables",
    "config": "JAX settings",
}
#: A program that starts XLA.
_PROGRAM = "import jax; jax.devices()"
_SAME = "It is the same in each process with this environment."


@dataclasses.dataclass(frozen=True)
class ProcessSettings:
    """The settings of a process, by name: flags of XLA and variables that are set, all of JAX."""

    flag: Mapping[str, str]
    variable: Mapping[str, str]
    config: Mapping[str, str]

    def fulfils(self, condition: Mapping[str, list[str]]) -> bool:
        """Returns whether each setting of a condition has one of the values that it allows."""
        settings = {**self.config, **self.variable, **self.flag}
        return all(settings.get(name) in values for name, values in condition.items())


@dataclasses.dataclass(frozen=True)
class Case:
    """A verdict on a setting, and the conditions under which it applies.

    Attributes:
        verdict: The verdict.
        reason: The reason for it.
        remedy: The remedy; None if there is none.
        values: The values of the setting; None for any.
        set: Whether the setting has to be set; None for either.
        given: The settings of which one group has to hold; None for no condition.
        platforms: The platforms; None for any.
    """

    verdict: Verdict
    reason: str
    remedy: str | None = None
    values: Sequence[str] | None = None
    set: bool | None = None
    given: Sequence[Mapping[str, list[str]]] | None = None
    platforms: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True)
class Setting:
    """One entry of the table."""

    kind: Kind
    name: str
    section: str
    cases: tuple[Case, ...]
    platforms: Sequence[str] | None = None
    usual: Sequence[str] = ()


@functools.cache
def table() -> tuple[Setting, ...]:
    """Returns the settings of the table, whose cases name conditions; it is read once."""
    raw = tomllib.loads(Path(__file__).with_name("settings.toml").read_text(encoding="utf-8"))
    return tuple(_setting({None: None, **raw["conditions"]}, **each) for each in raw["setting"])


def _setting(conditions: Any, kind: Kind, name: str, case: Any = (), **rest: Any) -> Setting:
    cases = tuple(
        Case(values=each.pop("is", None), given=conditions[each.pop("given", None)], **each)
        for each in case
    )
    return Setting(kind, name, rest.pop("section", _SECTIONS[kind]), cases, **rest)


def items(settings: ProcessSettings, platform: str | None) -> Iterator[Item]:
    """Yields the items of the settings, in the table's order; of all if no platform is known."""
    for setting in table():
        for name, value in _values(setting, settings):
            yield from _judged(setting, name, value, settings, platform)
    known_flags = [setting.name for setting in table() if setting.kind == "flag"]
    for name, value in settings.flag.items():
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in known_flags):
            reason = f"The doctor knows nothing of this flag. {_SAME}"
            yield Item(_SECTIONS["flag"], name, value, "fixed", reason)


def _values(setting: Setting, settings: ProcessSettings) -> list[tuple[str, str | None]]:
    """Returns the settings that an entry is about, with their values; None if one is not set."""
    present: Mapping[str, str] = getattr(settings, setting.kind)
    if setting.kind != "config" and "*" not in setting.name:
        return [(setting.name, present.get(setting.name))]
    # A config that this release of JAX does not have gives no item.
    return [
        (name, value) for name, value in present.items() if fnmatch.fnmatchcase(name, setting.name)
    ]


def _judged(
    setting: Setting, name: str, value: str | None, settings: ProcessSettings, platform: str | None
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
            and (case.given is None or any(map(settings.fulfils, case.given)))
        ):
            yield Item(setting.section, name, shown, case.verdict, case.reason, case.remedy)
            return
    if is_set:
        yield Item(setting.section, name, value, "fixed", _SAME)


def of_process() -> ProcessSettings:
    """Returns the settings of this process."""
    # The value of an enumeration, such as a precision, is in its attribute ``value``.
    values = sorted(_jax.settings().items())
    config = {name: str(getattr(value, "value", value)) for name, value in values}
    flags = compilation.parsed(os.environ.get("XLA_FLAGS", ""))
    return ProcessSettings(flags, os.environ, config)


def refusal() -> str | None:
    """Returns XLA's message about a flag in XLA_FLAGS that it refuses; None if it accepts all.

    XLA aborts the process if it does not know a flag. Another process therefore starts it, on the
    CPU.
    """
    if not os.environ.get("XLA_FLAGS", "").strip() or not sys.executable:
        return None
    try:
        done = subprocess.run(  # noqa: S603  # This interpreter runs the program above.
            [sys.executable, "-c", _PROGRAM],
            capture_output=True,
            check=False,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    logged = re.findall(r"[\w.]+\.cc:\d+\] (.+)", done.stderr)
    lines = logged or done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    return str(lines[0])
