"""Faults that are known and that the program does not cause: the entries of ``known_faults.toml``.

A known fault makes a record ``skipped`` and not ``failed``. An entry that matches no fault is an
error, so the file cannot go out of date.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable
from importlib.resources import files

from conformance.lab.compiled import TARGETS
from conformance.lab.compiled.row_calls import CheckedCall

_FILE = "known_faults.toml"
_REQUIRED = {"ops", "message", "reason"}


@dataclasses.dataclass(frozen=True)
class KnownFault:
    """A known fault of one op.

    Attributes:
        op: The op.
        message: A part of the fault's message.
        reason: Why the fault is there, and why the program does not cause it.
        targets: The GPUs for which the fault is there.
    """

    op: str
    message: str
    reason: str
    targets: tuple[str, ...] = TARGETS

    def matches(self, call: CheckedCall, fault: str) -> bool:
        """Returns whether ``fault``, a fault of ``call``, is this one."""
        return call.about["op"] == self.op and call.target in self.targets and self.message in fault


def load() -> tuple[KnownFault, ...]:
    """Returns the entries of ``known_faults.toml``.

    Raises:
        ValueError: An entry lacks a field, has an unknown field, or names an unknown target.
    """
    path = files("conformance.lab.compiled") / _FILE
    return parse(tomllib.loads(path.read_text(encoding="utf-8")).get("fault", []))


def parse(entries: Iterable[dict[str, object]]) -> tuple[KnownFault, ...]:
    """Returns the known faults of the tables of the file.

    Raises:
        ValueError: As ``load``.
    """
    faults: list[KnownFault] = []
    for entry in entries:
        fields = set(entry)
        if not _REQUIRED <= fields <= _REQUIRED | {"targets"}:
            raise ValueError(
                f"{_FILE}: an entry has {sorted(fields)}; it needs ops, message and reason, and "
                "may have targets"
            )
        targets = tuple(map(str, _as_list(entry.get("targets", TARGETS))))
        if not set(targets) <= set(TARGETS):
            raise ValueError(f"{_FILE}: of the targets {targets} not all are in {TARGETS}")
        rest = str(entry["message"]), str(entry["reason"]), targets
        faults.extend(KnownFault(str(op), *rest) for op in _as_list(entry["ops"]))
    return tuple(faults)


def _as_list(value: object) -> Iterable[object]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{_FILE}: {value!r} is to be a list")  # noqa: TRY004  # a file's value
    return value
