"""Renders the spec as JSON or CSV, for tools that do not import Python.

The JSON is one document, which ``export.schema.json`` describes. A record has all its fields there:
a field that its TOML file leaves out has its default. Facts that follow from other records are
stated too, such as the rows to which a row yields, so that a reader needs no code of this project.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Mapping
from importlib import metadata
from typing import Any, get_args

from spec.conditions import yields_to
from spec.loader import ROOT
from spec.model import Guarantee, Order, Portability, Primitive, Row, Spec
from spec.resolve import portable_answer, portable_classes

#: The file that describes the document.
SCHEMA = "export.schema.json"
#: The fields of records that have another name in the document.
_NAMES = {"sources": "source", "callers": "caller"}
#: The fields of a row about a primitive in the document; no other field is about primitives.
_OF_PRIMITIVES = (
    *("id", "family", "op", "primitives", "device", "when", "condition", "behaviour", "source"),
    *("guarantee", "order", "mode_off", "evidence", "remedy", "note"),
)


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of the document."""
    content: dict[str, Any] = json.loads(schema_as_json())
    return content


def document(spec: Spec) -> dict[str, Any]:
    """Returns the spec as plain data: a table by name for each vocabulary, and a list of rows."""
    vocabularies = ("profiles", "facts", "documents", "devices")
    return {
        "meta": _meta(spec),
        **{kind: _by_name(getattr(spec, kind)) for kind in vocabularies},
        "orders": {name: _order(order, spec) for name, order in spec.orders.items()},
        "releases": list(spec.releases),
        "rows": [_row(row, spec) for row in spec.rows],
        "primitives": [_primitive(row, spec) for row in spec.primitives],
        "portable": {
            "classes": {name: _class(found) for name, found in spec.portable.items()},
            "unlisted": _class(spec.unlisted),
            "other_dtypes": _class(spec.other_dtypes),
            "refused_platforms": {
                name: {
                    "dtypes": sorted(found.dtypes or ()),
                    "reason": found.reason,
                    "remedy": found.remedy,
                }
                for name, found in spec.refused_platforms.items()
            },
        },
        "hints": [_plain(hint) for hint in spec.hints],
    }


def as_json(spec: Spec) -> str:
    """Returns the document as JSON."""
    return json.dumps(document(spec), indent=2, ensure_ascii=False) + "\n"


def schema_as_json() -> str:
    """Returns the schema of the document as JSON."""
    return (ROOT / SCHEMA).read_text(encoding="utf-8")


def as_csv(spec: Spec) -> str:
    """Returns the rows as a flat CSV table with a column for each profile.

    ``when``, errata and options are JSON. Other lists have semicolons between their entries.
    """
    table = [_flat(_row(row, spec)) for row in spec.rows]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(table[0]) if table else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def _meta(spec: Spec) -> dict[str, Any]:
    identifier = schema()["$id"]
    try:
        release = metadata.version("samebits")
    except metadata.PackageNotFoundError:
        release = None  # A checkout that is not installed.
    return {
        **_plain(spec.data),
        "schema": {"id": identifier, "version": identifier.rpartition(":")[2]},
        "generator": {"name": "samebits", "version": release},
    }


def _plain(value: Any) -> Any:
    """Returns records and mappings as dicts, tuples as lists, and scalars as they are."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {_NAMES.get(name, name): _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _by_name(records: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the records of a vocabulary, whose names are the keys."""
    plain = {name: _plain(record) for name, record in records.items()}
    for record in plain.values():
        del record["name"]
    return plain


def _order(order: Order, spec: Spec) -> dict[str, Any]:
    """Returns an order with its numbers in its statement, and the guarantees that it gives."""
    plain = _by_name({order.name: order})[order.name]
    rows = (*spec.rows, *spec.primitives)
    given = {row.guarantee for row in rows if row.order == order.name}
    return {
        **plain,
        "statement": order.statement,
        "guarantees": [guarantee for guarantee in get_args(Guarantee) if guarantee in given],
    }


def _row(row: Row, spec: Spec) -> dict[str, Any]:
    rivals = [other.id for other in yields_to(row, spec)]
    return {**_plain(row), "yields_to": rivals, "portable": portable_answer(row)}


def _primitive(row: Primitive, spec: Spec) -> dict[str, Any]:
    """Returns a row about a primitive, whose behaviour is the same under every profile."""
    plain = _plain(row)
    behaviour = next(iter(row.behaviour.values()), None)
    classes = [found.name for found in portable_classes(row, spec) if found.name]
    own = {"behaviour": behaviour, "portable": classes}
    return {name: plain[name] for name in _OF_PRIMITIVES} | own


def _class(found: Portability) -> dict[str, Any]:
    """Returns a class of primitives, whose name is its key."""
    plain: dict[str, Any] = _plain(found)
    del plain["name"]
    return {**plain, "dtypes": None if found.dtypes is None else sorted(found.dtypes)}


def _flat(row: dict[str, Any]) -> dict[str, str]:
    """Returns the cells of a row as ``_row`` gives it."""
    cells: dict[str, str] = {}
    for name, value in row.items():
        if name == "behaviour":
            cells |= {profile: behaviour or "" for profile, behaviour in value.items()}
        elif name == "source":
            cells[name] = "; ".join(map(_cite, value))
        else:
            cells[name] = _cell(value)
    return cells


def _cell(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return "; ".join(value)
    if isinstance(value, list | dict | bool):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


def _cite(source: dict[str, Any]) -> str:
    return f"{source['document']} {', '.join(source['releases'])}: {source['phrase']}"
