"""The ledger of ids: which were ever issued, for which op, and which are retired."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from spec.model import SpecError

_HEAD = """\
# Every id ever issued, with its op. An id is permanent and is never used for another row.
# `python -m spec ids --write` adds new ones. To withdraw a row, delete it and add its id to
# `retired` with the reason, in one sentence; its line in `issued` stays.
"""

_ID = re.compile(r"R\d{4}")

#: File, id and op of each row.
Used: TypeAlias = Sequence[tuple[str, str, str]]


def problems(used: Used, ledger: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What is wrong between the rows and the ledger.

    Args:
        used: File, id and op of each row.
        ledger: ``ids.toml`` as read.

    Yields:
        File, id, and what is wrong and what to do.
    """
    issued, retired = ledger.get("issued", {}), ledger.get("retired", {})
    first: dict[str, str] = {}
    for file, key, op in used:
        if key in first:
            yield file, key, f"{first[key]} has this id too; give one row the next free id"
            continue
        first[key] = file
        if key in retired:
            yield file, key, "this id is retired and never used again; take the next free id"
        elif key not in issued:
            yield file, key, "this id was never issued; run `python -m spec ids --write`"
        elif issued[key] != op:
            yield (
                file,
                key,
                f"this id was issued for {issued[key]!r}, not {op!r}; take the next free id",
            )
    for key in sorted(set(issued) - set(retired) - set(first)):
        yield (
            "ids.toml",
            key,
            f"no row has it, issued for {issued[key]!r}; restore the row or add it to [retired]",
        )
    for key in sorted(set(retired) - set(issued)):
        yield "ids.toml", key, "it is retired but was never issued; add it to [issued]"


def unissued(used: Used, ledger: Mapping[str, Any]) -> dict[str, str]:
    """The ids that rows have and the ledger lacks, with their ops.

    Raises:
        SpecError: What a row has for an id is none.
    """
    for file, key, _ in used:
        if not _ID.fullmatch(key):
            raise SpecError(f"{file}: {key!r} is no id; run `python -m spec check`")
    known = {*ledger.get("issued", {}), *ledger.get("retired", {})}
    return {key: op for _, key, op in sorted(used, key=itemgetter(1)) if key not in known}


def next_free(used: Used, ledger: Mapping[str, Any]) -> str:
    """The id for the next new row."""
    known = {*ledger.get("issued", {}), *ledger.get("retired", {}), *(key for _, key, _ in used)}
    return f"R{max((int(key[1:]) for key in known), default=0) + 1:04d}"


def write(path: Path, ledger: Mapping[str, Any], new: Mapping[str, str]) -> None:
    """Writes the ledger with the ``new`` ids added."""
    tables = {
        "issued": {**ledger.get("issued", {}), **new},
        "retired": ledger.get("retired", {}),
    }
    lines = [_HEAD]
    for name, table in tables.items():
        # A JSON string is a TOML basic string.
        lines.append(f"[{name}]")
        lines += [f"{key} = {json.dumps(text)}" for key, text in sorted(table.items())]
        lines.append("")
    path.write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")
