"""The exports."""

import copy
import csv
import io
import itertools
import json
import tomllib
from pathlib import Path
from typing import get_args

import jsonschema
import pytest

import spec
from spec import export
from spec.calls import distinct_calls
from spec.export import as_csv, as_json
from spec.loader import ROOT, frozen
from spec.model import Direction
from spec.tests.reader import deciding, deciding_primitive


@pytest.fixture(scope="module")
def exported():
    return json.loads(as_json(spec.load()))


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft202012Validator.check_schema(export.schema())
    return jsonschema.Draft202012Validator(export.schema())


def test_rows_are_those_of_the_spec(exported):
    loaded = spec.load()
    assert [entry["id"] for entry in exported["rows"]] == [row.id for row in loaded.rows]
    for entry, row in zip(exported["rows"], loaded.rows, strict=True):
        assert entry["behaviour"] == dict(row.behaviour)
        assert frozen(entry["when"]) == row.when
        assert entry["condition"] == row.condition
        assert [source["phrase"] for source in entry["source"]] == [s.phrase for s in row.sources]
        assert entry["caller"] == dict(row.callers)
        same = ("op", "torch", "device", "direction", "message", "guarantee", "order", "kind")
        assert [entry[name] for name in same] == [getattr(row, name) for name in same]


@pytest.mark.parametrize("kind", ["profiles", "orders", "facts", "documents", "devices"])
def test_vocabularies_are_those_of_the_spec(kind, exported):
    records = getattr(spec.load(), kind)
    assert list(exported[kind]) == list(records)
    for name, record in records.items():
        title = "about" if kind == "facts" else "english" if kind == "devices" else "title"
        assert exported[kind][name][title] == getattr(record, title)


def test_the_statement_of_an_order_has_its_numbers(exported):
    for name, order in spec.load().orders.items():
        assert exported["orders"][name]["statement"] == order.statement


def test_an_erratum_keeps_its_condition(exported):
    for entry, row in zip(exported["rows"], spec.load().rows, strict=True):
        for exported_erratum, erratum in zip(entry["errata"], row.errata, strict=True):
            assert frozen(exported_erratum["when"]) == erratum.when
            same = ("statement", "since", "until", "behaviour", "calls", "device", "caller")
            assert [exported_erratum[n] for n in same] == [getattr(erratum, n) for n in same]


def test_an_erratum_has_its_source_and_its_releases(exported):
    (entry,) = [row for row in exported["rows"] if row["id"] == "R0137"]
    (erratum,) = entry["errata"]
    assert (erratum["since"], erratum["since_is_bound"], erratum["until"]) == ("1.7", True, "2.9")
    assert {source["document"] for source in erratum["source"]} == {"code", "binary"}
    assert all(source["file"] and source["phrase"] for source in erratum["source"])


def test_a_caller_has_a_name_for_each_profile_that_raises(exported):
    callers = {row["id"]: row["caller"] for row in exported["rows"]}
    assert callers["R0059"] == {"torch-2.12": "cumsum_cuda_kernel"}
    assert callers["R0091"]["torch-1.10"] == "_histc_cuda"
    assert callers["R0091"]["torch-2.12"] == "_histc_cuda with floating point input"


def test_the_licence_is_that_of_the_distribution(exported):
    pyproject = Path(str(ROOT)).parent / "pyproject.toml"
    if not pyproject.exists():
        pytest.skip("a wheel has no pyproject.toml")
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    assert exported["meta"]["licence"] == project["license"]


def test_the_document_meets_its_schema(exported, validator):
    assert [error.message for error in validator.iter_errors(exported)] == []


BROKEN = {
    "a row without an id": (lambda data: data["rows"][0].pop("id"), "'id' is a required"),
    "a behaviour that does not exist": (
        lambda data: data["rows"][0]["behaviour"].update(complete="crash"),
        "'crash' is not one of",
    ),
    "a key that nobody described": (
        lambda data: data["rows"][0].update(mood="good"),
        "'mood' was unexpected",
    ),
    "a table too few": (lambda data: data.pop("orders"), "'orders' is a required"),
    "a condition that is not a test": (
        lambda data: data["rows"][0].update(when={"dtype": {"like": 1}}),
        "not valid under any",
    ),
    "a version without numbers": (
        lambda data: data["meta"].update(version="next"),
        "'next' does not match",
    ),
    "another schema": (
        lambda data: data["meta"]["schema"].update(id="urn:samebits:export-schema:0.0.0"),
        "was expected",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_document_does_not_meet_its_schema(name, exported, validator):
    break_it, message = BROKEN[name]
    data = {**copy.deepcopy({**exported, "rows": []}), "rows": copy.deepcopy(exported["rows"][:1])}
    assert validator.is_valid(data)
    break_it(data)
    assert any(message in error.message for error in validator.iter_errors(data))


def test_a_reader_decides_each_call_as_the_spec_does(exported):
    loaded = spec.load()
    devices = [device.name for device in loaded.devices.values() if device.platforms]
    kinds = list(itertools.product(get_args(Direction), devices, loaded.profiles))
    for op in {row.op for row in loaded.rows if row.kind == "op"}:
        data = {**exported, "rows": [row for row in exported["rows"] if row["op"] == op]}
        rows = loaded.select(op=op)
        for facts in distinct_calls(rows, loaded.facts):
            for direction, device, profile in kinds:
                decider = loaded.decider(device, profile)
                row = spec.deciding_row(rows, op, direction, decider, facts, profile)
                decided = deciding(data, op, direction, device, facts, profile)
                assert (decided and decided["id"]) == (row and row.id)


def test_csv_has_a_line_for_each_row_and_a_column_for_each_profile():
    loaded = spec.load()
    lines = list(csv.DictReader(io.StringIO(as_csv(loaded))))
    for line, row in zip(lines, loaded.rows, strict=True):
        assert line["id"] == row.id
        assert {name: line[name] or None for name in loaded.profiles} == dict(row.behaviour)
        assert json.loads(line["when"]).keys() == row.when.keys()
        assert all(source.phrase in line["source"] for source in row.sources)
        assert [e["statement"] for e in json.loads(line["errata"] or "[]")] == [
            erratum.statement for erratum in row.errata
        ]


def test_a_reader_of_the_document_decides_equations_as_the_library_does(exported):
    rules = spec.load()
    by_op = itertools.groupby(rules.primitives, key=lambda row: row.op)
    for rows in (list(group) for _, group in by_op):
        primitive = rows[0].primitives[0]
        for facts in distinct_calls(rows, rules.facts):
            for device in ("cpu", "cuda", "any"):
                found = deciding_primitive(exported, primitive, device, facts)
                answer = spec.resolve_primitive(primitive, device, facts)
                assert (found and found["id"]) == (answer.row and answer.row.id)
