"""The keys that a row of a TOML file may leave out, and the values that they then have.

``torch``
    ``torch.`` and the op: ``torch.index_add``. Empty for a primitive of JAX.
``source``
    A row that only our own profile lists cites the first sentence of that profile's statement.
    Sources that the row gives come after it.
``state`` and ``reason``
    A row of a device that JAX has no platform for is out of scope, for the reason that
    ``devices.toml`` gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

#: A table of a TOML file.
Table: TypeAlias = Mapping[str, Any]


def completed(row: Table, profiles: Table, devices: Table) -> dict[str, Any]:
    """Returns a row with the defaults of the keys that it leaves out.

    A key of a wrong type stays as it is, so that the lint can report it.

    Args:
        row: As TOML has it.
        profiles: The content of ``profiles.toml``.
        devices: The content of ``devices.toml``.
    """
    full = dict(row)
    if row.get("kind") == "primitive":
        full.setdefault("torch", "")
    elif isinstance(row.get("op"), str):
        full.setdefault("torch", f"torch.{row['op']}")
    sources = row.get("source", [])
    if isinstance(sources, list):
        sources = [*_own_statements(row.get("behaviour"), profiles), *sources]
        full |= {"source": sources} if sources else {}
    device = row.get("device")
    if isinstance(device, str) and "reason" in devices.get(device, {}) and "state" not in row:
        full["state"] = "out_of_scope"
        full.setdefault("reason", devices[device]["reason"])
    return full


def _own_statements(behaviour: Any, profiles: Table) -> list[dict[str, Any]]:
    """Returns sources that cite our own profiles, if these alone list the row."""
    if not isinstance(behaviour, dict) or not behaviour.keys() <= profiles.keys():
        return []
    if any(profiles[name]["release"] for name in behaviour):
        return []
    return [
        {"document": "profiles", "releases": [name], "phrase": _first_sentence(name, profiles)}
        for name in behaviour
    ]


def _first_sentence(profile: str, profiles: Table) -> str:
    statement: str = profiles[profile]["statement"]
    return statement.partition(". ")[0].removesuffix(".")
