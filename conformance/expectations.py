"""The ops that are known not to exist yet: ``expectations.toml``."""

from __future__ import annotations

import tomllib
from importlib.resources import files


def missing_ops() -> dict[str, str]:
    """Each op that is expected to be missing, with the reason.

    Raises:
        ValueError: An op stands in two entries, or an entry gives no reason.
    """
    table = tomllib.loads((files("conformance") / "expectations.toml").read_text(encoding="utf-8"))
    reasons: dict[str, str] = {}
    for entry in table.get("missing", []):
        if not entry.get("reason"):
            raise ValueError(f"expectations.toml: the entry of {entry['ops']} gives no reason")
        for op in entry["ops"]:
            if op in reasons:
                raise ValueError(f"expectations.toml: {op} stands in two entries; remove one")
            reasons[op] = entry["reason"]
    return reasons
