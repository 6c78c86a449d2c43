"""The records of a report, from calls that were checked."""

import dataclasses

from conformance.lab.compiled import report_records
from conformance.reporting import report
from conformance.tests.lab.compiled.examples import checked_call


def test_records_are_one_for_each_row_behaviour_and_target(tmp_path):
    calls = [
        checked_call(),
        checked_call(profile="torch-2.12"),
        checked_call(target="a100"),
        checked_call(behaviour="raise"),
    ]
    records = list(report_records.records(calls))
    assert [(r.lowering, r.profile, r.check, r.evidence) for r in records] == [
        ("h200", None, "compiled", "compiled"),
        ("a100", "complete", "compiled", "compiled"),
        ("h200", "complete", "compiled, warn only", None),
    ]
    assert records[0].detail == "2 programs, 2 kernels, at most 3 launches"
    assert len({record.key for record in records}) == len(records)
    report.write(tmp_path / "r.json", {}, records)
    assert report.read(tmp_path / "r.json").strongest() == {("R0001", "cuda"): "compiled"}


def test_a_record_states_which_sort_stands_in_for_that_of_the_device():
    details = {
        sorts: next(report_records.records([checked_call(sorts=sorts)])).detail
        for sorts in ((), ("CUB",), ("XLA",))
    }
    assert "stands in" in details["XLA",]
    assert "stands in" not in details[()] + details["CUB",]


def test_a_record_fails_with_each_fault():
    (failed,) = report_records.records([checked_call("it races: x"), checked_call()])
    assert (failed.outcome, failed.detail) == ("failed", "R0001-index_add-complete: it races: x")


def test_a_whole_program_has_a_check_and_details_of_its_own():
    about = {"op": "sum", "device": "cuda", "behaviour": "deterministic"}
    call = dataclasses.replace(checked_call(), about=about, detail="1 launches, 32 bytes")
    (record,) = report_records.records([call])
    assert (record.check, record.detail) == ("program compiled", "1 launches, 32 bytes")
