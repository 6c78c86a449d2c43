"""Faults of XLA and JAX that a hunt meets again: the entries of ``known_faults.toml``.

The page *The same bits everywhere* lists them under *What it does not cover*.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path

from conformance.hunt.checks import Finding
from conformance.hunt.files import names_of_primitives

#: The file of the known faults.
FILE = Path(__file__).parent / "known_faults.toml"
_REQUIRED = {"name", "kinds", "statement", "link"}
_OPTIONAL = {"primitives", "partitions", "message", "axes"}


@dataclasses.dataclass(frozen=True)
class KnownFault:
    """A known fault.

    Attributes:
        name: Its name.
        kinds: The kinds of findings that it causes.
        statement: A sentence for the page.
        link: A report of the fault, or the section of the page that describes it.
        primitives: Primitives of which the program has one; none stand for any.
        partitions: The partitions of the setting; none stand for any.
        message: A part of the message.
        axes: The least number of axes of the mesh.
    """

    name: str
    kinds: tuple[str, ...]
    statement: str
    link: str
    primitives: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    message: str = ""
    axes: int = 0

    def matches(self, finding: Finding) -> bool:
        """Returns whether a finding, after it was shrunk, is this fault."""
        own = set(names_of_primitives(finding))
        return (
            finding.kind in self.kinds
            and (not self.primitives or bool(own & set(self.primitives)))
            and (not self.partitions or finding.setting.partition in self.partitions)
            and self.message in finding.detail
            and len(finding.setting.mesh) >= self.axes
        )


def load(path: Path = FILE) -> tuple[KnownFault, ...]:
    """Returns the known faults.

    Raises:
        ValueError: An entry lacks a field, or has an unknown one.
    """
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("fault", [])
    return tuple(map(_parsed, entries))


def _parsed(entry: Mapping[str, object]) -> KnownFault:
    fields = set(entry)
    if not _REQUIRED <= fields <= _REQUIRED | _OPTIONAL:
        raise ValueError(
            f"known_faults.toml: an entry has the fields {sorted(fields)}; it needs "
            f"{sorted(_REQUIRED)}, and may have {sorted(_OPTIONAL)}"
        )
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()}
    return KnownFault(**values)  # type: ignore[arg-type]  # The fields of the file are checked.
