"""What is known not to pass, and why: ``known.toml``."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable
from importlib.resources import files

from conformance.compiled import TARGETS
from conformance.compiled.programs import Tried


@dataclasses.dataclass(frozen=True)
class Known:
    """A fault that is known.

    Attributes:
        op: The op that has it.
        says: A part of what is said of it.
        reason: Why it is there, and why it is no fault of the program.
        targets: The GPUs for which it is there.
    """

    op: str
    says: str
    reason: str
    targets: tuple[str, ...] = TARGETS

    def is_of(self, tried: Tried, fault: str) -> bool:
        """Whether this is a fault of ``tried``."""
        return tried.about["op"] == self.op and tried.target in self.targets and self.says in fault


def load() -> tuple[Known, ...]:
    """The entries of ``known.toml``.

    Raises:
        ValueError: An entry lacks a field, has one too many, or names no target that there is.
    """
    path = files("conformance.compiled") / "known.toml"
    return read(tomllib.loads(path.read_text(encoding="utf-8")).get("known", []))


def read(entries: Iterable[dict[str, object]]) -> tuple[Known, ...]:
    """Entries from their tables: ``ops``, ``says``, ``reason``, and ``targets`` if not for all.

    Raises:
        ValueError: As ``load``.
    """
    found: list[Known] = []
    for entry in entries:
        fields = set(entry)
        if not {"ops", "says", "reason"} <= fields <= {"ops", "says", "reason", "targets"}:
            raise ValueError(
                f"known.toml: an entry has {sorted(fields)}; it needs ops, says and reason, and "
                "may have targets"
            )
        targets = tuple(map(str, _listed(entry.get("targets", TARGETS))))
        if not set(targets) <= set(TARGETS):
            raise ValueError(f"known.toml: of the targets {targets} not all are in {TARGETS}")
        rest = str(entry["says"]), str(entry["reason"]), targets
        found.extend(Known(str(op), *rest) for op in _listed(entry["ops"]))
    return tuple(found)


def _listed(value: object) -> Iterable[object]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"known.toml: {value!r} is to be a list")  # noqa: TRY004  # a file's value
    return value
