"""The tables of differences between a report and PyTorch's documents."""

import json
from pathlib import Path

import conformance
from conformance import __main__ as command
from conformance.reporting import pytorch_differences, report
from conformance.suite import releases
from conformance.suite.cells import cells


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
