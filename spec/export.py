"""Renders the rows as JSON or CSV, for tools that do not import Python.

A row has all its keys there, with the defaults of those that its TOML file leaves out.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from spec.loader import thawed
from spec.model import Erratum, Row, Source, Spec


def objects(spec: Spec) -> list[dict[str, Any]]:
    """Returns every row as plain data, in the order of the files."""
    return [_object(row) for row in spec.rows]


def as_json(spec: Spec) -> str:
    """Returns the rows as a JSON list of objects."""
    return json.dumps(objects(spec), indent=2, ensure_ascii=False) + "\n"


def as_csv(spec: Spec) -> str:
    """Returns the rows as a flat CSV table with a column for each profile.

    ``when``, the errata and the options are JSON; the sources of a row are separated by semicolons.
    """
    table = [_flat(row, spec) for row in spec.rows]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(table[0]) if table else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def _object(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "op": row.op,
        "torch": row.torch,
        "device": row.device,
        "direction": row.direction,
        "condition": row.condition,
        "when": thawed(row.when),
        "behaviour": dict(row.behaviour),
        "caller": _caller(row),
        "message": row.message,
        "source": [_source(source) for source in row.sources],
        "guarantee": row.guarantee,
        "order": row.order,
        "mode_off": row.mode_off,
        "covers_backward": row.covers_backward,
        "switch": row.switch,
        "errata": [_erratum(erratum) for erratum in row.errata],
        "kind": row.kind,
        "state": row.state,
        "reason": row.reason,
        "note": row.note,
        "statement": row.statement,
        "in_xla": row.in_xla,
        "options": dict(row.options),
        "caveat": row.caveat,
    }


def _caller(row: Row) -> str | dict[str, str] | None:
    """Returns the name in the alerts of a row: one, or a name for each profile if they differ."""
    names = set(row.callers.values())
    return dict(row.callers) if len(names) > 1 else next(iter(names), None)


def _source(source: Source) -> dict[str, Any]:
    return {
        "document": source.document,
        "releases": list(source.releases),
        "phrase": source.phrase,
        "file": source.file,
    }


def _erratum(erratum: Erratum) -> dict[str, Any]:
    return {
        "statement": erratum.statement,
        "since": erratum.since,
        "since_is_bound": erratum.since_is_bound,
        "until": erratum.until,
        "behaviour": erratum.behaviour,
        "when": thawed(erratum.when),
        "calls": erratum.calls,
        "device": erratum.device,
        "caller": erratum.caller,
        "unaffected_elsewhere": erratum.unaffected_elsewhere,
        "source": [_source(source) for source in erratum.sources],
    }


def _flat(row: Row, spec: Spec) -> dict[str, str]:
    caller = _caller(row)
    return {
        "id": row.id,
        "op": row.op,
        "torch": row.torch,
        "device": row.device,
        "direction": row.direction,
        "condition": row.condition,
        "when": json.dumps(thawed(row.when)),
        **{name: row.behaviour[name] or "" for name in spec.profiles},
        "caller": json.dumps(caller) if isinstance(caller, dict) else caller or "",
        "message": row.message or "",
        "guarantee": row.guarantee or "",
        "order": row.order or "",
        "mode_off": row.mode_off or "",
        "covers_backward": str(row.covers_backward).lower(),
        "switch": row.switch or "",
        "errata": json.dumps([_erratum(erratum) for erratum in row.errata]),
        "kind": row.kind,
        "state": row.state,
        "reason": row.reason or "",
        "note": row.note or "",
        "statement": row.statement or "",
        "in_xla": row.in_xla or "",
        "options": json.dumps(dict(row.options)),
        "caveat": row.caveat or "",
        "source": "; ".join(_cite(source) for source in row.sources),
    }


def _cite(source: Source) -> str:
    return f"{source.document} {', '.join(source.releases)}: {source.phrase}"
