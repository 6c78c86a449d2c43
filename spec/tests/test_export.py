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
        assert [frozen(erratum["when"]) for erratum in entry["errata"]] == [
            erratum.when for erratum in row.errata
        ]
        same = ("op", "torch", "device", "direction", "message", "guarantee", "order", "kind")
        assert [entry[name] for name in same] == [getattr(row, name) for name in same]


def test_the_source_and_the_releases_of_an_erratum_are_exported():
    (entry,) = [row for row in json.loads(as_json(spec.load())) if row["id"] == "R0137"]
    (erratum,) = entry["errata"]
    assert (erratum["since"], erratum["since_is_bound"], erratum["until"]) == ("1.7", True, "2.9")
    assert {source["document"] for source in erratum["source"]} == {"code", "binary"}
    assert all(source["file"] and source["phrase"] for source in erratum["source"])


def test_a_caller_is_one_name_or_a_name_for_each_profile():
    callers = {row["id"]: row["caller"] for row in json.loads(as_json(spec.load()))}
    assert callers["R0059"] == "cumsum_cuda_kernel"
    assert callers["R0091"]["torch-1.10"] == "_histc_cuda"
    assert callers["R0091"]["torch-2.12"] == "_histc_cuda with floating point input"
    assert callers["R0001"] is None


def test_csv_has_a_line_for_each_row_and_a_column_for_each_profile():
    loaded = spec.load()
    lines = list(csv.DictReader(io.StringIO(as_csv(loaded))))
    for line, row in zip(lines, loaded.rows, strict=True):
        assert line["id"] == row.id
        assert {name: line[name] or None for name in loaded.profiles} == dict(row.behaviour)
        assert json.loads(line["when"]).keys() == row.when.keys()
        assert all(source.phrase in line["source"] for source in row.sources)
