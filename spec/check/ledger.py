"""The ledger of ids: every id that was issued, with its op, and the ids that are retired."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from spec.model import SpecError

_HEAD = """\
# Every id that was ever issued, with its op. An id is permanent and is never used for another row.
# `python -m spec ids --write` adds new ones. To withdraw a row, delete it and add its id to
# `retired` with the reason, in one sentence; its line in `issued` stays.
"""

_ID = re.compile(r"R\d{4}")

#: File, id and op of each row.
Used: TypeAlias = Sequence[tuple[str, str, str]]


def findings(used: Used, ledger: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yields the file, the id and the text of each problem between the rows and the ledger."""
    issued, retired = ledger.get("issued", {}), ledger.get("retired", {})
    first: dict[str, str] = {}
    for file, id, op in used:
        if id in first:
            yield file, id, f"{first[id]} has this id too; give one row the next free id"
            continue
        first[id] = file
        if id in retired:
            yield file, id, "this id is retired and never used again; take the next free id"
        elif id not in issued:
            yield file, id, "this id was never issued; run `python -m spec ids --write`"
        elif issued[id] != op:
            yield (
                file,
                id,
                f"this id was issued for {issued[id]!r}, not {op!r}; take the next free id",
            )
    for id in sorted(set(issued) - set(retired) - set(first)):
        yield (
            "ids.toml",
            id,
            f"no row has it, issued for {issued[id]!r}; restore the row or add it to [retired]",
        )
    for id in sorted(set(retired) - set(issued)):
        yield "ids.toml", id, "it is retired but was never issued; add it to [issued]"


def unissued(used: Used, ledger: Mapping[str, Any]) -> dict[str, str]:
    """Returns the ids that rows have and the ledger lacks, with their ops."""
    for file, id, _ in used:
        if not _ID.fullmatch(id):
            raise SpecError(f"{file}: {id!r} is not an id; run `python -m spec check`")
    known = {*ledger.get("issued", {}), *ledger.get("retired", {})}
    return {id: op for _, id, op in sorted(used, key=itemgetter(1)) if id not in known}


def next_free(used: Used, ledger: Mapping[str, Any]) -> str:
    """Returns the id for the next new row."""
    known = {*ledger.get("issued", {}), *ledger.get("retired", {}), *(id for _, id, _ in used)}
    return f"R{max((int(id[1:]) for id in known), default=0) + 1:04d}"


def text(ledger: Mapping[str, Any], new: Mapping[str, str]) -> str:
    """Returns the ledger with the ``new`` ids added, as TOML."""
    tables = {"issued": {**ledger.get("issued", {}), **new}, "retired": ledger.get("retired", {})}
    lines = [_HEAD]
    for name, table in tables.items():
        # A JSON string is a TOML basic string.
        lines.append(f"[{name}]")
        lines += [f"{id} = {json.dumps(value)}" for id, value in sorted(table.items())]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def write(path: Path, ledger: Mapping[str, Any], new: Mapping[str, str]) -> None:
    """Writes the ledger with the ``new`` ids added."""
    path.write_text(text(ledger, new), encoding="utf-8")
