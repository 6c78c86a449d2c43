"""Reports: written whole, read strictly, shown, counted and compared, with PyTorch's documents too.

Tests: conformance.reporting.pytorch_differences, conformance.reporting.report.
"""

import dataclasses
import json
import re
from pathlib import Path

import jsonschema
import pytest

import conformance
from conformance import __main__ as command
from conformance.reporting import pytorch_differences, report
from conformance.reporting.report import Record, Report
from conformance.suite import releases
from conformance.suite.cells import cells
from conformance.tests.reporting._records import PASSED, SCHEMA, changed, written


def test_what_is_written_meets_the_schema_and_is_read_again(tmp_path):
    records = (PASSED, changed(row=None, lowering=None, sha256=None, detail="so"))
    path = written(tmp_path / "r.json", *records)
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    assert report.read(path).records == records
    assert [file.name for file in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    "path",
    sorted((Path(conformance.__file__).parent / "reports").glob("*.json")),
    ids=lambda p: p.name,
)
def test_kept_reports_meet_the_schema(path):
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), SCHEMA)


def test_the_schema_knows_every_field_of_a_record_and_no_other():
    fields = {field.name for field in dataclasses.fields(Record)}
    assert fields == set(SCHEMA["$defs"]["record"]["properties"])
    assert fields == set(SCHEMA["$defs"]["record"]["required"])


def test_a_report_that_cannot_be_written_leaves_the_earlier_one(tmp_path, monkeypatch):
    path = written(tmp_path / "r.json", PASSED)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        written(path, PASSED, PASSED)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "is not JSON"),
        ("[]", "is not a report of format 1"),
        ('{"format": 0}', "is not a report of format 1"),
        ('{"format": 1}', "breaks report_schema.json"),
        ('{"format": 1, "made": "", "environment": {}, "records": [{"row": 1}]}', "breaks"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path, text, message, capsys):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(report.ReportError, match=message):
        report.read(path)
    assert command.main(["show", str(path)]) == 2
    assert message in capsys.readouterr().err
    assert command.main(["diff", str(path), str(tmp_path / "none.json")]) == 2


def test_the_strongest_evidence_counts_and_none_does_where_a_check_failed():
    records = (
        changed(evidence="static"),
        PASSED,
        changed(row="R0002", evidence=None),
        changed(row="R0003"),
        changed(row="R0003", evidence="static", outcome="failed"),
        changed(row="R0004", outcome="skipped"),
        changed(row=None),
    )
    strongest = Report("", {}, records).strongest()
    assert strongest == {("R0001", "cuda"): "scheduled", ("R0002", "cuda"): None}
    assert [line.split() for line in report.table(records)] == [
        ["strongest", "evidence", "cuda"],
        ["scheduled", "1"],
        ["no", "evidence", "of", "bits", "1"],
        ["failed", "1"],
    ]


def test_an_update_keeps_other_records_of_the_same_environment(tmp_path):
    path, other = tmp_path / "r.json", changed(op="sort")
    report.update(path, {"jax": "1"}, [PASSED, other])
    report.update(path, {"jax": "1"}, [changed(outcome="failed")])
    assert [(r.op, r.outcome) for r in report.read(path).records] == [
        (PASSED.op, "failed"),
        ("sort", "passed"),
    ]
    report.update(path, {"jax": "2"}, [other])
    assert report.read(path).records == (other,)


@pytest.mark.parametrize(
    ("then", "text"),
    [
        ([changed(evidence="static")], "weaker: R0001 on cuda: scheduled before, static now"),
        ([], "weaker: R0001 on cuda: scheduled before, nothing now"),
        ([changed(outcome="failed", detail="why")], "fails: R0001 index_add .*: why"),
        ([changed(sha256="1" * 64)], f"other bits: R0001 .*: {'0' * 64} before, {'1' * 64} now"),
    ],
)
def test_a_difference_is_found_and_fails(tmp_path, capsys, then, text):
    old, new = written(tmp_path / "a.json", PASSED), written(tmp_path / "b.json", *then)
    assert command.main(["diff", str(old), str(new)]) == 1
    assert re.search(text, capsys.readouterr().out)
    assert command.main(["diff", str(old), str(old)]) == 0
    stronger = written(tmp_path / "c.json", PASSED, changed(evidence="hardware"))
    assert command.main(["diff", str(old), str(stronger)]) == 0


def test_show_prints_the_checks_that_failed(tmp_path, capsys):
    path = written(
        tmp_path / "r.json", PASSED, changed(row="R0002", outcome="failed", detail="why")
    )
    assert command.main(["show", str(path)]) == 1
    output = capsys.readouterr().out
    assert "1 failed, 1 passed" in output
    assert "failed: R0002" in output
    assert output.rstrip().endswith("why")
    assert command.main(["show", str(written(path, PASSED))]) == 0


def test_the_kept_report_of_pytorch_has_nothing_unexplained(capsys):
    file = Path(conformance.__file__).parent / "reports" / "torch-2.13-cpu.json"
    assert command.main(["differences", str(file)]) == 0
    assert "of which 0 failed unexplained" in capsys.readouterr().out
    profiles = {record["profile"] for record in json.loads(file.read_text())["records"]}
    assert {"torch-1.10", "torch-2.12", "torch-2.15"} <= profiles


def test_what_differs_from_the_documents_is_a_table(tmp_path):
    (cell,) = [
        cell
        for cell in cells()
        if (cell.op, cell.device, cell.profile, cell.sample.name)
        == ("new_empty", "cpu", "torch-2.12", "integer")
    ]
    about = {**releases.for_release(cell, "2.13").about, "check": "fill"}
    records = [
        report.from_property(about, "passed", 0.0),
        report.from_property({**about, "op": "take", "detail": "expected: a | b"}, "failed", 0.0),
        report.from_property({**about, "op": "take", "detail": "3 != 4"}, "failed", 0.0),
    ]
    report.write(tmp_path / "report.json", {"torch": "2.13.0"}, records)
    text = pytorch_differences.markdown(tmp_path / "report.json")
    assert "Found with torch 2.13.0, on cpu: 3 checks, of which 1 failed unexplained." in text
    assert "| new_empty | forward | cpu | torch-2.12 | unaffected | fill | Erratum of R0074" in text
    assert "| take | forward | cpu | integer | a \\| b |" in text
