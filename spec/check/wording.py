"""Checks that texts are short, are sentences, and state facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from spec.check.names import FileRow, Finding

#: The greatest number of characters, and of sentences, of each text of a row.
_LIMITS = {
    "statement": (180, 1),
    "note": (310, 3),
    "reason": (140, 1),
    "in_xla": (240, 2),
    "caveat": (240, 2),
    "evidence": (240, 2),
    "remedy": (240, 2),
}
#: The same for the texts of vocabularies. An order takes as many short sentences as it needs.
_PROFILE = (240, 2)
_ORDER = (1600, 30)
_VARIES = (240, 4)


def findings(rows: list[FileRow], tables: Mapping[str, Any]) -> Iterator[Finding]:
    """Yields texts that are too long, do not end with a full stop, or state a wish."""
    for file, name, key, text, (longest, most) in _texts(rows, tables):
        if len(text) > longest:
            yield file, name, f"{key} has {len(text)} characters; say it in {longest}"
        if not text.endswith("."):
            yield file, name, f"{key} does not end with a full stop; add it"
        if len(re.findall(r"[.!?](?=\s+[A-Z`])", text)) >= most:
            yield file, name, f"{key} has more than {most} sentence(s); say it in fewer"
        if re.search(r"\bshould\b", text, re.IGNORECASE):
            yield file, name, f"{key} uses `should`; state the fact"


def _texts(
    rows: list[FileRow], tables: Mapping[str, Any]
) -> Iterator[tuple[str, str, str, str, tuple[int, int]]]:
    """Yields the file, the row or entry, the key, the text and the limits of each text."""
    for file, row in rows:
        for table in (row, *row.get("erratum", [])):
            for key, text in table.items():
                if key in _LIMITS:
                    yield file, row["id"], key, text, _LIMITS[key]
    for name, profile in tables["profiles"].items():
        yield "profiles.toml", name, "statement", profile["statement"], _PROFILE
    for name, order in tables["orders"].items():
        yield "orders.toml", name, "statement", order["statement"], _ORDER
        if "varies" in order:
            yield "orders.toml", name, "varies", order["varies"], _VARIES
    for name, fact in tables["facts"].items():
        yield "facts.toml", name, "about", fact["about"], _LIMITS["reason"]
    for name, device in tables["devices"].items():
        if "reason" in device:
            yield "devices.toml", name, "reason", device["reason"], _LIMITS["reason"]
    for id, text in tables["ids"]["retired"].items():
        yield "ids.toml", id, "reason", text, _LIMITS["reason"]
