"""The exports."""

import csv
import io
import json

import spec
from spec.export import as_csv, as_json
from spec.loader import frozen


def test_json_says_what_the_rows_say():
    loaded = spec.load()
    exported = json.loads(as_json(loaded))
    assert [entry["id"] for entry in exported] == [row.id for row in loaded.rows]
    for entry, row in zip(exported, loaded.rows, strict=True):
        assert entry["behaviour"] == dict(row.behaviour)
        assert frozen(entry["when"]) == row.when
        assert entry["condition"] == row.condition
        assert [source["phrase"] for source in entry["source"]] == [s.phrase for s in row.sources]
        assert (entry["erratum"] is None) == (row.erratum is None)
        same = ("op", "torch", "device", "direction", "caller", "guarantee", "order", "kind")
        assert [entry[name] for name in same] == [getattr(row, name) for name in same]


def test_csv_has_a_line_for_each_row_and_a_column_for_each_profile():
    loaded = spec.load()
    lines = list(csv.DictReader(io.StringIO(as_csv(loaded))))
    for line, row in zip(lines, loaded.rows, strict=True):
        assert line["id"] == row.id
        assert {name: line[name] or None for name in loaded.profiles} == dict(row.behaviour)
        assert json.loads(line["when"]).keys() == row.when.keys()
        assert all(source.phrase in line["source"] for source in row.sources)
